"""ClusterObjects: the objects that plugins look up by kind and name, such as Services.

Pods and nodes are not among them. An object can be assumed: a plugin has decided on a change that
the API server does not know yet, and the next decision must see it. Mirrors the listers of the
framework, and kube-scheduler's assume caches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from ..kube.meta import HasMetadata, SchedulersOwn, version_of
from .change_log import ChangeLog

T = TypeVar("T", bound=HasMetadata)
# The namespace ("" for an object without one) and the name of an object.
ObjectName = tuple[str, str]


class UnlistedError(Exception):
    """The objects of a kind are unknown, so that an empty result would be wrong. The message is the
    reason.
    """


class ClusterObjects:
    """The objects that plugins look up. Owned by the cache.

    Look-ups raise UnlistedError for a kind that the API server has not listed. Invariant: an object
    is assumed only while the API server has a version of it, which is not newer.
    """

    def __init__(self) -> None:
        self._objects: dict[type[Any], dict[str, dict[str, Any]]] = {}
        self._changes: defaultdict[type[Any], ChangeLog[ObjectName]] = defaultdict(ChangeLog)
        self._unlisted: dict[type[Any], str] = {}
        # The API server's versions of the objects that are assumed.
        self._stored: dict[tuple[type[Any], ObjectName], Any] = {}

    def kind_listed(self, kind: type[HasMetadata], problem: str = "") -> None:
        """Records that all objects of a kind are known, or why they are not."""
        if problem:
            self._unlisted[kind] = problem
        else:
            self._unlisted.pop(kind, None)

    def put(self, item: HasMetadata) -> None:
        """Stores the API server's version of an object. An assumed version stays if it is as new or
        newer.
        """
        kind, name = type(item), _name_of(item)
        if (kind, name) in self._stored:
            assumed = self._objects[kind][name[0]][name[1]]
            same = assumed.metadata.uid == item.metadata.uid
            if same and _is_no_newer(item, assumed) and not self._arrives(item, assumed):
                self._stored[kind, name] = item
                return
            del self._stored[kind, name]
        self._write(item)

    def _arrives(self, item: HasMetadata, assumed: HasMetadata) -> bool:
        """True if the API server's version is the one that was assumed before it came."""
        stored = self._stored[type(item), _name_of(item)]
        version: str = item.metadata.resource_version
        before: str = stored.metadata.resource_version
        return before != version == assumed.metadata.resource_version

    def remove(self, item: HasMetadata) -> None:
        """Removes an object; does nothing if there is none."""
        kind, name = type(item), _name_of(item)
        self._stored.pop((kind, name), None)
        if self._objects.get(kind, {}).get(name[0], {}).pop(name[1], None) is not None:
            self._changes[kind].add(name)

    # ------------------------------------------------------------------------------------- assuming

    def assume(self, item: HasMetadata) -> str:
        """Makes look-ups return this version until the API server has a newer one.

        Returns the reason if it is refused: the API server has no such object, or a newer version
        already. The API server's own version is no assumption: it ends an earlier assumption. An
        object of a kind that only the scheduler has exists until it is restored.
        """
        kind, name = type(item), _name_of(item)
        if isinstance(item, SchedulersOwn):
            self._write(item)
            return ""
        current = self._objects.get(kind, {}).get(name[0], {}).get(name[1])
        if current is None:
            return f"{kind.__name__} {'/'.join(filter(None, name))} does not exist"
        stored = self._stored.get((kind, name), current)
        is_same = stored.metadata.resource_version == item.metadata.resource_version
        if stored.metadata.uid != item.metadata.uid or not (
            is_same or version_of(item) > version_of(stored)
        ):
            return (
                f"{kind.__name__} {'/'.join(filter(None, name))} is out of sync (stored: "
                f"{stored.metadata.resource_version}, assume: {item.metadata.resource_version})"
            )
        if is_same and stored == item:
            if self._stored.pop((kind, name), None) is not None:
                self._write(stored)
            return ""
        self._stored[kind, name] = stored
        self._write(item)
        return ""

    def restore(self, item: HasMetadata) -> None:
        """Ends the assumption of an object, if the assumed version is this one."""
        kind, name = type(item), _name_of(item)
        if isinstance(item, SchedulersOwn):
            self.remove(item)
            return
        stored = self._stored.get((kind, name))
        if stored is None:
            return
        assumed = self._objects[kind][name[0]][name[1]]
        if assumed.metadata.resource_version == item.metadata.resource_version:
            del self._stored[kind, name]
            self._write(stored)

    def assumed(self) -> list[HasMetadata]:
        """Returns the assumed objects, in the order in which they were first assumed."""
        return [self._objects[kind][name[0]][name[1]] for kind, name in self._stored]

    # -------------------------------------------------------------------------------------- reading

    def is_listed(self, kind: type[HasMetadata]) -> bool:
        """True if the objects of a kind are known."""
        return kind not in self._unlisted

    def changes(self, kind: type[HasMetadata]) -> ChangeLog[ObjectName]:
        """Returns the log of the changes to objects of a kind."""
        return self._changes[kind]

    def version(self, kind: type[HasMetadata]) -> int:
        return self._changes[kind].version

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        if kind in self._unlisted:
            self._check(kind)
        try:
            item: T | None = self._objects[kind][namespace].get(name)
        except KeyError:
            return None
        return item

    def within(self, kind: type[T], namespace: str = "") -> Mapping[str, T]:
        """Returns the objects of a namespace by name; "" is for objects without a namespace."""
        self._check(kind)
        return MappingProxyType(self._objects.get(kind, {}).get(namespace, {}))

    def every(self, kind: type[T]) -> Iterable[T]:
        """Returns the objects of a kind in all namespaces."""
        self._check(kind)
        return (
            item
            for namespace in self._objects.get(kind, {}).values()
            for item in namespace.values()
        )

    def _check(self, kind: type[HasMetadata]) -> None:
        if kind in self._unlisted:
            raise UnlistedError(self._unlisted[kind])

    def _write(self, item: HasMetadata) -> None:
        kind, name = type(item), _name_of(item)
        self._objects.setdefault(kind, {}).setdefault(name[0], {})[name[1]] = item
        self._changes[kind].add(name)

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        for (kind, name), stored in self._stored.items():
            assumed = self._objects[kind][name[0]][name[1]]
            assert assumed.metadata.uid == stored.metadata.uid, (kind, name)
            assert version_of(stored) <= version_of(assumed), (kind, name)


def _name_of(item: HasMetadata) -> ObjectName:
    return item.metadata.namespace, item.metadata.name


def _is_no_newer(item: HasMetadata, than: HasMetadata) -> bool:
    """True if the version of `item` is not newer than that of `than`. Of two different
    versions that are not numbers, neither is older.
    """
    same = item.metadata.resource_version == than.metadata.resource_version
    return same or version_of(item) < version_of(than)
