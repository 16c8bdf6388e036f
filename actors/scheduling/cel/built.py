"""The types of the objects that expressions of mutating policies build, and the values as JSON.

`Object{spec: Object.spec{replicas: 1}}` names a part of the object that is changed, of which no
schema is known here: its fields may have any value. `JSONPatch{op: "add", path: "/a", value: 1}` is
an operation. Mirrors k8s.io/apiserver/pkg/cel/mutation.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from .errors import CelError
from .times import Duration, Timestamp
from .types import DYN, STRING, ObjectType, Type
from .values import Built, TypeValue, type_name

OBJECT, JSON_PATCH = "Object", "JSONPatch"


class OpenType(ObjectType):
    """The type of an object of which nothing is known: it has every field."""

    def field(self, _: str) -> Type | None:
        return DYN


OBJECT_TYPE = OpenType(OBJECT, {})
JSON_PATCH_TYPE = ObjectType(
    JSON_PATCH, {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
)


def built_type(name: str) -> ObjectType | None:
    """Returns the type of messages with this name; None if there is none."""
    name = name.removeprefix(".")
    if name == JSON_PATCH:
        return JSON_PATCH_TYPE
    is_object = name == OBJECT or name.startswith(f"{OBJECT}.")
    return OpenType(name, {}) if is_object else None


def misnamed(value: Any, path: str) -> Iterator[str]:
    """Yields the objects within a value whose type has not the name of the place where they are."""
    if type(value) is list:
        for each in value:
            yield from misnamed(each, path)
    elif type(value) is Built:
        if value.type_name != path:
            yield (
                f'unexpected type name "{value.type_name}", expected "{path}", which matches field '
                "name path from root Object type"
            )
        for key, each in value.items():
            yield from misnamed(each, f"{path}.{key}")
    elif isinstance(value, dict):
        for each in value.values():
            yield from misnamed(each, path)


def as_json(value: Any) -> Any:
    """Returns a value of CEL in the types of JSON. Raises CelError."""
    kind = type(value)
    if kind is list:
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                raise CelError(f'map key "{key}" is not string')
        return {key: as_json(each) for key, each in value.items()}
    if kind in (str, bool, float, type(None)):
        return value
    if isinstance(value, int):
        return int(value)
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind in (Duration, Timestamp):
        return str(value)
    name = value.name if kind is TypeValue else type_name(value)
    raise CelError(f"a value of type {name} has no form in JSON")
