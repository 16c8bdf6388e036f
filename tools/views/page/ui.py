"""The page `/ui` of a running scheduler, on the port of its debug pages. It is read-only.

It works in the thread of the server. Only while somebody looks, the scheduler's event loop gives it
copies: of the tables of nodes and pods twice a second, and a glance once a second. Decisions come
from the process that answers what-ifs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import anyio
import msgspec

from berth.actors.runtime.clock import Clock, SystemClock
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.kinds import NODES, PODS
from berth.actors.server.debug import NoAnswerError
from berth.actors.server.site import Page
from berth.actors.wiring.glance import Glance
from berth.actors.wiring.view import View

from ...answers.feed.feed import Feed
from ...answers.feed.feed_source import Change
from ...answers.feed.poll import Look, follow
from ...answers.feed.rows import NodeRow, PodRow, node_row, pod_row
from ...answers.feed.story import NOTHING_RECORDED, Story, undecided
from ...answers.whatif.question import RefusedError, StoryAsked
from ...answers.whatif.whatif_endpoint import Turns, answer_process_of
from .page import ClusterPage

GLANCE_SECONDS = 2.0
NO_DECISION = (
    "Whoever may ask what-ifs of the scheduler (post /whatif) sees its decision here. "
    "berth explain {namespace}/{name} makes the decision as if the pod were pending now, with the "
    "verdict and the scores of each node."
)


def make(view: View) -> Page:
    """Returns the page /ui. Its feed works as long as the server does.

    Whether the client may have it is decided before it is called; decisions are only for clients
    that may also ask what-ifs.
    """
    clock = SystemClock()
    source = DaemonSource(view, clock)
    feed = Feed(source, clock)
    view.start(feed.run)
    return ClusterPage(source, feed).show


class DaemonSource:
    """The Source of a running scheduler."""

    schedules = True

    def __init__(self, view: View, clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._last: Glance | None = None
        self._process = view.shared(answer_process_of)
        self._turns = Turns()

    async def glance(self) -> Glance | None:
        """Returns the present glance. If the scheduler does not answer, returns the last one with
        the time for which its event loop has been blocked.
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
        self, namespace: str, name: str, *, decides: bool = True
    ) -> Story | msgspec.Raw | None:
        """Returns the story of a pod without events, which the scheduler does not read."""
        key = f"{namespace}/{name}"
        pod = (await self._view.objects(PODS))[PODS].get(key)
        if pod is None:
            return None
        assert isinstance(pod, Pod)
        recorded = await self._view.recorded(key) or NOTHING_RECORDED
        if not decides:
            return undecided(pod, recorded, NO_DECISION.format(namespace=namespace, name=name))
        try:
            with self._turns.taken():
                return await self._process.story(StoryAsked(namespace, name, recorded, None))
        except RefusedError as refused:
            return undecided(pod, recorded, str(refused))


def _node_row(item: Node | Pod) -> NodeRow:
    assert isinstance(item, Node)
    return node_row(item)


def _pod_row(item: Node | Pod) -> PodRow:
    assert isinstance(item, Pod)
    return pod_row(item)
