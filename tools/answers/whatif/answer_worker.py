"""A process that answers what-ifs about the cluster of another one, which tells it all changes.

Frames come through standard input and leave through standard output. The process ends with its
input, and gives way to the one beside it. Once it knows the cluster, it may become TIMES as large
and MOST_MORE larger: a question that needs more is refused, and the process ends. If memory is
short, the kernel ends it before others.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from threading import Thread
from time import monotonic, sleep
from typing import Any, BinaryIO, NoReturn

import msgspec

from berth.actors.telemetry.logs import configure_logs
from berth.config.load import from_mapping

from ...kubernetes.api.types.api_documents import Place, place_of
from ..explain.answer_schema import answer_schema
from ..feed.story import story_of
from .conclusion import Result
from .memory import PROCESS, data_bytes
from .placement import TooLongError
from .question import (
    LENGTH,
    Answered,
    Asked,
    Changed,
    Configured,
    Frame,
    Question,
    Refusal,
    RefusedError,
    StoryAsked,
    Told,
    framed,
    question_of,
)
from .steps import StepError
from .trial import result_of
from .tried_documents import Document, Documents
from .verbs import steps_of

COLLECT = (100_000, 50, 100)
NICENESS = 10
TIMES, MOST_MORE = 2, 512 << 20  # bytes
FIRST_TO_END = "1000"
MOST_SECONDS = 10.0  # of an answer
TOO_MUCH = RefusedError(  # made while there is memory
    HTTPStatus.SERVICE_UNAVAILABLE, "", "the answer takes too much memory: ask for less"
)
_READY = Answered(HTTPStatus.NO_CONTENT, msgspec.Raw(b"null"))
_DECODER = msgspec.json.Decoder(Frame)


def answer(documents: Documents, question: Question, seconds: float = MOST_SECONDS) -> Result:
    """Returns the result of a question. The documents are unchanged afterwards.

    Raises RefusedError, also if it takes longer than `seconds`.
    """
    with answered(documents, question, seconds) as result:
        if isinstance(result, RefusedError):
            raise result
        return result


@contextmanager
def answered(
    documents: Documents, question: Question, seconds: float = MOST_SECONDS
) -> Iterator[Result | RefusedError]:
    """Yields the result of a question, or why there is none, and restores the documents after the
    block. That takes time, so the answer is sent within the block.
    """
    with documents.trial():
        try:
            result = _answer(documents, question, seconds)
        except MemoryError:
            result = TOO_MUCH
        yield result


def _answer(documents: Documents, question: Question, seconds: float) -> Result | RefusedError:
    try:
        return result_of(
            documents,
            steps_of(question.steps, files=False),
            question.seed,
            question.namespace,
            monotonic() + seconds,
            every_node=question.nodes == "all",
        )
    except StepError as problem:
        field = f"steps[{problem.number - 1}]"
        return RefusedError(HTTPStatus.BAD_REQUEST, field, str(problem))
    except TooLongError:
        message = f"the answer takes longer than {seconds:g} seconds: ask for less"
        return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "", message)


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of the question, the answer and the refusal."""
    kinds = {"question": Question, "answer": Result, "refusal": Refusal}
    return answer_schema("berth whatif", kinds)


