"""What makes a schema structural.

Mirrors ValidateStructural of k8s.io/apiextensions-apiserver/pkg/apiserver/schema: every field has a
type, and what allOf, anyOf, oneOf and not say restricts values alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...types.api_documents import Document
from ...types.structural import EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, MAP_TYPE, OPEN, RULES
from ..fields import forbidden, invalid, required
from .schema_rules import pattern_problem

ROOT, ITEM, FIELD = "root", "item", "field"
_EITHER = [{"type": "integer"}, {"type": "string"}]
_PLACES = {
    ROOT: "must not be empty at the root",
    ITEM: "must not be empty for specified array items",
    FIELD: "must not be empty for specified object fields",
}
_FORBIDDEN_BELOW = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (OPEN, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    (LIST_KEYS, "must be empty to be structural"),
    (LIST_TYPE, "must be undefined to be structural"),
    (MAP_TYPE, "must be undefined to be structural"),
    (RULES, "must be empty to be structural"),
)


def structural_problems(schema: Document, path: str) -> list[str]:
    """Returns the problems of a schema that is not structural, sorted."""
    return sorted({*_structure(schema, ROOT, path), *_completeness(schema, schema, path, path)})


def _structure(schema: Document, level: str, path: str) -> Iterator[str]:
    type_, items, values = schema.get("type") or "", schema.get("items"), _values(schema)
    if type_ == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _structure(items, ITEM, f"{path}.items")
    for name, below in _fields(schema).items():
        yield from _structure(below, FIELD, f"{path}.properties[{name}]")
    if values is not None:
        if level == ROOT:
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(values, dict):
            yield from _structure(values, FIELD, f"{path}.additionalProperties")
    if schema.get(INT_OR_STRING):
        for word in (OPEN, EMBEDDED):
            if schema.get(word):
                why = f"must be false if {INT_OR_STRING} is true"
                yield invalid(f"{path}.{word}", True, why)
    yield from _restrictions(schema, path)
    yield from _own_type(schema, type_, level, path)
    if level == ROOT or schema.get(EMBEDDED):
        yield from _meta(schema, path)
    metadata = _fields(schema).get("metadata")
    if level == ROOT and metadata is not None and _says_more(metadata):
        why = "must not specify anything other than name and generateName, but metadata is "
        yield forbidden(f"{path}.properties[metadata]", f"{why}implicitly specified")
    if schema.get(EMBEDDED) and not schema.get(OPEN) and not _fields(schema):
        why = f"must not be empty if {EMBEDDED} is true without {OPEN}"
        yield required(f"{path}.properties", why)


def _own_type(schema: Document, type_: str, level: str, path: str) -> Iterator[str]:
    if schema.get(EMBEDDED) and type_ != "object":
        why = f"must be object if {EMBEDDED} is true"
        yield invalid(f"{path}.type", type_, why) if type_ else required(f"{path}.type", why)
    elif not type_ and not schema.get(INT_OR_STRING) and not schema.get(OPEN):
        yield required(f"{path}.type", _PLACES[level])
    if schema.get(EMBEDDED) and _values(schema) is not None:
        yield forbidden(f"{path}.additionalProperties", f"must not be used if {EMBEDDED} is set")
    if level == ROOT and type_ and type_ != "object":
        yield invalid(f"{path}.type", type_, "must be object at the root")


def _meta(schema: Document, path: str) -> Iterator[str]:
    for name in ("kind", "apiVersion"):
        below = _fields(schema).get(name)
        if below is not None and below.get("type") != "string":
            place = f"{path}.properties[{name}].type"
            yield invalid(place, below.get("type") or "", "must be string")
    metadata = _fields(schema).get("metadata")
    if metadata is not None and metadata.get("type") != "object":
        place = f"{path}.properties[metadata].type"
        yield invalid(place, metadata.get("type") or "", "must be object")


def _says_more(metadata: Document) -> bool:
    """True if a schema restricts metadata beyond the names."""
    known = {"type", "description", "title", "properties", "default"}
    more = {word for word, value in metadata.items() if word not in known and value}
    return bool(more) or not {*_fields(metadata)} <= {"name", "generateName"}


def _restrictions(schema: Document, path: str) -> Iterator[str]:
    """Yields the problems of what restricts the values of a schema."""
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    if any_of != _EITHER:
        for i, each in enumerate(any_of):
            yield from _nested(each, f"{path}.anyOf[{i}]")
    for i, each in enumerate(all_of):
        if i == 0 and each.get("anyOf") == _EITHER:
            each = {word: value for word, value in each.items() if word != "anyOf"}  # noqa: PLW2901
        yield from _nested(each, f"{path}.allOf[{i}]")
    for i, each in enumerate(schema.get("oneOf") or ()):
        yield from _nested(each, f"{path}.oneOf[{i}]")
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{path}.not")
    pattern = schema.get("pattern")
    why = pattern_problem(pattern) if pattern else ""
    if why:
        shown = f"must be a valid regular expression, but isn't: {why}"
        yield invalid(f"{path}.pattern", pattern, shown)


def _nested(schema: Document, path: str) -> Iterator[str]:
    yield from _restrictions(schema, path)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, below in _fields(schema).items():
        yield from _nested(below, f"{path}.properties[{name}]")
    for word, why in _FORBIDDEN_BELOW:
        if schema.get(word) not in (None, "", False, []) or (word == "default" and word in schema):
            yield forbidden(f"{path}.{word}", why)
    if "metadata" in _fields(schema):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(schema: Document, whole: Document | None, path: str, place: str) -> Iterator[str]:
    """Yields a problem for each part that restrictions at the root name and the structure lacks."""
    for word in ("allOf", "anyOf", "oneOf"):
        for i, each in enumerate(schema.get(word) or ()):
            yield from _complete(each, whole, path, f"{place}.{word}[{i}]")
    if schema.get("not") is not None:
        yield from _complete(schema["not"], whole, path, f"{place}.not")


def _complete(schema: Document, whole: Document | None, path: str, place: str) -> Iterator[str]:
    if whole is None:
        yield required(path, f"because it is defined in {place}")
        return
    yield from _completeness(schema, whole, path, place)
    if isinstance(schema.get("items"), dict):
        items = whole.get("items")
        yield from _complete(schema["items"], items, f"{path}.items", f"{place}.items")
    for name, below in _fields(schema).items():
        of_whole = _fields(whole).get(name)
        there = f"{place}.properties[{name}]"
        yield from _complete(below, of_whole, f"{path}.properties[{name}]", there)


def _fields(schema: Document) -> dict[str, Document]:
    fields: dict[str, Document] = schema.get("properties") or {}
    return fields


def _values(schema: Document) -> Any:
    return schema.get("additionalProperties")
