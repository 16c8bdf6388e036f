"""The state of the scheduler, over HTTP as JSON: /debug/cache, comparison, queue, waiting,
unreadable, pods/NS/NAME.

The owner of each state is asked by a message. A large answer is asked for and sent in parts, so
that it blocks neither the owner nor the event loop. Pods that wait on Permit are read directly, as
plugins read them, because the binding actor does not run without the lease. Times are in seconds of
Unix time. kube-scheduler only dumps to its log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import anyio
import anyio.lowlevel
import msgspec
from aiohttp import web

from berth.actors.messages import (
    Difference,
    DumpQueued,
    ListQueued,
    NodeDump,
    QueuedPodDump,
    QueueMessage,
    ShowStory,
    StoryStep,
    UnreadableObject,
    WaitingPodDump,
)
from berth.actors.runtime.ask import ask
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.mailbox import Mailbox, MailboxClosedError

ANSWER_SECONDS = 30.0
SLICE = 200  # pods of the queue that are asked for at once
JSON = "application/json"
_T = TypeVar("_T")


class CachePage(msgspec.Struct, frozen=True):
    nodes: tuple[NodeDump, ...]


class ComparisonPage(msgspec.Struct, frozen=True):
    differences: tuple[Difference, ...]


class QueuePage(msgspec.Struct, frozen=True):
    pods: tuple[QueuedPodDump, ...]


class WaitingPage(msgspec.Struct, frozen=True):
    pods: tuple[WaitingPodDump, ...]


class UnreadablePage(msgspec.Struct, frozen=True):
    objects: tuple[UnreadableObject, ...]


class PodPage(msgspec.Struct, frozen=True):
    """One pod: in the queue, on Permit, and its latest moves, which are kept even if it is gone."""

    queued: QueuedPodDump | None
    waiting: WaitingPodDump | None
    story: tuple[StoryStep, ...]


class Debug:
    """`nodes` returns the cache's nodes in parts, `compare` the differences from the API server,
    `waiting` the pods that wait on Permit, and `unreadable` the objects that cannot be read.
    """

    def __init__(
        self,
        nodes: Callable[[], AsyncIterator[tuple[NodeDump, ...]]],
        compare: Callable[[], Awaitable[tuple[Difference, ...]]],
        queue: Mailbox[QueueMessage],
        waiting: Callable[[], tuple[WaitingPodDump, ...]],
        clock: Clock,
        unreadable: Callable[[], Iterable[UnreadableObject]] = tuple,
    ) -> None:
        self._nodes = nodes
        self._compare = compare
        self._queue = queue
        self._waiting = waiting
        self._clock = clock
        self._unreadable = unreadable

    def routes(self) -> tuple[web.RouteDef, ...]:
        return (
            web.get("/debug/cache", self._show_cache),
            web.get("/debug/comparison", self._show_comparison),
            web.get("/debug/queue", self._show_queue),
            web.get("/debug/waiting", self._show_waiting),
            web.get("/debug/unreadable", self._show_unreadable),
            web.get("/debug/pods/{namespace}/{name}", self._show_pod),
        )

    async def _show_cache(self, request: web.Request) -> web.StreamResponse:
        return await _sent(request, "nodes", self._nodes())

    async def _show_comparison(self, _: web.Request) -> web.Response:
        return _page(ComparisonPage(await answered(self._compare())))

    async def _show_queue(self, request: web.Request) -> web.StreamResponse:
        return await _sent(request, "pods", self._queued())

    async def _show_waiting(self, _: web.Request) -> web.Response:
        return _page(WaitingPage(self._waiting()))

    async def _show_unreadable(self, _: web.Request) -> web.Response:
        return _page(UnreadablePage(tuple(sorted(self._unreadable()))))

    async def _show_pod(self, request: web.Request) -> web.Response:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        story, queued = await answered(self._story(key)), await answered(self._dump((key,)))
        waiting = next((pod for pod in self._waiting() if pod.key == key), None)
        if not (story or queued or waiting):
            raise web.HTTPNotFound(
                text=f"{key}: not in the queue, and no story of it is remembered\n"
            )
        return _page(
            PodPage(self._dated(queued[0]) if queued else None, waiting, self._in_unix_time(story))
        )

    async def _queued(self) -> AsyncIterator[tuple[QueuedPodDump, ...]]:
        keys: tuple[str, ...] = await ask(self._queue, ListQueued)
        for start in range(0, len(keys), SLICE):
            await (
                anyio.lowlevel.checkpoint()
            )  # An idle queue answers in this very turn, without a wait.
            yield tuple(map(self._dated, await self._dump(keys[start : start + SLICE])))

    async def _dump(self, keys: tuple[str, ...]) -> tuple[QueuedPodDump, ...]:
        return await ask(self._queue, lambda reply: DumpQueued(reply, keys))

    async def _story(self, key: str) -> tuple[StoryStep, ...]:
        return await ask(self._queue, lambda reply: ShowStory(reply, key))

    def _dated(self, pod: QueuedPodDump) -> QueuedPodDump:
        return msgspec.structs.replace(pod, story=self._in_unix_time(pod.story))

    def _in_unix_time(self, story: Sequence[StoryStep]) -> tuple[StoryStep, ...]:
        """A story, with its times in Unix time."""
        epoch = self._clock.wall().timestamp() - self._clock.now()
        return tuple(msgspec.structs.replace(step, at=round(epoch + step.at, 3)) for step in story)


def _page(page: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(page), content_type=JSON)


async def answered(coming: Awaitable[_T]) -> _T:
    """Return the answer of an actor. Raises 503 if it has stopped, or does not answer in time."""
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            return await coming
    except (TimeoutError, MailboxClosedError) as problem:
        raise web.HTTPServiceUnavailable(text=f"no answer: {problem}\n") from None


async def _sent(
    request: web.Request, field: str, parts: AsyncIterator[Sequence[msgspec.Struct]]
) -> web.StreamResponse:
    """Send an object with one list, part by part. An error after the first part ends the
    connection.
    """
    part = await answered(anext(parts, None))
    response = web.StreamResponse(headers={"Content-Type": JSON})
    await response.prepare(request)
    await response.write(b'{"%s":[' % field.encode())
    separator = b""
    while part is not None:
        if part:
            await response.write(separator + msgspec.json.encode(part)[1:-1])
            separator = b","
        part = await answered(anext(parts, None))
    await response.write(b"]}")
    return response