class Replica:
    """A copy of the cluster that is made from frames."""

    def __init__(self) -> None:
        self._first: dict[Place, Document] = {}
        self._configured: Configured | None = None
        self._documents: Documents | None = None

    def take(self, frame: Frame, send: Callable[[Answered], None]) -> None:
        """Handles a frame. Sends the answer if the frame is a question."""
        match frame:
            case Configured():
                self._configured = frame
                if self._documents is not None:
                    self._documents = self._documents_of(self._documents.all())
            case Changed():
                self._change(frame)
            case Told():
                self._finish_cluster()
                send(_READY)
            case Asked(body):
                self._answer(body, send)
            case StoryAsked():
                send(self._story(frame))

    def _change(self, frame: Changed) -> None:
        for raw in frame.objects:
            document: Document = msgspec.json.decode(raw)
            document |= {"apiVersion": frame.api_version, "kind": frame.kind}
            if self._documents is None:
                self._first[place_of(document)] = document
            else:
                self._documents.put(document)
        for namespace, name in frame.gone:
            place = frame.kind, namespace, name
            if self._documents is None:
                self._first.pop(place, None)
            elif self._documents.document(frame.kind, name, namespace) is not None:
                self._documents.remove(place)

    def _answer(self, body: bytes, send: Callable[[Answered], None]) -> None:
        documents = self._finish_cluster()
        try:
            question = question_of(body)
        except RefusedError as refused:
            send(_refused(refused))
            return
        with answered(documents, question) as result:
            if result is TOO_MUCH:
                _exit_without_memory(send)
            send(_refused(result) if isinstance(result, RefusedError) else _answer_of(result))

    def _story(self, question: StoryAsked) -> Answered:
        documents = self._finish_cluster()
        pod = documents.document("Pod", question.name, question.namespace)
        if pod is None:
            return _refused(RefusedError(HTTPStatus.NOT_FOUND, "", "no such pod"))
        with documents.trial():
            ask = partial(documents.as_pending, place_of(pod))
            return _answer_of(story_of(pod, question.events, question.recorded, ask))

    def _finish_cluster(self) -> Documents:
        """Returns the cluster once all frames about it have come."""
        if self._documents is None:
            self._documents = self._documents_of(self._first.values())
            self._first = {}
            gc.collect()
            gc.freeze()  # A collection would visit all objects of the cluster.
            _limit_memory()
        return self._documents

    def _documents_of(self, documents: Any) -> Documents:
        assert self._configured is not None
        gates = self._configured.gates
        configuration = from_mapping(self._configured.configuration, gates)
        return Documents(documents, configuration, gates)


def _answer_of(result: msgspec.Struct) -> Answered:
    return Answered(HTTPStatus.OK, msgspec.Raw(msgspec.json.encode(result)))


def _refused(refused: RefusedError, *, last: bool = False) -> Answered:
    return Answered(refused.status, msgspec.Raw(msgspec.json.encode(refused.refusal)), last)


def _limit_memory() -> None:
    """Limits the process to TIMES the memory that it has now, and MOST_MORE. Other systems than
    Linux do not tell how much that is: there it has no limit.
    """
    if not PROCESS.is_dir():
        return
    limit = TIMES * data_bytes() + MOST_MORE
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY or limit < most:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def frames(read: Callable[[int], bytes]) -> Iterator[Frame]:
    """Yields the frames of an input until it ends."""
    while len(length := read(LENGTH)) == LENGTH:
        yield _DECODER.decode(read(int.from_bytes(length, "big")))


def main(source: BinaryIO, out: BinaryIO) -> None:
    def send(answer: Answered) -> None:
        out.write(framed(answer))
        out.flush()

    replica = Replica()
    try:
        for frame in frames(source.read):
            replica.take(frame, send)
    except MemoryError:
        _exit_without_memory(send)


def end_with_parent() -> None:
    """Ends this process soon after its parent has ended. A plugin that loops cannot prevent that,
    though nobody then reads the end of the input.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1.0)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _exit_without_memory(send: Callable[[Answered], None]) -> NoReturn:
    """Reports that there is too little memory, and ends the process at once, without the usual
    clean-up, for which there is no memory either.
    """
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    send(_refused(TOO_MUCH, last=True))
    os._exit(0)


if __name__ == "__main__":
    end_with_parent()
    configure_logs(quiet=True)
    gc.set_threshold(*COLLECT)
    os.nice(NICENESS)
    if PROCESS.is_dir():
        (PROCESS / "oom_score_adj").write_text(FIRST_TO_END)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What a plugin prints is no answer.
    with suppress(BrokenPipeError):  # Nobody waits for the answer any more.
        main(sys.stdin.buffer, answers)
