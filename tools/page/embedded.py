"""The page's source in a toy cluster: the store of the process, and the scheduler beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
from anyio import CapacityLimiter, to_thread

from berth.actors.attempt.flights import AttemptsPage
from berth.actors.client.rest import ApiError
from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.kinds import BY_KIND as WATCHED
from berth.actors.scheduling.kube.reading import UNREADABLE, Reader
from berth.actors.wiring.glance import Glance
from berth.config.types import KubeSchedulerConfiguration

from ..apiserver.resources import BY_KIND
from ..hollow.embedded import Embedded
from .rows import node_row, pod_row
from .source import Change, NodeGone, PodGone
from .story import Story, story_of

Document = dict[str, Any]
PAUSE_EVERY = 200  # objects of a list, between which others have their turn
NODES, PODS = BY_KIND["v1", "Node"].path(), BY_KIND["v1", "Pod"].path()
PRIORITY_CLASSES = ("scheduling.k8s.io/v1", "PriorityClass")


class EmbeddedSource:
    """The Source of an embedded cluster. `glance` and `recorded` ask the scheduler, whose
    configuration and feature gates the stories use. One story is told at a time, in a thread.
    """

    def __init__(
        self,
        access: Embedded,
        glance: Callable[[], Awaitable[Glance]],
        recorded: Callable[[str], Awaitable[AttemptsPage]],
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
    ) -> None:
        self._access = access
        self._glance = glance
        self._recorded = recorded
        self._configuration = configuration
        self._gates = gates
        self._telling = CapacityLimiter(1)

    async def glance(self) -> Glance:
        return await self._glance()

    async def nodes(self) -> AsyncGenerator[Change]:
        read = Reader(Node).convert
        async for change in self._changes(
            NODES,
            lambda document: node_row(read(document)),
            lambda document: NodeGone(_name(document)),
        ):
            yield change

    async def pods(self) -> AsyncGenerator[Change]:
        read = Reader(Pod).convert
        async for change in self._changes(
            PODS, lambda document: pod_row(read(document)), lambda document: PodGone(_key(document))
        ):
            yield change

    async def _changes(
        self,
        path: str,
        row: Callable[[Document], Change],
        gone: Callable[[Document], Change],
    ) -> AsyncGenerator[Change]:
        """Yields the rows of the objects at a path, without those that cannot be read."""
        held: dict[str, Document] = {}
        async for change in self._access.follow(path, dict).changes():
            match change:
                case ObjectsListed(items):
                    listed = {_key(item): item for item in items}
                    for name in held.keys() - listed.keys():
                        yield gone(held[name])
                    held = listed
                    for number, item in enumerate(items):
                        if number % PAUSE_EVERY == 0:
                            await anyio.lowlevel.checkpoint()
                        try:
                            yield row(item)
                        except UNREADABLE:
                            continue
                case ObjectChanged(item):
                    held[_key(item)] = item
                    try:
                        yield row(item)
                    except UNREADABLE:
                        continue
                case ObjectDeleted(item):
                    held.pop(_key(item), None)
                    yield gone(item)

    async def story(self, namespace: str, name: str) -> Story | None:
        objects: list[Document] = []
        for (version, kind), watched in WATCHED.items():
            objects += await self._listed(version, kind, watched.path)
        objects += await self._listed(*PRIORITY_CLASSES, BY_KIND[PRIORITY_CLASSES].path())
        pod = next(
            (o for o in objects if o["kind"] == "Pod" and _key(o) == f"{namespace}/{name}"), None
        )
        if pod is None:
            return None
        events = await self._listed("v1", "Event", BY_KIND["v1", "Event"].path(namespace))
        return await to_thread.run_sync(
            story_of,
            pod,
            events,
            objects,
            await self._recorded(f"{namespace}/{name}"),
            self._configuration,
            self._gates,
            limiter=self._telling,
        )

    async def _listed(self, version: str, kind: str, path: str) -> list[Document]:
        try:
            listed = await self._access.call("GET", path, dict)
        except ApiError as refused:
            if refused.code == 404:
                return []
            raise
        return [{**item, "apiVersion": version, "kind": kind} for item in listed["items"]]


def _name(document: Document) -> str:
    name: str = document["metadata"]["name"]
    return name


def _key(document: Document) -> str:
    return f"{document['metadata'].get('namespace', '')}/{_name(document)}"
