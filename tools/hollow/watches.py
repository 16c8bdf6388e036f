"""Keeps the objects of a controller or driver up to date, kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyio.abc import TaskStatus

from berth.actors.client.watch import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    Unreadable,
)
from berth.actors.runtime.logger import get_logger
from berth.actors.scheduling.kube.meta import HasMetadata, key

from ..apiserver.resources import Kind
from .access import Access
from .cluster import Change, Cluster
from .objects import T

log = get_logger(__name__)


class Watches:
    """The watches of a cluster. Each list and each event with news leads to a call of `changed`."""

    def __init__(
        self,
        cluster: Cluster,
        access: Access,
        changed: Callable[[Sequence[Change]], None],
    ) -> None:
        self._cluster = cluster
        self._access = access
        self._changed = changed

    async def follow(self, kind: Kind, type_: type[T], *, task_status: TaskStatus[None]) -> None:
        """Follows one kind until cancelled; started after the first list."""
        listed = False
        async for event in self._access.follow(kind.path(), type_).changes():
            match event:  # most changes are of this type
                case ObjectChanged(obj):
                    self._tell(self._cluster.put(obj))
                case ObjectsListed(items, unreadable):
                    for part in unreadable:
                        _warn(part.rest, part.problem)
                    parts = [part.rest for part in unreadable]
                    self._changed(self._cluster.replace(type_, items, parts))
                    if not listed:
                        task_status.started()
                        listed = True
                case Unreadable(rest, problem):
                    _warn(rest, problem)
                    self._tell(self._cluster.put(rest, readable=False))
                case ObjectDeleted(obj):
                    self._tell(self._cluster.remove(obj))

    def _tell(self, change: Change | None) -> None:
        if change is not None:
            self._changed((change,))


def _warn(rest: HasMetadata, problem: str) -> None:
    log.warning("object cannot be read", kind=type(rest).__name__, object=key(rest), why=problem)
