"""The page of a running scheduler, on the port of its debug pages: it only reads.

It works in the thread of the server. Only while somebody looks, the scheduler's event loop gives it
copies: of the tables of nodes and pods twice a second, and a glance once a second.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import cast

import anyio
import msgspec

from berth.actors.attempt.attempts_page import AttemptsPage
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.kinds import NODES, PODS
from berth.actors.server.debug import NoAnswerError
from berth.actors.server.request import (
    JSON,
    NOSNIFF,
    NOT_ALLOWED,
    NOT_FOUND,
    Answer,
    Request,
    text,
)
from berth.actors.wiring.glance import Glance
from berth.actors.wiring.view import View

from ...answers.feed.feed import Feed, TooManyViewersError
from ...answers.feed.feed_source import Change
from ...answers.feed.offers import Offers
from ...answers.feed.poll import Look, follow
from ...answers.feed.rows import NodeRow, PodRow, node_row, pod_row
from ...answers.feed.story import NOTHING_RECORDED, Story, undecided
from .page_files import FILES, HEADERS, INDEX

GLANCE_SECONDS = 2.0
EVENTS = "text/event-stream"
NO_DECISION = (
    "Whoever may ask what-ifs of the scheduler (post /whatif) sees its decision here. "
    "berth explain {namespace}/{name} makes the decision as if the pod were pending now, with the "
    "verdict and the scores of each node."
)
WHATIF = "POST", "/whatif"  # the right to a decision
# Tells the story of a pod with its decision, or says why it has none; None if there is no such pod.
Tell = Callable[[str, str, AttemptsPage], Awaitable[msgspec.Raw | str | None]]
TO_INDEX = Answer(b"", 302, headers=(("Location", "ui/"), *NOSNIFF))
_headers = tuple((name, value) for name, value in HEADERS.items() if name != "Cache-Control")


class DaemonSource:
    """The Source of a running scheduler."""

    schedules = True

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._last: Glance | None = None

    async def glance(self) -> Glance | None:
        """Returns the present glance. If the scheduler does not answer, it is the last one, with
        the time for which the event loop has been blocked.
        """
        try:
            with anyio.fail_after(GLANCE_SECONDS):
                self._last = await self._view.glance()
        except (TimeoutError, NoAnswerError):
            if self._last is not None:
                self._last = msgspec.structs.replace(
                    self._last, still_seconds=self._view.still_for()
                )
        return self._last

    async def follow(self, put: Callable[[Change], None]) -> None:
        async def look() -> Look[Node | Pod]:
            objects = await self._view.objects(NODES, PODS)
            return (
                cast("Mapping[str, Node]", objects[NODES]),
                cast("Mapping[str, Pod]", objects[PODS]),
            )

        await follow(look, _node_row, _pod_row, put, self._clock)

    async def story(
        self, namespace: str, name: str, tell: Tell | None = None
    ) -> Story | msgspec.Raw | None:
        """Returns the story of a pod without events, which the scheduler does not read, and with
        the decision that `tell` makes.
        """
        key = f"{namespace}/{name}"
        pod = (await self._view.objects(PODS))[PODS].get(key)
        if pod is None:
            return None
        assert isinstance(pod, Pod)
        recorded = await self._view.recorded(key) or NOTHING_RECORDED
        if tell is None:
            return undecided(pod, recorded, NO_DECISION.format(namespace=namespace, name=name))
        story = await tell(namespace, name, recorded)
        return undecided(pod, recorded, story) if isinstance(story, str) else story


def _node_row(item: Node | Pod) -> NodeRow:
    assert isinstance(item, Node)
    return node_row(item)


def _pod_row(item: Node | Pod) -> PodRow:
    assert isinstance(item, Pod)
    return pod_row(item)


class DaemonPage:
    """The answers at /ui and below.

    Whether the client may have them is decided before the page is called; decisions are only for
    clients that may also ask what-ifs.
    """

    def __init__(self, view: View, clock: Clock, tell: Tell) -> None:
        self._tell = tell
        self._source = DaemonSource(view, clock)
        self._feed = Feed(self._source, clock)

    async def run(self) -> None:
        """Serves viewers until cancelled."""
        await self._feed.run()

    async def show(self, request: Request) -> Answer:
        """Raises NoAnswerError."""
        if request.method not in ("GET", "HEAD"):
            return NOT_ALLOWED
        match request.path.split("/")[2:]:
            case []:
                return TO_INDEX
            case ["feed"]:
                if self._feed.is_full:
                    return text("too many viewers\n", 503)
                return Answer(
                    self._events(), content_type=EVENTS, headers=_headers, is_endless=True
                )
            case ["offers"]:
                return _json(Offers())
            case ["pods", namespace, name]:
                tell = self._tell if await request.may(*WHATIF) else None
                story = await self._source.story(namespace, name, tell)
                return NOT_FOUND if story is None else _json(story)
            case [name] if (name or INDEX) in FILES:
                file = FILES[name or INDEX]
                return Answer(file.body, content_type=file.content_type, headers=_headers)
            case _:
                return NOT_FOUND

    async def _events(self) -> AsyncGenerator[bytes, None]:
        try:
            with self._feed.viewer() as viewer:
                async for event in viewer.events():
                    yield event
        except TooManyViewersError:
            return


def _json(document: msgspec.Struct | msgspec.Raw) -> Answer:
    return Answer(msgspec.json.encode(document), content_type=JSON, headers=_headers)
