"""The types and the values of a structural schema in CEL.

Mirrors SchemaDeclType of k8s.io/apiserver/pkg/cel/common, with the sizes from which the cost of a
rule is estimated. What has no type in CEL is left out: fields without a schema, and what keeps
unknown fields in place of having a type.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any

from berth.actors.scheduling.cel.times import parse_duration, parse_timestamp
from berth.actors.scheduling.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    ObjectType,
    Type,
    list_of,
    map_of,
)

from ...types.structural import NOTHING, Structural

MOST_BYTES = 3 << 20  # of a request
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return"),
        *("var", "void", "while"),
    )
)
_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
_ROOT = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
_META = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}


def escaped(name: str) -> str:
    """Returns the name of a field in an expression; "" if it cannot be named."""
    if name in _RESERVED:
        return f"__{name}__"
    if _PLAIN.fullmatch(name) and "__" not in name:
        return name
    if not _NAME.fullmatch(name):
        return ""
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], name)


class Declared:
    """The type of a value.

    `most` is the highest number of items, entries or characters, `least` the size in bytes of the
    shortest JSON. `fields` are those of an object by their escaped names, `below` is the type of
    items or values.
    """

    __slots__ = ("below", "fields", "key", "least", "most", "type")

    def __init__(self, type_: Type, most: int = 0, least: int = 1) -> None:
        self.type = type_
        self.most = most
        self.least = least
        self.fields: Mapping[str, Declared] = {}
        self.below: Declared | None = None
        self.key: Declared | None = None


def declared(schema: Structural, name: str, *, is_root: bool = False) -> Declared | None:
    """Returns the type of a value with this schema; None if CEL does not see it.

    `name` tells the types of objects apart. The root of a resource has its kind and names.
    """
    told = schema.schema
    if schema.is_int_or_string:
        return Declared(DYN, _most_characters(told), 1)
    if is_root or schema.is_embedded:
        schema = with_meta(schema)
    match schema.type:
        case "array":
            return _list(schema, name)
        case "object":
            return _map(schema, name) if schema.values is not None else _object(schema, name)
        case "string":
            return _string(told)
        case "boolean":
            return Declared(BOOL, 0, 4)
        case "number":
            return Declared(DOUBLE)
        case "integer":
            return Declared(INT)
        case _:
            return None


def with_meta(schema: Structural) -> Structural:
    """Returns the schema of a resource with its kind and its names."""
    fields = {**(schema.schema.get("properties") or {}), **_ROOT, "metadata": _META}
    return Structural({**schema.schema, "properties": fields})


def _list(schema: Structural, name: str) -> Declared | None:
    item = None if schema.item is None else declared(schema.item, f"{name}.@idx")
    if item is None:
        return None
    most = schema.schema.get("maxItems")
    of = Declared(
        list_of(item.type),
        (MOST_BYTES - 2) // (item.least + 1) if most is None else max(most, 0),
        2,
    )
    of.below = item
    return of


def _map(schema: Structural, name: str) -> Declared | None:
    value = None if schema.values is None else declared(schema.values, f"{name}.@elem")
    if value is None:
        return None
    most = schema.schema.get("maxProperties")
    of = Declared(
        map_of(STRING, value.type),
        (MOST_BYTES - 2) // (value.least + 6) if most is None else max(most, 0),
        2,
    )
    of.below, of.key = value, Declared(STRING, 0, 2)
    return of


def _object(schema: Structural, name: str) -> Declared:
    fields: dict[str, Declared] = {}
    least = 2
    required = schema.schema.get("required") or ()
    for field, below in schema.fields.items():
        of = declared(below, f"{name}.{field}")
        if of is None:
            continue
        if field in required and below.default is NOTHING:
            least += len(field) + of.least + 4
        word = escaped(field)
        if word:
            fields[word] = of
    types = {word: of.type for word, of in fields.items()}
    whole = Declared(ObjectType(name, types), 0, least)
    whole.fields = fields
    return whole


def _string(told: Mapping[str, Any]) -> Declared:
    most = told.get("maxLength")
    match told.get("format"):
        case "byte":
            return Declared(BYTES, MOST_BYTES - 2 if most is None else max(most, 0), 2)
        case "duration":
            return Declared(DURATION, 32, 3)
        case "date":
            return Declared(TIMESTAMP, 12, 12)
        case "date-time":
            return Declared(TIMESTAMP, 32, 21)
    texts = [each for each in told.get("enum") or () if isinstance(each, str)]
    if most is None and texts:
        return Declared(STRING, max(len(each.encode()) for each in texts), 2)
    return Declared(STRING, _most_characters(told), 2)


def _most_characters(told: Mapping[str, Any]) -> int:
    most = told.get("maxLength")
    return MOST_BYTES - 2 if most is None else max(most, 0) * 4


def value_in_cel(value: Any, schema: Structural | None, *, is_root: bool = False) -> Any:
    """Returns a value of a valid object as expressions see it."""
    if schema is None or value is None:
        return value
    if type(value) is list:
        return [value_in_cel(each, schema.item) for each in value]
    if type(value) is dict:
        if schema.values is not None:
            return {key: value_in_cel(each, schema.values) for key, each in value.items()}
        if is_root or schema.is_embedded:
            schema = with_meta(schema)
        return {
            escaped(name): value_in_cel(value[name], below)
            for name, below in schema.fields.items()
            if name in value
        }
    if schema.type == "number" and type(value) is int:
        return float(value)
    if schema.type == "integer" and type(value) is float:
        return int(value)
    return _text_in_cel(value, schema) if type(value) is str and schema.type == "string" else value


def _text_in_cel(text: str, schema: Structural) -> Any:
    match schema.schema.get("format"):
        case "byte":
            return binascii.a2b_base64(text)
        case "duration":
            return parse_duration(text) or text
        case "date":
            return parse_timestamp(f"{text}T00:00:00Z") or text
        case "date-time":
            return parse_timestamp(text) or text
        case _:
            return text
