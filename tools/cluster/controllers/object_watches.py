"""Watches that keep the objects of a controller or driver up to date, one for each kind."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus

from berth.actors.client.interruption import KindUnlisted
from berth.actors.client.watch import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    Unreadable,
    WatchUpdate,
)
from berth.actors.scheduling.framework.logger import get_logger
from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.meta import HasMetadata, key

from ...kubernetes.api.types.resources import Kind
from ...kubernetes.object_index import ObjectChange, ObjectIndex
from .cluster_access import Changes, ClusterAccess, Heartbeat, Renewed

log = get_logger(__name__)


class Watches:
    """The watches of a cluster.

    Each list, and each event with news, calls `changed`. Leases that were renewed together call
    `renewed`, with their namespaces and names. A heartbeat calls `heartbeat_of`.
    """

    def __init__(
        self,
        cluster: ObjectIndex,
        access: ClusterAccess,
        changed: Callable[[Sequence[ObjectChange]], None],
        renewed: Callable[[Iterable[tuple[str, str]]], None] = lambda _: None,
        heartbeat_of: Callable[[ObjectChange], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._access = access
        self._changed = changed
        self._renewed = renewed
        self._heartbeat_of = heartbeat_of

    async def follow_all(
        self, kinds: Iterable[tuple[Kind, type[HasMetadata]]], group: TaskGroup
    ) -> None:
        """Follows kinds in a group, and returns once all are listed."""
        async with anyio.create_task_group() as listing:
            for kind, type_ in kinds:
                read = partial(self._read_watch, type_)
                if type_ is not Lease and self._access.follow_later(
                    group, kind.path(), type_, read
                ):
                    self._cluster.note_none(type_)
                else:
                    listing.start_soon(group.start, self.follow, kind, type_)

    async def follow(
        self,
        kind: Kind,
        type_: type[HasMetadata],
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Follows one kind until cancelled; started after the first list, or without one if the API
        server does not serve the kind: then there are no objects, until it does.
        """
        if type_ is Lease:
            await self._read(type_, self._access.follow_leases(), task_status=task_status)
        else:
            changes = self._access.follow(kind.path(), type_).changes()
            await self._read(type_, changes, task_status=task_status)

    async def _read_watch(self, type_: type[HasMetadata], watch: Changes[Any]) -> None:
        await self._read(type_, watch.changes())

    async def _read(
        self,
        type_: type[HasMetadata],
        changes: AsyncGenerator[WatchUpdate[Any] | Renewed],
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        listed = False
        async for event in changes:
            match event:
                case Renewed(leases):
                    self._cluster.renew(leases)
                    self._renewed(leases)
                case Heartbeat(node):
                    change = self._cluster.put(node)
                    if change is not None:
                        self._heartbeat_of(change)
                case ObjectChanged(obj):
                    self._pass_on(self._cluster.put(obj))
                case ObjectsListed(items, unreadable, version):
                    for item in unreadable:
                        _warn(item.part, item.problem)
                    parts = [item.part for item in unreadable]
                    self._changed(self._cluster.replace(type_, items, parts, version))
                case Unreadable(part, problem):
                    _warn(part, problem)
                    self._pass_on(self._cluster.put(part, readable=False))
                case ObjectDeleted(obj):
                    self._pass_on(self._cluster.remove(obj))
            if not listed and isinstance(event, ObjectsListed | KindUnlisted):
                listed = isinstance(event, ObjectsListed) or event.absent
                if listed:
                    task_status.started()

    def _pass_on(self, change: ObjectChange | None) -> None:
        if change is not None:
            self._changed((change,))


def _warn(part: HasMetadata, problem: str) -> None:
    log.warning("object cannot be read", kind=type(part).__name__, object=key(part), why=problem)
