"""The page's source in `berth whatif serve`: the objects that questions are about."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.reading import Reader

from ..feed.feed_source import Change
from ..feed.poll import Look, follow
from ..feed.rows import row_of_node, row_of_pod
from ..feed.story import NOTHING_RECORDED, Story, undecided
from .answer_process import AnswerProcess
from .frames import StoryAsked
from .question_refusals import RefusedError
from .warm_cluster import Document, WarmCluster

NODES, PODS = ("v1", "Node"), ("v1", "Pod")


class WarmSource:
    """The Source of a cluster without a scheduler. Stories have neither events nor attempts."""

    schedules = False

    def __init__(self, warm: WarmCluster, beside: AnswerProcess, clock: Clock) -> None:
        self._warm = warm
        self._beside = beside
        self._clock = clock

    async def glance(self) -> None:
        return None

    async def follow(self, put: Callable[[Change], None]) -> None:
        async def look() -> Look[Document]:
            objects = await self._warm.objects()
            return objects.get(NODES, {}), objects.get(PODS, {})

        await follow(look, row_of_node, row_of_pod, put, self._clock)

    async def story(
        self, namespace: str, name: str, *, decides: bool = True
    ) -> Story | msgspec.Raw | None:
        pod = (await self._warm.objects()).get(PODS, {}).get(f"{namespace}/{name}")
        if pod is None:
            return None
        try:
            return await self._beside.story(StoryAsked(namespace, name, NOTHING_RECORDED, []))
        except RefusedError as refused:
            return undecided(Reader(Pod).convert(pod), NOTHING_RECORDED, str(refused))
