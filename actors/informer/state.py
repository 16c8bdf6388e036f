"""The informer's store: the objects of one kind as last told, and what each telling changed. Pure.

A list that follows a broken watch is compared with the store, so that a deletion nobody told us of
shows up as one. An object that cannot be read is here as what stands in for it, or not at all,
until it can be read again or is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec
from berth.actors.informer.stand_ins import last_or_rest
from berth.actors.scheduling.kube.meta import HasMetadata, key

T = TypeVar("T", bound=HasMetadata)
# (the object as it was last read, what can be read of it now) -> what counts in its place, None for
# nothing.
StandIn = Callable[[T | None, T], T | None]


class Change(msgspec.Struct, Generic[T], frozen=True):
    """old is None for an object that is new, new is None for one that is gone."""

    old: T | None
    new: T | None


class Unreadable(msgspec.Struct, Generic[T], frozen=True):
    """An object that cannot be read, and why; `last` is how it was read last, None if it never
    was.
    """

    kind: str
    key: str
    uid: str
    problem: str
    last: T | None = None


class InformerState(Generic[T]):
    def __init__(self, stand_in: StandIn[T] = last_or_rest) -> None:
        self._stand_in = stand_in
        self._objects: dict[str, T] = {}
        self._unreadable: dict[str, Unreadable[T]] = {}
        self._news: list[tuple[Unreadable[T], bool]] = []

    def listed(
        self, items: Iterable[T], unread: Iterable[tuple[T, str]] = ()
    ) -> Iterator[list[Change[T]]]:
        """Object by object everything there is: what is new or changed or neither, then what is
        gone.

        An object is told when its turn comes, not before; others may have theirs between two of
        them. `unread` are what can be read of those that cannot be, each with the problem.
        """
        names: set[str] = set()  # filled bit by bit: the collector stops for what is new and large
        for item in items:
            names.add(key(item))
            yield self.changed(item)
        for rest, problem in unread:
            names.add(self._name_of(rest))
            yield self.unread(rest, problem)
        for item in [item for name, item in self._objects.items() if name not in names]:
            yield self.deleted(item)
        for name in [name for name in self._unreadable if name not in names]:
            self._end_of_unreadable(name)

    def changed(self, new: T) -> list[Change[T]]:
        """An object as it is now. One of the same name but another uid means that the old one is
        gone.
        """
        name = key(new)
        old = self._objects.get(name)
        self._objects[name] = new
        again = bool(self._unreadable) and self._end_of_unreadable(name)
        if old is None:
            ended = self._end_of_nameless(new.metadata.uid, name) if self._unreadable else ()
            return [*ended, Change(None, new)]
        if old.metadata.uid != new.metadata.uid:
            return [Change(old, None), Change(None, new)]
        if old.metadata.resource_version == new.metadata.resource_version and not again:
            return []
        return [Change(old, new)]

    def unread(self, rest: T, problem: str) -> list[Change[T]]:
        """An object is new or has changed, and cannot be read; `rest` is what can be read of it."""
        name, uid = self._name_of(rest), rest.metadata.uid
        before, known = self._unreadable.get(name), self._objects.get(name)
        last = known if before is None else before.last
        known_uid = (
            known.metadata.uid if known is not None else "" if before is None else before.uid
        )
        changes: list[Change[T]] = []
        if uid and known_uid and uid != known_uid:
            changes = self._put(name, known, None)
            before = last = known = None
        found = Unreadable(type(rest).__name__, name, uid or known_uid, problem, last)
        self._unreadable[name] = found
        if before is None:
            changes += self._end_of_nameless(uid, name)
            self._news.append((found, True))
        if not rest.metadata.name and last is None:
            return changes
        instead = self._stand_in(last, rest)
        if instead is None and last is None:
            instead = known  # what could be read of it before
        return changes + self._put(name, known, instead)

    def deleted(self, last: T) -> list[Change[T]]:
        """An object is gone; what can be read of it is enough."""
        name = self._name_of(last)
        if self._unreadable:
            self._end_of_unreadable(name)
        old = self._objects.pop(name, None)
        return [] if old is None else [Change(old, None)]

    def objects(self) -> Mapping[str, T]:
        """All of them by key, as last told; a view, which the next telling changes."""
        return MappingProxyType(self._objects)

    def unreadable(self) -> Mapping[str, Unreadable[T]]:
        """Those that cannot be read, by key; a view."""
        return MappingProxyType(self._unreadable)

    def take_news(self) -> Sequence[tuple[Unreadable[T], bool]]:
        """The objects that cannot be read any more (True), or can again or are gone (False), since
        this was asked.
        """
        if not self._news:
            return ()
        news, self._news = self._news, []
        return news

    def _put(self, name: str, known: T | None, instead: T | None) -> list[Change[T]]:
        if instead == known:
            return []
        if instead is None:
            del self._objects[name]
        else:
            self._objects[name] = instead
        return [Change(known, instead)]

    def _end_of_unreadable(self, name: str) -> bool:
        found = self._unreadable.pop(name, None)
        if found is not None:
            self._news.append((found, False))
        return found is not None

    def _end_of_nameless(self, uid: str, name: str) -> list[Change[T]]:
        """What could not be read of this uid was the object of this name in a state of which not
        even that could be.
        """
        changes: list[Change[T]] = []
        for found in [
            found
            for found in self._unreadable.values()
            if found.uid == uid != "" and found.key != name
        ]:
            self._end_of_unreadable(found.key)
            changes += self._put(found.key, self._objects.get(found.key), None)
        return changes

    def _name_of(self, rest: T) -> str:
        """The key of an object of which not all may be readable: if it may lack a part, that of the
        one of its uid.
        """
        name, uid = key(rest), rest.metadata.uid
        complete = rest.metadata.name and rest.metadata.namespace
        if complete or not uid or name in self._objects or name in self._unreadable:
            return name
        named = ((name, item.metadata.uid) for name, item in self._objects.items())
        unreadable = ((name, found.uid) for name, found in self._unreadable.items())
        return next((known for known, its in chain(named, unreadable) if its == uid), name)
