"""Listers: the objects that the informers hold, for plugins, outside of decisions.

Plugins read them directly and not by a message, as kube-scheduler's plugins read the listers of its
informers. Objects that a plugin assumes go to the cache, which owns the objects that decisions
read. A task that waits for an object is woken in the turn in which the informer took the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

import anyio

from ..mailboxes import Mailboxes
from ..messages.cache import AssumeObject, RestoreObject
from ..runtime.clock import Clock
from ..runtime.race import race
from ..scheduling.framework.handle import NO_LABELS, ObjectKey
from ..scheduling.framework.handle_values import check_assumed
from ..scheduling.framework.status import Status
from ..scheduling.kube.meta import HasMetadata, key
from ..scheduling.model.cluster_objects import UnlistedError
from .label_index import LabelIndex

# The labels of a kind by which it is indexed, as plugins ask for them.
MOST_INDEXES = 8

T = TypeVar("T", bound=HasMetadata)


def selected(items: Iterable[T], namespace: str, labels: Mapping[str, str]) -> Sequence[T]:
    """Returns the objects of a namespace, "" for all, that have these labels."""
    wanted = labels.items()
    return [
        item
        for item in items
        if namespace in ("", item.metadata.namespace) and wanted <= item.metadata.labels.items()
    ]


class InformerView(Protocol):
    """The part of an informer that listers need."""

    def objects(self) -> Mapping[str, Any]: ...

    def unlisted(self) -> str: ...


class Listers:
    """The handle's Objects for plugins."""

    def __init__(self, mailboxes: Mailboxes, clock: Clock) -> None:
        self._cache = mailboxes.cache
        self._clock = clock
        self._informers: dict[type[Any], InformerView] = {}
        self._waiting: dict[tuple[type[Any], str], dict[anyio.Event, None]] = {}
        self._indexes: dict[type[Any], dict[str, LabelIndex[Any]]] = {}

    def follow(self, kind: type[Any], informer: InformerView) -> None:
        """Takes the objects of the kind from this informer from now on."""
        self._informers[kind] = informer
        self._indexes.pop(kind, None)

    def changed(self, kind: type[Any], item: HasMetadata) -> None:
        """Takes a change that the informer has made, and wakes the tasks that wait for this
        object.
        """
        if kind in self._indexes:
            name = key(item)
            present = self._informers[kind].objects().get(name)
            for index in self._indexes[kind].values():
                index.put(name, present)
        if self._waiting:
            for changed in self._waiting.get((kind, key(item)), ()):
                changed.set()

    # --------------------------------------------------------------------------------- for plugins

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        return self._objects(kind).get(f"{namespace}/{name}" if namespace else name)

    def every(self, kind: type[T]) -> Iterable[T]:
        return tuple(self._objects(kind).values())  # tasks wait in loops over them

    def select(
        self, kind: type[T], namespace: str = "", labels: Mapping[str, str] = NO_LABELS
    ) -> Sequence[T]:
        items = self._objects(kind)
        if labels:
            label = min(labels)
            items = self._index(kind, label, items).of(labels[label])
        return selected(items.values(), namespace, labels)

    def assume(self, item: HasMetadata) -> None:
        check_assumed(item)
        self._cache.tell(AssumeObject(item))

    def restore(self, item: HasMetadata) -> None:
        check_assumed(item)
        self._cache.tell(RestoreObject(item))

    async def wait_for(
        self, check: Callable[[], Status | Sequence[ObjectKey]], seconds: float
    ) -> Status | None:
        until = self._clock.now() + seconds
        while not isinstance(result := check(), Status):
            if not self._clock.now() < until:  # nor if it is no number
                return None
            await self._change_of(result, until)
        return result

    async def _change_of(self, keys: Sequence[ObjectKey], until: float) -> None:
        """Returns at the next change of one of the objects, or at this time."""
        changed = anyio.Event()
        places = {(kind, f"{space}/{name}" if space else name) for kind, space, name in keys}
        for place in places:
            self._waiting.setdefault(place, {})[changed] = None
        try:
            await race(lambda: self._clock.sleep(until - self._clock.now()), changed.wait)
        finally:
            for place in places:
                waiting = self._waiting[place]
                waiting.pop(changed, None)
                if not waiting:
                    del self._waiting[place]

    def _index(self, kind: type[T], label: str, items: Mapping[str, T]) -> LabelIndex[T]:
        """Returns the index of a kind by a label, which is kept from its first use on."""
        indexes = self._indexes.setdefault(kind, {})
        if label not in indexes:
            if len(indexes) >= MOST_INDEXES:
                del indexes[next(iter(indexes))]
            indexes[label] = LabelIndex(label, items)
        return indexes[label]

    def _objects(self, kind: type[T]) -> Mapping[str, T]:
        informer = self._informers.get(kind)
        problem = (
            f"no enabled plugin names {kind.__name__} in its lookups"
            if informer is None
            else informer.unlisted()
        )
        if problem:
            raise UnlistedError(problem)
        return cast("InformerView", informer).objects()
