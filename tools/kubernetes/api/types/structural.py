"""Structural schemas: what an OpenAPI v3 schema of a CustomResourceDefinition says of a value.

Mirrors k8s.io/apiextensions-apiserver/pkg/apiserver/schema: the structure (types, fields, items)
apart from what else restricts values, which `schema` has as it was written.
"""

from __future__ import annotations

from typing import Any

from .api_documents import Document

NOTHING = object()  # where a schema has no default
OPEN = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
RULES = "x-kubernetes-validations"


class Structural:
    """The schema of a value.

    `values` is the schema of the values of a map; `is_map` is True for additionalProperties of any
    form. `keeps_unknown` is True if fields that the schema does not name stay. `has_defaults` and
    `has_rules` are True if there are any here or below. `compiled` is for who evaluates the rules.
    """

    __slots__ = (
        "compiled",
        "default",
        "fields",
        "has_defaults",
        "has_rules",
        "is_embedded",
        "is_int_or_string",
        "is_map",
        "is_nullable",
        "item",
        "keeps_unknown",
        "list_keys",
        "list_type",
        "map_type",
        "rules",
        "schema",
        "type",
        "values",
    )

    def __init__(self, schema: Document) -> None:
        self.schema = schema
        self.compiled: tuple[Any, ...] | None = None
        self.type: str = schema.get("type") or ""
        self.is_nullable = bool(schema.get("nullable"))
        self.is_embedded = bool(schema.get(EMBEDDED))
        self.is_int_or_string = bool(schema.get(INT_OR_STRING))
        self.keeps_unknown = bool(schema.get(OPEN))
        self.default = schema.get("default", NOTHING)
        self.list_type: str = schema.get(LIST_TYPE) or ""
        self.list_keys: tuple[str, ...] = tuple(schema.get(LIST_KEYS) or ())
        self.map_type: str = schema.get(MAP_TYPE) or ""
        self.rules: list[Document] = schema.get(RULES) or []
        self.fields = {
            name: Structural(below) for name, below in (schema.get("properties") or {}).items()
        }
        items, values = schema.get("items"), schema.get("additionalProperties")
        self.item = Structural(items) if isinstance(items, dict) else None
        self.is_map = values is not None
        self.values = Structural(values) if isinstance(values, dict) else None
        below = [each for each in (*self.fields.values(), self.item, self.values) if each]
        self.has_rules: bool = bool(self.rules) or any(each.has_rules for each in below)
        self.has_defaults: bool = self.default is not NOTHING or any(
            each.has_defaults for each in below
        )

    def field(self, name: str) -> Structural | None:
        """Returns the schema of a field or of a map's value; None if there is none."""
        return self.fields.get(name) or self.values


_MOST_RECENT = 16
_recent: dict[int, tuple[Document, Structural]] = {}


def structural_of(schema: Document) -> Structural:
    """Returns the structure of a schema: the same one for a document that was asked for lately, as
    a definition is checked, stored, and then served.
    """
    known = _recent.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    structure = Structural(schema)
    if len(_recent) >= _MOST_RECENT:
        _recent.clear()
    _recent[id(schema)] = schema, structure
    return structure
