"""The page's source in `berth whatif serve`: the objects that questions are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.reading import UNREADABLE, Reader
from berth.config.types import KubeSchedulerConfiguration

from ..page.polling import Look, follow
from ..page.rows import NodeRow, PodRow, node_row, pod_row
from ..page.source import Change
from ..page.story import NOTHING_RECORDED, Story, story_of
from .documents import Document, Documents
from .warm import Warm


class WarmSource:
    """The Source of a cluster without a scheduler. Stories have neither events nor attempts."""

    schedules = False

    def __init__(
        self,
        warm: Warm,
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
        clock: Clock,
    ) -> None:
        self._warm = warm
        self._configuration = configuration
        self._gates = gates
        self._clock = clock
        self._node, self._pod = Reader(Node).convert, Reader(Pod).convert

    async def glance(self) -> None:
        return None

    async def follow(self, put: Callable[[Change], None]) -> None:
        async def look() -> Look[Document]:
            return await self._warm.ask(_look)

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

    async def story(self, namespace: str, name: str) -> Story | None:
        return await self._warm.ask(partial(self._told, namespace, name))

    def _told(self, namespace: str, name: str, documents: Documents) -> Story | None:
        pod = documents.document("Pod", name, namespace)
        if pod is None:
            return None
        objects = documents.all()
        return story_of(pod, (), objects, NOTHING_RECORDED, self._configuration, self._gates)


def _look(documents: Documents) -> Look[Document]:
    nodes = {place[2]: document for place, document in documents.every("Node")}
    pods = {f"{place[1]}/{place[2]}": document for place, document in documents.every("Pod")}
    return nodes, pods
