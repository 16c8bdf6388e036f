"""A cluster in memory that a watch keeps up to date. Its objects are replaced and never changed.

A thread reads each object to see whether it can be read; the event loop stays free.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Any

import anyio
import anyio.to_thread
import click
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from berth.actors.client.interruption import KindUnlisted
from berth.actors.client.read_only import ReadOnlyClient
from berth.actors.client.rest import Connection
from berth.actors.client.watch import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    Reflector,
    WatchUpdate,
)
from berth.actors.runtime.clock import Clock, SystemClock
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.reading import Reader
from berth.actors.telemetry.klog import printable
from berth.config.types import KubeSchedulerConfiguration

from ..explain.cluster_source import REQUIRED, SourceError, can_be_read, paths_of
from ..explain.decider import Explainer
from ..explain.document_cluster import decoded
from ..feed.feed_source import Change
from ..feed.poll import Look, follow
from ..feed.rows import pod_rows, row_of_node
from ..feed.story import NOTHING_RECORDED, Story, undecided
from .answer_process import AnswerProcess
from .question import RefusedError, StoryAsked
from .start_cluster import BESIDES

Document = dict[str, Any]
Update = WatchUpdate[Document]
MOST_UPDATES = 500  # that a thread reads at a time
Kind = tuple[str, str]  # apiVersion and kind
Changes = list[tuple[str, Document | None]]  # what takes the place of a name, None for nothing

NODES, PODS = ("v1", "Node"), ("v1", "Pod")


class WarmCluster:
    """The objects of a cluster, kept up to date by a watch; `tasks` run as long as it is used.

    Raises SourceError, ConfigError or RegistryError.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
        tasks: TaskGroup,
    ) -> None:
        self._configuration = configuration
        self.feature_gates = gates
        self._tasks = tasks
        self._kinds = Explainer(configuration, gates).kinds  # Says what is wrong with it.
        self._objects: dict[Kind, dict[str, Document]] = {}
        self._copies: dict[Kind, dict[str, Document]] = {}
        self._updates: list[tuple[Kind, Update]] = []
        self._arrived = anyio.Event()
        self._thread = anyio.CapacityLimiter(1)
        for document in documents:
            try:
                list(decoded(document, self._kinds))
            except msgspec.ValidationError as invalid:
                raise SourceError(str(invalid)) from None
            kind = document["apiVersion"], document["kind"]
            self._objects.setdefault(kind, {})[_name(document)] = document

    async def configuration(self) -> KubeSchedulerConfiguration:
        return self._configuration

    async def objects(self) -> Mapping[Kind, Mapping[str, Document]]:
        """Returns the objects at one moment.

        The mapping of a kind in which no object has changed is the same mapping as before.
        """
        for kind, objects in self._objects.items():
            if kind not in self._copies:
                self._copies[kind] = dict(objects)
        return dict(self._copies)

    def json_of(self, item: object) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(item))

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.start_soon(_done, work)

    async def follow(self, connection: Connection, *, task_status: TaskStatus[None]) -> None:
        """Follows the cluster until cancelled; started means that every kind is listed. Raises
        SourceError if the nodes or the pods may not be listed.
        """
        paths = paths_of(self._kinds, BESIDES)
        async with ReadOnlyClient(connection) as client, anyio.create_task_group() as group:
            await client.call("GET", "/version", dict)  # A reflector would try for ever.
            async with anyio.create_task_group() as listing:
                for kind, path in paths.items():
                    reflector = Reflector(client, path, dict, SystemClock(), Random())
                    listed = anyio.Event()
                    group.start_soon(self._watch, reflector, kind, listed)
                    listing.start_soon(listed.wait)
            await self._catch_up()
            task_status.started()
            while True:
                await self._arrived.wait()
                await self._catch_up()

    async def _watch(self, reflector: Reflector[Document], kind: Kind, listed: anyio.Event) -> None:
        async for update in reflector.changes():
            if isinstance(update, KindUnlisted) and kind in REQUIRED:
                raise SourceError(f"{kind[1]}: {update.problem}")
            self._updates.append((kind, update))
            self._arrived.set()
            listed.set()

    async def _catch_up(self) -> None:
        while self._updates:
            batch, self._updates = self._updates[:MOST_UPDATES], self._updates[MOST_UPDATES:]
            read = partial(self._read, batch)
            for kind, changed in await anyio.to_thread.run_sync(read, limiter=self._thread):
                self._change(kind, changed)
        self._arrived = anyio.Event()

    def _read(self, updates: list[tuple[Kind, Update]]) -> list[tuple[Kind, Changes]]:
        """Reads the objects of updates, and returns the changes."""
        return [(kind, self._changes(kind, update)) for kind, update in updates]

    def _changes(self, kind: Kind, update: Update) -> Changes:
        match update:
            case ObjectsListed(items):
                gone = self._objects.get(kind, {}).keys() - {_name(item) for item in items}
                return [*dict.fromkeys(gone).items(), *self._put(kind, items)]
            case ObjectChanged(item):
                return self._put(kind, [item])
            case ObjectDeleted(item):
                return [(_name(item), None)]
            case KindUnlisted(problem, absent) if not absent:
                click.echo(printable(f"{kind[1]}: {problem}"), err=True)
        return []

    def _put(self, kind: Kind, items: Iterable[Document]) -> Changes:
        changes: Changes = []
        objects = self._objects.get(kind, {})
        for item in items:
            name = _name(item)
            document = {**item, "apiVersion": kind[0], "kind": kind[1]}
            version = document["metadata"].get("resourceVersion")
            before = objects.get(name)
            same = before is not None and before["metadata"].get("resourceVersion") == version
            if not version or not same:
                readable = can_be_read(document, self._kinds)
                changes.append((name, document if readable else None))
        return changes

    def _change(self, kind: Kind, changes: Changes) -> None:
        objects = self._objects.setdefault(kind, {})
        for name, document in changes:
            if document is None:
                objects.pop(name, None)
            else:
                objects[name] = document
        if changes:
            self._copies.pop(kind, None)


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

        await follow(look, row_of_node, pod_rows(self._warm.feature_gates), put, self._clock)

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


def _name(document: Document) -> str:
    metadata = document.get("metadata") or {}
    return "/".join(filter(None, (metadata.get("namespace"), metadata.get("name", ""))))


async def _done(work: Callable[[], Awaitable[None]]) -> None:
    await work()
