"""How the values of a custom resource are compared and merged, as its schema says.

Mirrors the schema that Kubernetes derives from the OpenAPI document of a CustomResourceDefinition.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..types.custom_type import CustomType
from ..types.schema import TYPES
from ..types.structural import NOTHING, Structural
from .merge_types import (
    ANY_SCALAR,
    ATOMIC,
    BOOLEAN,
    DEDUCED,
    NUMERIC,
    SET,
    STRING,
    UNTYPED,
    MergeType,
    type_of,
)

_SCALARS = {"integer": NUMERIC, "number": NUMERIC, "boolean": BOOLEAN}
_PLAIN = ("", "byte")  # formats of strings that are no more than strings


@lru_cache(maxsize=512)
def custom_type(custom: CustomType) -> MergeType:
    """Returns the type of the objects of one version of a custom kind."""
    return _of_object(custom.schema, is_open=custom.schema.keeps_unknown, is_resource=True)


def _of_schema(schema: Structural | None, *, is_open: bool) -> MergeType:
    """Returns the type of a schema. If `is_open`, unknown fields stay."""
    if schema is None:
        return DEDUCED
    is_open = is_open or schema.keeps_unknown
    match schema.type:
        case "object":
            return _of_object(schema, is_open=is_open, is_resource=schema.is_embedded)
        case "array":
            return _of_list(schema, is_open=is_open)
        case "string":
            return STRING if schema.schema.get("format", "") in _PLAIN else ANY_SCALAR
        case "":
            of = _of_object(schema, is_open=is_open, is_resource=schema.is_embedded)
            listed = _of_list(schema, is_open=is_open)
            of.scalar, of.item, of.keys = ANY_SCALAR.scalar, listed.item, listed.keys
            return of
        case other:
            return _SCALARS.get(other, ANY_SCALAR)


def _of_object(schema: Structural, *, is_open: bool, is_resource: bool) -> MergeType:
    fields = {name: _of_schema(below, is_open=is_open) for name, below in schema.fields.items()}
    if is_resource:
        metadata = type_of(TYPES["ObjectMeta"])
        fields |= {"apiVersion": STRING, "kind": STRING, "metadata": metadata}
    values: MergeType | None = None
    if schema.values is not None:
        values = _of_schema(schema.values, is_open=is_open)
    elif schema.schema.get("additionalProperties") or is_open or not schema.fields:
        values = DEDUCED
    always: dict[str, Any] = {}
    return MergeType(
        fields=lambda: (fields, always), values=values, is_atomic=schema.map_type == ATOMIC
    )


def _of_list(schema: Structural, *, is_open: bool) -> MergeType:
    item = UNTYPED if schema.item is None else _of_schema(schema.item, is_open=is_open)
    keys: tuple[str, ...] | None = None
    if schema.list_type == SET:
        keys = ()
    elif schema.list_type == "map":
        keys = schema.list_keys
    fields = {} if schema.item is None else schema.item.fields
    defaults = {
        key: fields[key].default
        for key in keys or ()
        if key in fields and fields[key].default is not NOTHING
    }
    return MergeType(item=item, keys=keys, key_defaults=defaults)
