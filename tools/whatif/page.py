"""The page `/whatif` of a running scheduler: what-ifs about the cluster as the scheduler sees it.

A process beside the scheduler answers, so that decisions wait for no what-if. It starts with the
first question, is told what has changed since the question before, and ends when nobody has asked
for IDLE_SECONDS.
"""

from __future__ import annotations

import sys
from functools import partial
from http import HTTPStatus
from itertools import compress
from operator import is_not

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.meta import HasMetadata, key
from berth.actors.scheduling.kube.whole import json_of
from berth.actors.server.request import (
    JSON,
    MOST_BYTES,
    NOT_FOUND,
    Answer,
    BodyTooLongError,
    Request,
)
from berth.actors.server.site import Page
from berth.actors.wiring.view import Objects, View
from berth.config.types import KubeSchedulerConfiguration

from .question import RefusedError, Turns, schema
from .worker import LENGTH, Answered, Asked, Changed, Configured, framed

IDLE_SECONDS = 900.0
SLICE = 200  # objects of a frame
LOOKED_AT = 10_000  # objects that are compared before others have their turn
BODY_SECONDS = 10.0  # in which a question arrives
MOST_SECONDS = 60.0  # after which a process that does not answer is ended
LAST_SECONDS = 1.0  # of a process that has closed its output
GONE = (
    BrokenPipeError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
)


def make(view: View) -> Page:
    return _Answers(Beside(view)).show


class _Answers:
    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._turns = Turns()

    async def show(self, request: Request) -> Answer:
        try:
            match request.method, request.path:
                case (("GET" | "HEAD"), "/whatif/schema"):
                    return _answer(200, msgspec.json.encode(schema()))
                case "POST", "/whatif":
                    with self._turns.taken():
                        body = await _body(request)
                        answered = await self._beside.ask(body)
                        return _answer(answered.status, bytes(answered.body))
                case _, "/whatif/schema":
                    return _not_allowed("GET, HEAD")
                case _, "/whatif":
                    return _not_allowed("POST")
                case _:
                    return NOT_FOUND
        except BodyTooLongError:
            problem = f"the question is too long: expected at most {MOST_BYTES} bytes"
            return _refused(RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", problem))
        except RefusedError as refused:
            return _refused(refused)


async def _body(request: Request) -> bytes:
    """Returns the body of a question, which has a turn. Raises RefusedError, BodyTooLongError."""
    try:
        with anyio.fail_after(BODY_SECONDS):
            return await request.body()
    except TimeoutError:
        problem = f"expected the question within {BODY_SECONDS:g} seconds"
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "", problem) from None


def _answer(status: int, body: bytes, **headers: str) -> Answer:
    return Answer(body, status, JSON, (*headers.items(), ("X-Content-Type-Options", "nosniff")))


def _not_allowed(methods: str) -> Answer:
    return _answer(405, b"", Allow=methods)


def _refused(refused: RefusedError) -> Answer:
    return _answer(refused.status, msgspec.json.encode(refused.refusal), **refused.headers)


class Beside:
    """Keeps the process while it is asked. It has one question at a time."""

    def __init__(self, view: View, idle_seconds: float = IDLE_SECONDS) -> None:
        self._view = view
        self._idle_seconds = idle_seconds
        self._turn = anyio.Lock()
        self._worker: _Worker | None = None

    async def ask(self, question: bytes) -> Answered:
        """Returns the answer to the body of a question, about the cluster as it is now. Raises
        RefusedError if the process ends before it has answered.
        """
        async with self._turn:
            worker = self._worker
            if worker is None or worker.ended:
                worker = self._worker = await _Worker.start()
                self._view.start(partial(worker.run, self._idle_seconds))
            try:
                return await worker.ask(self._view, question)
            except GONE:
                problem = "the process that answers what-ifs has ended: ask again"
                raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "", problem) from None


class _Worker:
    """A process, and what it was told: the objects, and the configuration."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._frames = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)
        self._told: Objects = {}
        self._configuration: KubeSchedulerConfiguration | None = None
        self._asked_at = anyio.current_time()

    @classmethod
    async def start(cls) -> _Worker:
        command = [sys.executable, "-m", "berth.tools.whatif.worker"]
        # In a session of its own: Ctrl-C is for the scheduler.
        return cls(await anyio.open_process(command, stderr=None, start_new_session=True))

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    async def run(self, idle_seconds: float) -> None:
        """Waits until the process ends, and ends it when it was not asked for so long."""
        async with self._process:
            while not self.ended and anyio.current_time() - self._asked_at < idle_seconds:
                with anyio.move_on_after(idle_seconds):
                    await self._process.wait()
            self._end()
        self._told = {}

    def _end(self) -> None:
        if not self.ended:
            self._process.kill()

    async def ask(self, view: View, question: bytes) -> Answered:
        """Ends the process if it cannot answer in time, or if nobody waits for the answer any more.

        Raises one of GONE, or RefusedError.
        """
        self._asked_at = anyio.current_time()
        answered = None
        try:
            await self._tell(view)
            await self._frames.send(framed(Asked(question)))
            with anyio.fail_after(MOST_SECONDS):
                answered = await self._answered()
        except TimeoutError:
            problem = f"no answer within {MOST_SECONDS:g} seconds: ask for less"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "", problem) from None
        except GONE:
            with anyio.move_on_after(LAST_SECONDS):  # No kill comes between its end and its wait.
                await self._process.wait()
            raise
        finally:
            if answered is None:
                self._end()
        return answered

    async def _answered(self) -> Answered:
        length = int.from_bytes(await self._answers.receive_exactly(LENGTH), "big")
        return msgspec.json.decode(await self._answers.receive_exactly(length), type=Answered)

    async def _tell(self, view: View) -> None:
        configuration = await view.configuration()
        if configuration is not self._configuration:
            document = msgspec.json.decode(msgspec.json.encode(configuration, enc_hook=str))
            await self._frames.send(framed(Configured(document, dict(view.feature_gates))))
            self._configuration = configuration
        objects = await view.objects()
        for kind, now in objects.items():
            before = self._told.get(kind, {})
            if before is now:
                continue
            names, items = list(now), list(now.values())
            new: list[HasMetadata] = []
            for start in range(0, len(names), LOOKED_AT):
                part = slice(start, start + LOOKED_AT)
                differ = map(is_not, map(before.get, names[part]), items[part])
                new += compress(items[part], differ)
                await anyio.lowlevel.checkpoint()
            if len(before) + sum(key(item) not in before for item in new) > len(now):
                places = [before[name].metadata for name in before.keys() - now.keys()]
                gone = [(place.namespace, place.name) for place in places]
                await self._frames.send(framed(Changed(kind.api_version, kind.kind, gone=gone)))
            for start in range(0, len(new), SLICE):
                documents = [_json_of(item) for item in new[start : start + SLICE]]
                await self._frames.send(framed(Changed(kind.api_version, kind.kind, documents)))
        self._told = objects


def _json_of(item: HasMetadata) -> msgspec.Raw:
    return json_of(item) if isinstance(item, Pod | Node) else msgspec.Raw(msgspec.json.encode(item))
