"""The source of the page in a toy cluster: the store in this process, and the scheduler in
another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
from anyio import CapacityLimiter, to_thread

from berth.actors.attempt.attempts_page import AttemptsPage
from berth.actors.client.access import Calls
from berth.actors.client.rest import ApiError
from berth.actors.scheduling.kube.kinds import BY_KIND as WATCHED
from berth.actors.wiring.glance import Glance
from berth.config.types import KubeSchedulerConfiguration

from ...answers.feed.feed_source import Change, NodeGone, PodGone
from ...answers.feed.rows import pod_rows, row_of_node
from ...answers.feed.story import Story, as_pending, story_of
from ...answers.feed.watched_rows import put_rows
from ...cluster.controllers.embedded_access import EmbeddedAccess
from ...kubernetes.api.types.resources import BY_KIND
from .control_plane import SCHEDULED, is_of_control_plane

Document = dict[str, Any]
NODES, PODS = BY_KIND["v1", "Node"].path(), BY_KIND["v1", "Pod"].path()
PRIORITY_CLASSES = ("scheduling.k8s.io/v1", "PriorityClass")


class EmbeddedSource:
    """The Source of an embedded cluster.

    `glance` and `recorded` ask the scheduler, whose configuration and feature gates are used for
    the stories. Stories are made one at a time, in a thread. Without a scheduler of the demo's own
    (`schedules`), there is no glance.
    """

    def __init__(
        self,
        access: EmbeddedAccess,
        glance: Callable[[], Awaitable[Glance | None]],
        recorded: Callable[[str], Awaitable[AttemptsPage]],
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
        *,
        schedules: bool = True,
    ) -> None:
        self.schedules = schedules
        self._access = access
        self._glance = glance
        self._recorded = recorded
        self._configuration = configuration
        self._gates = gates
        self._telling = CapacityLimiter(1)

    async def glance(self) -> Glance | None:
        return await self._glance()

    async def follow(self, put: Callable[[Change], None]) -> None:
        nodes = self._access.follow(NODES, dict).changes()
        pods = self._access.follow(PODS, dict, SCHEDULED).changes()
        async with anyio.create_task_group() as group:
            await group.start(put_rows, nodes, _name, row_of_node, NodeGone, put)
            await put_rows(pods, _key, pod_rows(self._gates), PodGone, put)

    async def story(self, namespace: str, name: str, *, decides: bool = True) -> Story | None:
        objects = await objects_of(self._access)
        pod = next(
            (o for o in objects if o["kind"] == "Pod" and _key(o) == f"{namespace}/{name}"), None
        )
        if pod is None:
            return None
        events = await listed(self._access, "v1", "Event", BY_KIND["v1", "Event"].path(namespace))
        ask = partial(as_pending, pod, objects, self._configuration, self._gates)
        recorded = await self._recorded(f"{namespace}/{name}")
        return await to_thread.run_sync(story_of, pod, events, recorded, ask, limiter=self._telling)


async def objects_of(access: EmbeddedAccess) -> list[Document]:
    """Returns the objects of a cluster that decisions and their explanations read."""
    objects: list[Document] = []
    for (version, kind), watched in WATCHED.items():
        objects += await listed(access, version, kind, watched.path)
    return objects + await listed(access, *PRIORITY_CLASSES, BY_KIND[PRIORITY_CLASSES].path())


async def listed(access: Calls, version: str, kind: str, path: str) -> list[Document]:
    """Returns the objects of a kind, none if it is not served; no pods of the control plane."""
    try:
        answer = await access.call("GET", path, dict)
    except ApiError as refused:
        if refused.code == 404:
            return []
        raise
    return [
        {**item, "apiVersion": version, "kind": kind}
        for item in answer["items"]
        if kind != "Pod" or not is_of_control_plane(item)
    ]


def _name(document: Document) -> str:
    name: str = document["metadata"]["name"]
    return name


def _key(document: Document) -> str:
    return f"{document['metadata'].get('namespace', '')}/{_name(document)}"
