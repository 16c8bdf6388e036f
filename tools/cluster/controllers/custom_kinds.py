"""Follows the objects of custom kinds, from when a definition is established until it is gone."""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup

from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed

from ...kubernetes.api.store import DEFINITIONS
from ...kubernetes.api.types.api_documents import Document
from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.custom_objects import CustomObjects, custom_objects
from .cluster_access import ClusterAccess
from .object_watches import Watches


class CustomKinds:
    """The custom kinds of a cluster, by the names of their definitions."""

    def __init__(
        self, cluster: ObjectIndex, access: ClusterAccess, watches: Watches, group: TaskGroup
    ) -> None:
        self._cluster = cluster
        self._access = access
        self._watches = watches
        self._group = group
        self._followed: dict[str, tuple[CustomObjects, anyio.CancelScope]] = {}

    async def follow(self) -> None:
        """Follows the definitions. Never returns."""
        async for event in self._access.follow(DEFINITIONS.path(), dict).changes():
            match event:
                case ObjectsListed(items):
                    documents = {each["metadata"]["name"]: each for each in items}
                    for name in self._followed.keys() - documents.keys():
                        self._end(name)
                    for document in documents.values():
                        self._take(document)
                case ObjectChanged(document):
                    self._take(document)
                case ObjectDeleted(document):
                    self._end(document["metadata"]["name"])

    def _take(self, definition: Document) -> None:
        name, custom = definition["metadata"]["name"], custom_objects(definition)
        if custom is None:
            self._end(name)
        elif name not in self._followed:
            scope = anyio.CancelScope()
            self._followed[name] = custom, scope
            self._cluster.customs[custom.name] = custom
            self._group.start_soon(self._follow_one, custom, scope)

    async def _follow_one(self, custom: CustomObjects, scope: anyio.CancelScope) -> None:
        with scope:
            await self._watches.follow(custom.kind, custom.type)

    def _end(self, name: str) -> None:
        if name in self._followed:
            _, scope = self._followed.pop(name)
            scope.cancel()
