"""A process beside this one that answers about a cluster, one question after another.

It starts with the first question, is told what has changed since the question before, and ends
when nobody has asked for some time. It runs `answer_worker`.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from itertools import compress
from math import inf
from operator import is_not
from typing import Protocol

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from berth.config.types import KubeSchedulerConfiguration

from .question import (
    LENGTH,
    Answered,
    Asked,
    Changed,
    Configured,
    Refusal,
    RefusedError,
    StoryAsked,
    Told,
    framed,
)

SLICE = 200  # objects of a frame
LOOKED_AT = 10_000  # objects that are compared before others have their turn
MOST_SECONDS = 60.0  # after which a process that takes no frame, or cannot read the cluster, ends
ANSWER_SECONDS = 20.0  # after which a process that does not answer is ended, as a plugin hangs
LAST_SECONDS = 1.0  # of a process that has closed its output
GONE = (
    BrokenPipeError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
)
# By apiVersion and kind, and then by namespace/name, or by name where there is no namespace.
Objects = Mapping[tuple[str, str], Mapping[str, object]]


class FollowedCluster(Protocol):
    """The cluster of the questions.

    Objects are replaced and never changed. The mapping of a kind in which no object has changed is
    the same mapping the next time.
    """

    @property
    def feature_gates(self) -> Mapping[str, bool]: ...

    async def configuration(self) -> KubeSchedulerConfiguration: ...

    async def objects(self) -> Objects: ...

    def json_of(self, item: object) -> msgspec.Raw: ...

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Starts a task that ends with the server at the latest."""
        ...


class AnswerProcess:
    """A process that answers one question at a time, and is kept as long as questions come."""

    def __init__(self, cluster: FollowedCluster, idle_seconds: float = inf) -> None:
        self._cluster = cluster
        self._idle_seconds = idle_seconds
        self._turn = anyio.Lock()
        self._worker: _Worker | None = None

    async def ask(self, question: bytes) -> Answered:
        """Returns the answer to the body of a question, about the cluster as it is now. Raises
        RefusedError if the process ends before it has answered.
        """
        return await self._ask(Asked(question))

    async def story(self, question: StoryAsked) -> msgspec.Raw | None:
        """Returns the story of a pod in JSON; None if there is no such pod. Raises RefusedError."""
        answered = await self._ask(question)
        if answered.status == HTTPStatus.NOT_FOUND:
            return None
        if answered.status != HTTPStatus.OK:
            refusal = msgspec.json.decode(answered.body, type=Refusal)
            raise RefusedError(HTTPStatus(answered.status), refusal.field, refusal.problem)
        return answered.body

    async def _ask(self, asked: Asked | StoryAsked) -> Answered:
        with anyio.move_on_after(ANSWER_SECONDS) as waiting:
            await self._turn.acquire()
        if waiting.cancelled_caught:
            problem = "another question is being answered: ask again later"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "", problem)
        try:
            worker = self._worker
            if worker is None or worker.ended:
                worker = self._worker = await _Worker.start()
                self._cluster.start(partial(worker.run, self._idle_seconds))
            return await worker.ask(self._cluster, asked)
        except GONE:
            problem = "the process that answers what-ifs has ended: ask again"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "", problem) from None
        finally:
            self._turn.release()


class _Worker:
    """A process, with the objects and the configuration that were sent to it."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._frames = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)
        self._sent: Objects = {}
        self._configuration: KubeSchedulerConfiguration | None = None
        self._asked_at = anyio.current_time()
        self._killed = False
        self._ready = False
        self._limit = MOST_SECONDS

    @classmethod
    async def start(cls) -> _Worker:
        command = [sys.executable, "-m", "berth.tools.answers.whatif.answer_worker"]
        # In a session of its own: Ctrl-C is for this process.
        return cls(await anyio.open_process(command, stderr=None, start_new_session=True))

    @property
    def ended(self) -> bool:
        return self._killed or self._process.returncode is not None

    async def run(self, idle_seconds: float) -> None:
        """Ends the process once no question has come for a while, and waits for its end."""
        async with self._process:
            while not self.ended and anyio.current_time() - self._asked_at < idle_seconds:
                with anyio.move_on_after(idle_seconds):
                    await self._process.wait()
            self._end()
        self._sent = {}

    def _end(self) -> None:
        if not self.ended:
            self._process.kill()
            self._killed = True

    async def ask(self, cluster: FollowedCluster, question: Asked | StoryAsked) -> Answered:
        """Ends the process if it cannot answer in time, or if nobody waits for the answer any more.

        Raises one of GONE, or RefusedError.
        """
        self._asked_at = anyio.current_time()
        self._limit = MOST_SECONDS
        answered = None
        try:
            await self._send_changes(cluster)
            if not self._ready:
                ready = await self._answer_to(Told(), MOST_SECONDS)
                self._ready = not ready.last
            answered = await self._answer_to(question, ANSWER_SECONDS) if self._ready else ready
        except TimeoutError:
            problem = f"no answer within {self._limit:g} seconds: ask for less"
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "", problem) from None
        except GONE:
            await self._wait_for_exit()
            raise
        finally:
            if answered is None:
                self._end()
        if answered.last:
            await self._wait_for_exit()
        return answered

    async def _answer_to(self, frame: Told | Asked | StoryAsked, seconds: float) -> Answered:
        self._limit = seconds
        with anyio.fail_after(seconds):
            await self._send(frame)
            return await self._answered()

    async def _wait_for_exit(self) -> None:
        """Waits for the end of a process that is about to end by itself. It is not killed
        meanwhile.
        """
        with anyio.move_on_after(LAST_SECONDS):
            await self._process.wait()

    async def _answered(self) -> Answered:
        length = int.from_bytes(await self._answers.receive_exactly(LENGTH), "big")
        return msgspec.json.decode(await self._answers.receive_exactly(length), type=Answered)

    async def _send(self, frame: msgspec.Struct) -> None:
        with anyio.fail_after(MOST_SECONDS):
            await self._frames.send(framed(frame))

    async def _send_changes(self, cluster: FollowedCluster) -> None:
        configuration = await cluster.configuration()
        if configuration is not self._configuration:
            document = msgspec.json.decode(msgspec.json.encode(configuration, enc_hook=str))
            await self._send(Configured(document, dict(cluster.feature_gates)))
            self._configuration = configuration
        objects = await cluster.objects()
        for kind, now in objects.items():
            before = self._sent.get(kind, {})
            if before is now:
                continue
            names, items = list(now), list(now.values())
            changed: list[str] = []
            for start in range(0, len(names), LOOKED_AT):
                part = slice(start, start + LOOKED_AT)
                differ = map(is_not, map(before.get, names[part]), items[part])
                changed += compress(names[part], differ)
                await anyio.lowlevel.checkpoint()
            if len(before) + sum(name not in before for name in changed) > len(now):
                gone = [_place(name) for name in before.keys() - now.keys()]
                await self._send(Changed(*kind, gone=gone))
            for start in range(0, len(changed), SLICE):
                part = slice(start, start + SLICE)
                documents = [cluster.json_of(now[name]) for name in changed[part]]
                await self._send(Changed(*kind, documents))
        self._sent = objects


def _place(name: str) -> tuple[str, str]:
    namespace, _, name = name.rpartition("/")
    return namespace, name
