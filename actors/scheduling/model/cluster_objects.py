"""ClusterObjects: the objects that plugins look up by kind and name, such as Services.

Pods and nodes are not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from berth.actors.scheduling.kube.meta import HasMetadata

T = TypeVar("T", bound=HasMetadata)


class UnlistedError(Exception):
    """The objects of a kind are unknown, so that an empty result would be wrong.

    The message says why they are unknown.
    """


class ClusterObjects:
    """Owned by the cache. `version(kind)` increases with every change to an object of a kind.

    Look-ups raise UnlistedError for a kind that the API server has not listed.
    """

    def __init__(self) -> None:
        self._found: dict[type[Any], dict[str, dict[str, Any]]] = {}
        self._versions: dict[type[Any], int] = {}
        self._unlisted: dict[type[Any], str] = {}

    def kind_listed(self, kind: type[HasMetadata], problem: str = "") -> None:
        """Records that all objects of a kind are known, or the problem that prevents it."""
        if problem:
            self._unlisted[kind] = problem
        else:
            self._unlisted.pop(kind, None)

    def put(self, item: HasMetadata) -> None:
        metadata = item.metadata
        self._found.setdefault(type(item), {}).setdefault(metadata.namespace, {})[metadata.name] = (
            item
        )
        self._versions[type(item)] = self.version(type(item)) + 1

    def remove(self, item: HasMetadata) -> None:
        """Does nothing if the object is not known."""
        metadata = item.metadata
        namespace = self._found.get(type(item), {}).get(metadata.namespace, {})
        if namespace.pop(metadata.name, None) is not None:
            self._versions[type(item)] = self.version(type(item)) + 1

    def is_listed(self, kind: type[HasMetadata]) -> bool:
        """True if the objects of a kind are known."""
        return kind not in self._unlisted

    def version(self, kind: type[HasMetadata]) -> int:
        return self._versions.get(kind, 0)

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        self._check(kind)
        found: T | None = self._found.get(kind, {}).get(namespace, {}).get(name)
        return found

    def within(self, kind: type[T], namespace: str = "") -> Mapping[str, T]:
        """The objects of a kind in a namespace by name; "" is for objects without a namespace."""
        self._check(kind)
        return self._found.get(kind, {}).get(namespace, {})

    def every(self, kind: type[T]) -> Iterable[T]:
        """The objects of a kind in all namespaces."""
        self._check(kind)
        return (
            item for namespace in self._found.get(kind, {}).values() for item in namespace.values()
        )

    def _check(self, kind: type[HasMetadata]) -> None:
        if kind in self._unlisted:
            raise UnlistedError(self._unlisted[kind])
