"""The page's source in `berth whatif serve`: the objects that questions are about."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.reading import UNREADABLE, Reader

from ..page.polling import Look, follow
from ..page.rows import NodeRow, PodRow, node_row, pod_row
from ..page.source import Change
from ..page.story import NOTHING_RECORDED, Story, undecided
from .beside import Beside
from .frames import StoryAsked
from .refusals import RefusedError
from .warm import Document, Warm

NODES, PODS = ("v1", "Node"), ("v1", "Pod")


class WarmSource:
    """The Source of a cluster without a scheduler. Stories have neither events nor attempts."""

    schedules = False

    def __init__(self, warm: Warm, beside: Beside, clock: Clock) -> None:
        self._warm = warm
        self._beside = beside
        self._clock = clock
        self._node, self._pod = Reader(Node).convert, Reader(Pod).convert

    async def glance(self) -> None:
        return None

    async def follow(self, put: Callable[[Change], None]) -> None:
        async def look() -> Look[Document]:
            objects = await self._warm.objects()
            return objects.get(NODES, {}), objects.get(PODS, {})

        await follow(look, self._node_row, self._pod_row, put, self._clock)

    def _node_row(self, document: Document) -> NodeRow | None:
        try:
            return node_row(self._node(document))
        except UNREADABLE:
            return None

    def _pod_row(self, document: Document) -> PodRow | None:
        try:
            return pod_row(self._pod(document))
        except UNREADABLE:
            return None

    async def story(self, namespace: str, name: str) -> Story | msgspec.Raw | None:
        pod = (await self._warm.objects()).get(PODS, {}).get(f"{namespace}/{name}")
        if pod is None:
            return None
        try:
            return await self._beside.story(StoryAsked(namespace, name, NOTHING_RECORDED, []))
        except RefusedError as refused:
            return undecided(self._pod(pod), NOTHING_RECORDED, str(refused))
