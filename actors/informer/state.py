"""The informer's store: the objects of one kind as last told, and what each telling changed. Pure.

A list that follows a broken watch is compared with the store, so that a deletion nobody told us of shows up as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from actors.kube.meta import HasMetadata, key

T = TypeVar("T", bound=HasMetadata)


class Change(msgspec.Struct, Generic[T], frozen=True):
    """old is None for an object that is new, new is None for one that is gone."""

    old: T | None
    new: T | None


class InformerState(Generic[T]):
    def __init__(self) -> None:
        self._objects: dict[str, T] = {}

    def listed(self, items: Iterable[T]) -> Iterator[list[Change[T]]]:
        """Object by object everything there is: what is new or changed or neither, then what is gone.

        An object is told when its turn comes, not before; others may have theirs between two of them.
        """
        names: set[str] = set()  # filled bit by bit: the collector stops for what is new and large
        for item in items:
            names.add(key(item))
            yield self.changed(item)
        for item in [item for name, item in self._objects.items() if name not in names]:
            yield self.deleted(item)

    def changed(self, new: T) -> list[Change[T]]:
        """An object as it is now. One of the same name but another uid means that the old one is gone."""
        name = key(new)
        old = self._objects.get(name)
        self._objects[name] = new
        if old is None:
            return [Change(None, new)]
        if old.metadata.uid != new.metadata.uid:
            return [Change(old, None), Change(None, new)]
        if old.metadata.resource_version == new.metadata.resource_version:
            return []
        return [Change(old, new)]

    def deleted(self, last: T) -> list[Change[T]]:
        old = self._objects.pop(key(last), None)
        return [] if old is None else [Change(old, None)]

    def objects(self) -> Mapping[str, T]:
        """All of them by key, as last told; a view, which the next telling changes."""
        return MappingProxyType(self._objects)

    def __len__(self) -> int:
        return len(self._objects)
