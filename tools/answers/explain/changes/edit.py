"""An edit of an object of the cluster, and the functions that make JSON patches."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

import msgspec

Document = dict[str, Any]
Patch = list[dict[str, Any]]


class Action(Enum):
    PATCH = "patch"
    CREATE = "create"
    DELETE = "delete"


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """An edit of an object: a JSON patch, its creation from a document, or its deletion."""

    action: Action
    kind: str
    name: str
    namespace: str = ""
    patch: Patch = []
    document: Document = {}

    @property
    def place(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name


def pointer(*parts: str | int) -> str:
    """Returns the JSON pointer to a path of keys."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def without(document: Document, *parts: str | int) -> Patch:
    """Returns the patch that removes a member or an item, and parents that become empty; objects at
    the top of the document stay.
    """
    values: list[Any] = [document]
    for part in parts:
        values.append(values[-1][part])
    depth = len(parts)
    while depth > 2 and len(values[depth - 1]) == 1:
        depth -= 1
    return removal(*parts[:depth])


def removal(*parts: str | int) -> Patch:
    """Returns the patch that removes a member or an item."""
    return [{"op": "remove", "path": pointer(*parts)}]


def put(value: Any, *parts: str | int) -> Patch:
    """Returns the patch that sets a member of an object. The object must exist."""
    return [{"op": "add", "path": pointer(*parts), "value": value}]


def patch_of(document: Document, *patches: Iterable[dict[str, Any]]) -> Edit:
    """Returns the edit that patches an object."""
    metadata = document["metadata"]
    patch = [operation for operations in patches for operation in operations]
    namespace = metadata.get("namespace") or ""
    return Edit(Action.PATCH, document["kind"], metadata["name"], namespace, patch)


def deletion_of(key: str) -> Edit:
    """Returns the edit that deletes the pod of this key."""
    namespace, _, name = key.partition("/")
    return Edit(Action.DELETE, "Pod", name, namespace)
