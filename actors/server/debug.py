"""The debug pages, as JSON: /debug/cache, comparison, queue, waiting, unreadable, plugins,
glance, pods/NS/NAME, attempts/NS/NAME.

A message asks the owner of each state for it. A large answer is requested and sent in parts, so
that it blocks neither the owner nor the scheduler's event loop. Pods that wait on Permit are read
directly, as plugins read them, because the binding actor does not run without the lease. All of
this happens in the scheduler's event loop; the encoding happens in the server's. Times are in
seconds of Unix time. kube-scheduler only dumps its state to its log.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from functools import partial
from typing import TypeVar

import anyio
import anyio.lowlevel
import msgspec

from ..attempt.attempts_page import AttemptsPage, PodNow
from ..messages.binding import WaitingPodDump
from ..messages.cache import NodeDump
from ..messages.comparison import Difference
from ..messages.queue import (
    DumpQueued,
    ListQueued,
    QueuedPodDump,
    QueueMessage,
    ShowStory,
    StoryStep,
)
from ..runtime.ask import ask
from ..runtime.clock import Clock
from ..runtime.mailbox import Mailbox, MailboxClosedError
from ..runtime.other_loop import OtherLoop
from ..scheduling.framework.breaker import BreakerDump
from ..scheduling.kube.core import Pod
from ..scheduling.kube.reading import UnreadableObject
from .request import JSON, NOT_FOUND, Answer, Request, text

ANSWER_SECONDS = 30.0
SLICE = 200  # pods of the queue that one message asks for
_T = TypeVar("_T")


class CachePage(msgspec.Struct, frozen=True):
    nodes: tuple[NodeDump, ...]


class ComparisonPage(msgspec.Struct, frozen=True):
    differences: tuple[Difference, ...]


class QueuePage(msgspec.Struct, frozen=True):
    pods: tuple[QueuedPodDump, ...]


class WaitingPage(msgspec.Struct, frozen=True):
    pods: tuple[WaitingPodDump, ...]


class PluginsPage(msgspec.Struct, frozen=True):
    plugins: tuple[BreakerDump, ...]


class UnreadablePage(msgspec.Struct, frozen=True):
    objects: tuple[UnreadableObject, ...]


class PodPage(msgspec.Struct, frozen=True):
    """A pod in the queue or on Permit, with its latest moves, which are kept after its deletion."""

    queued: QueuedPodDump | None
    waiting: WaitingPodDump | None
    story: tuple[StoryStep, ...]


class NoAnswerError(Exception):
    """An actor has stopped, or does not answer in time."""


def _unknown(_key: str) -> Pod | None:
    return None


class Debug(msgspec.Struct, frozen=True):
    """The answers of the debug pages. The functions are called in the event loop of the scheduler,
    `elsewhere`.

    `nodes` returns the cache's nodes in parts, `compare` the differences from the API server,
    `waiting` the pods that wait on Permit, and `unreadable` the objects that cannot be read.
    `attempts` returns the recorded attempts of a pod; it is None without a flight recorder.
    `glance` returns the state of the queue and the scheduler, and `pod` a pod as the API server
    shows it. `standstill` says where the event loop is blocked, "" if it is not; it is called in
    the server's.
    """

    nodes: Callable[[], AsyncGenerator[tuple[NodeDump, ...], None]]
    compare: Callable[[], Awaitable[tuple[Difference, ...]]]
    queue: Mailbox[QueueMessage]
    waiting: Callable[[], tuple[WaitingPodDump, ...]]
    clock: Clock
    unreadable: Callable[[], Iterable[UnreadableObject]] = tuple
    attempts: Callable[[str], AttemptsPage] | None = None
    glance: Callable[[], Awaitable[msgspec.Struct]] | None = None
    pod: Callable[[str], Pod | None] = _unknown
    standstill: Callable[[], str] = str
    breakers: Callable[[], tuple[BreakerDump, ...]] = tuple

    async def show(self, request: Request, elsewhere: OtherLoop) -> Answer:
        """Returns the page at a path below /debug/."""
        try:
            match request.path.removeprefix("/debug/").split("/"):
                case ["cache"]:
                    return await _send_in_parts("nodes", self.nodes(), elsewhere)
                case ["queue"]:
                    return await _send_in_parts("pods", self._queued(), elsewhere)
                case ["comparison"]:
                    page: msgspec.Struct = ComparisonPage(await answered(elsewhere, self.compare))
                case ["waiting"]:
                    page = WaitingPage(await answered(elsewhere, self._waiting_pods))
                case ["unreadable"]:
                    page = UnreadablePage(await answered(elsewhere, self._unreadable_objects))
                case ["plugins"]:
                    page = PluginsPage(await answered(elsewhere, self._breakers))
                case ["glance"] if self.glance is not None:
                    page = await answered(elsewhere, self.glance)
                case ["pods", namespace, name] if namespace and name:
                    return await self._show_pod(f"{namespace}/{name}", elsewhere)
                case ["attempts", namespace, name] if self.attempts is not None and name:
                    page = await answered(elsewhere, partial(self.recorded, f"{namespace}/{name}"))
                case _:
                    return NOT_FOUND
        except NoAnswerError as problem:
            return text(f"no answer: {self.standstill() or problem}\n", 503)
        return _page(page)

    async def recorded(self, key: str) -> AttemptsPage:
        """Returns the recorded attempts of a pod, in the scheduler's event loop. Needs the flight
        recorder.
        """
        assert self.attempts is not None
        story = self._in_unix_time(await self._story(key))
        pod = self.pod(key)
        now = None if pod is None else PodNow.of(pod)
        waiting = self._waiting_of(key)
        return msgspec.structs.replace(self.attempts(key), story=story, pod=now, waiting=waiting)

    def _waiting_of(self, key: str) -> WaitingPodDump | None:
        return next((pod for pod in self.waiting() if pod.key == key), None)

    async def _show_pod(self, key: str, elsewhere: OtherLoop) -> Answer:
        story = await answered(elsewhere, partial(self._story, key))
        queued = await answered(elsewhere, partial(self._dump, (key,)))
        all_waiting = await answered(elsewhere, self._waiting_pods)
        waiting = next((pod for pod in all_waiting if pod.key == key), None)
        if not (story or queued or waiting):
            return text(f"{key}: not in the queue, and no story of it is remembered\n", 404)
        return _page(
            PodPage(
                self._in_wall_time(queued[0]) if queued else None,
                waiting,
                self._in_unix_time(story),
            )
        )

    async def _waiting_pods(self) -> tuple[WaitingPodDump, ...]:
        return self.waiting()

    async def _breakers(self) -> tuple[BreakerDump, ...]:
        return self.breakers()

    async def _unreadable_objects(self) -> tuple[UnreadableObject, ...]:
        return tuple(sorted(self.unreadable()))

    async def _queued(self) -> AsyncGenerator[tuple[QueuedPodDump, ...], None]:
        keys: tuple[str, ...] = await ask(self.queue, ListQueued)
        for start in range(0, len(keys), SLICE):
            await (
                anyio.lowlevel.checkpoint()
            )  # An idle queue answers in this very turn, without a wait.
            yield tuple(map(self._in_wall_time, await self._dump(keys[start : start + SLICE])))

    async def _dump(self, keys: tuple[str, ...]) -> tuple[QueuedPodDump, ...]:
        return await ask(self.queue, lambda reply: DumpQueued(reply, keys))

    async def _story(self, key: str) -> tuple[StoryStep, ...]:
        return await ask(self.queue, lambda reply: ShowStory(reply, key))

    def _in_wall_time(self, pod: QueuedPodDump) -> QueuedPodDump:
        return msgspec.structs.replace(pod, story=self._in_unix_time(pod.story))

    def _in_unix_time(self, story: Sequence[StoryStep]) -> tuple[StoryStep, ...]:
        """Returns a story whose times are converted to Unix time."""
        epoch = self.clock.wall().timestamp() - self.clock.now()
        return tuple(msgspec.structs.replace(step, at=round(epoch + step.at, 3)) for step in story)


def _page(page: msgspec.Struct) -> Answer:
    return Answer(msgspec.json.encode(page), content_type=JSON)


async def answered(elsewhere: OtherLoop, work: Callable[[], Awaitable[_T]]) -> _T:
    """Returns the answer of an actor. Raises NoAnswerError."""
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            return await elsewhere(work)
    except (TimeoutError, MailboxClosedError) as problem:
        raise NoAnswerError(str(problem)) from None


async def _send_in_parts(
    field: str, parts: AsyncGenerator[Sequence[msgspec.Struct], None], elsewhere: OtherLoop
) -> Answer:
    """Sends an object that has one list, part by part. An error between parts ends the
    connection.
    """

    async def following() -> Sequence[msgspec.Struct] | None:
        return await anext(parts, None)

    first = await answered(elsewhere, following)

    async def encoded() -> AsyncGenerator[bytes, None]:
        part, separator = first, b""
        try:
            yield b'{"%s":[' % field.encode()
            while part is not None:
                if part:
                    yield separator + msgspec.json.encode(part)[1:-1]
                    separator = b","
                part = await answered(elsewhere, following)
            yield b"]}"
        finally:
            await elsewhere(parts.aclose)

    return Answer(encoded(), content_type=JSON)
