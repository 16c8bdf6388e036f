"""The informer's store: the objects of one kind as the API server last sent them, and the changes
that follow from each new state of an object. Pure.

A list that follows a broken watch is compared with the store, so an object that was deleted
meanwhile shows up as deleted. For an object that cannot be read a stand-in is in the store, or
nothing, until the object can be read again or is gone.

There is no `handle(message, now)` here: an informer has no mailbox and reads no time. Each method
takes a delivery of the source and returns the effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from ..scheduling.kube.meta import HasMetadata, key
from .stand_ins import last_or_part

T = TypeVar("T", bound=HasMetadata)
# (the object as it was last read, its readable part now) -> the object that counts in its place.
StandIn = Callable[[T | None, T], T | None]


class Change(msgspec.Struct, Generic[T], frozen=True):
    """A change of an object. `old` is None for a new object, `new` is None for a deleted one."""

    old: T | None
    new: T | None


class UnreadableItem(msgspec.Struct, Generic[T], frozen=True):
    """An object that cannot be read, and the reason. `last` is its last readable state, None if
    there was none.
    """

    kind: str
    key: str
    uid: str
    problem: str
    last: T | None = None


class BecameUnreadable(msgspec.Struct, Generic[T], frozen=True):
    item: UnreadableItem[T]


class NotUnreadable(msgspec.Struct, Generic[T], frozen=True):
    """An object that could not be read can be read again, or is gone."""

    item: UnreadableItem[T]


Effect = Change[T] | BecameUnreadable[T] | NotUnreadable[T]


class InformerState(Generic[T]):
    def __init__(self, stand_in: StandIn[T] = last_or_part) -> None:
        self._stand_in = stand_in
        self.version = 0  # of the objects
        self._objects: dict[str, T] = {}
        self._view = MappingProxyType(self._objects)
        self._unreadable: dict[str, UnreadableItem[T]] = {}

    def listed(
        self, items: Iterable[T], unread: Iterable[tuple[T, str]] = ()
    ) -> Iterator[list[Effect[T]]]:
        """Stores a list: yields the effects of each object in it, then of each missing object.

        An object is in the store once its effects are yielded, not before, so that other tasks may
        run in between. `unread` has the readable part of each object that cannot be read, and the
        problem.
        """
        names: set[str] = set()  # Filled bit by bit: a large new set would hold up the collector.
        for item in items:
            names.add(key(item))
            yield self.changed(item)
        for part, problem in unread:
            names.add(self._name_of(part))
            yield self.unread(part, problem)
        for item in [item for name, item in self._objects.items() if name not in names]:
            yield self.deleted(item)
        for name in [name for name in self._unreadable if name not in names]:
            yield self._remove_unreadable(name)

    def changed(self, new: T) -> list[Effect[T]]:
        """Stores a new state of an object. If a stored object has the same name and another uid,
        that one is gone.
        """
        name = key(new)
        old = self._objects.get(name)
        self._objects[name] = new
        self.version += 1
        effects: list[Effect[T]] = self._remove_unreadable(name) if self._unreadable else []
        if old is None:
            if self._unreadable:
                effects += self._remove_nameless(new.metadata.uid, name)
            return [*effects, Change(None, new)]
        if old.metadata.uid != new.metadata.uid:
            return [*effects, Change(old, None), Change(None, new)]
        if _is_same(old, new) and not effects:
            return []
        return [*effects, Change(old, new)]

    def unread(self, part: T, problem: str) -> list[Effect[T]]:
        """Stores a state of an object that cannot be read; `part` is its readable part."""
        name, uid = self._name_of(part), part.metadata.uid
        before, current = self._unreadable.get(name), self._objects.get(name)
        last = current if before is None else before.last
        current_uid = (
            current.metadata.uid if current is not None else "" if before is None else before.uid
        )
        effects: list[Effect[T]] = []
        if uid and current_uid and uid != current_uid:
            effects += self._put(name, current, None)
            before = last = current = None
        unreadable = UnreadableItem(type(part).__name__, name, uid or current_uid, problem, last)
        self._unreadable[name] = unreadable
        if before is None:
            effects += self._remove_nameless(uid, name)
            effects.append(BecameUnreadable(unreadable))
        if not part.metadata.name and last is None:
            return effects
        instead = self._stand_in(last, part)
        if instead is None and last is None:
            instead = current  # its readable part before
        return effects + self._put(name, current, instead)

    def deleted(self, last: T) -> list[Effect[T]]:
        """Removes a deleted object, which may be readable only in part."""
        name = self._name_of(last)
        effects: list[Effect[T]] = self._remove_unreadable(name) if self._unreadable else []
        old = self._objects.pop(name, None)
        self.version += 1
        return effects if old is None else [*effects, Change(old, None)]

    def objects(self) -> Mapping[str, T]:
        """Returns a read-only view of all objects by key, in which later changes show."""
        return self._view

    def unreadable(self) -> Mapping[str, UnreadableItem[T]]:
        """Returns the objects that cannot be read by key, as a read-only view."""
        return MappingProxyType(self._unreadable)

    def _put(self, name: str, current: T | None, instead: T | None) -> list[Effect[T]]:
        if instead == current:
            return []
        self.version += 1
        if instead is None:
            del self._objects[name]
        else:
            self._objects[name] = instead
        return [Change(current, instead)]

    def _remove_unreadable(self, name: str) -> list[Effect[T]]:
        item = self._unreadable.pop(name, None)
        return [] if item is None else [NotUnreadable(item)]

    def _remove_nameless(self, uid: str, name: str) -> list[Effect[T]]:
        """Removes an object that was stored without a readable name, and that this one turns out to
        be: the unreadable object with the same uid and another key.
        """
        effects: list[Effect[T]] = []
        for item in [
            item for item in self._unreadable.values() if item.uid == uid != "" and item.key != name
        ]:
            effects += self._remove_unreadable(item.key)
            effects += self._put(item.key, self._objects.get(item.key), None)
        return effects

    def _name_of(self, part: T) -> str:
        """Returns the key of an object that may be readable only in part. If part of its name may
        be missing, returns the key of the stored object with the same uid.
        """
        name, uid = key(part), part.metadata.uid
        complete = part.metadata.name and part.metadata.namespace
        if complete or not uid or name in self._objects or name in self._unreadable:
            return name
        readable = ((name, item.metadata.uid) for name, item in self._objects.items())
        unreadable = ((name, item.uid) for name, item in self._unreadable.items())
        return next((named for named, other in chain(readable, unreadable) if other == uid), name)


def _is_same(old: HasMetadata, new: HasMetadata) -> bool:
    """True for the same version of an object; mock servers give objects no version."""
    version = new.metadata.resource_version
    return old.metadata.resource_version == version and (bool(version) or old == new)
