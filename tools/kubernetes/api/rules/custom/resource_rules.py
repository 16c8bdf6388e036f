"""All rules of a custom object: its metadata, its schema, lists, embedded resources and scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...types.api_documents import Document
from ...types.custom_type import CustomType
from ...types.resources import Kind
from ...types.structural import Structural
from ..fields import invalid, required
from ..validation import embedded_metadata_problems, metadata_problems
from ..value_forms import dns_1035_label
from .cel_rules import rule_problems
from .list_types import list_problems
from .schema_rules import NEW, problems_under, schema_problems

_MOST_REPLICAS = (1 << 31) - 1
_NOT_ASKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_GO_TYPES = {
    type(None): "<nil>",
    bool: "bool",
    str: "string",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}
_MIXED = "may have mixed case, but should otherwise match: "
_BLOCKING = ("Unsupported value", "Required value", "Too long", "Too many")


def resource_problems(kind: Kind, document: Document, before: Document | None) -> list[str]:
    """Returns the problems of a new or updated custom object."""
    custom = kind.custom
    assert custom is not None
    problems = metadata_problems(document["metadata"])
    schema = custom.schema
    problems += schema_problems(schema.schema, document, "", NEW if before is None else before)
    problems += _embedded(document, schema, "")
    if before is None or not [*list_problems(before, schema)]:
        problems += list_problems(document, schema)
    problems += _spec_replicas(custom, document)
    problems += _status_replicas(custom, document)
    return problems + _asked(schema, document, before, problems)


def status_problems(kind: Kind, document: Document, before: Document) -> list[str]:
    """Returns the problems of an update of a custom object's status."""
    custom = kind.custom
    assert custom is not None
    problems: list[str] = []
    schema = custom.schema
    if "status" in document:
        below = (schema.schema.get("properties") or {}).get("status")
        if below is not None:
            found = schema_problems(below, document["status"], "", before.get("status", NEW))
            problems += problems_under("status", found)
        if not [*list_problems(before, schema)]:
            problems += list_problems(document, schema)
    problems += _status_replicas(custom, document)
    return problems + _asked(schema, document, before, problems)


def _asked(
    schema: Structural, document: Document, before: Document | None, problems: list[str]
) -> list[str]:
    """Returns the problems of the rules in CEL; that they were not asked, if others forbid it."""
    if not schema.has_rules:
        return []
    if any(map(_is_blocking, problems)):
        return [f"<nil>: Invalid value: null: {_NOT_ASKED}"]
    return rule_problems(schema, document, before)


def _is_blocking(problem: str) -> bool:
    """True if rules in CEL are not evaluated for an object with this problem."""
    message = problem.partition(": ")[2]
    return message.startswith(_BLOCKING) or " in body must be of type " in message


def _embedded(value: Any, schema: Structural | None, path: str) -> Iterator[str]:
    """Yields the problems of resources that are embedded in an object."""
    if schema is None or type(value) not in (dict, list):
        return
    if type(value) is list:
        for i, each in enumerate(value):
            yield from _embedded(each, schema.item, f"{path}[{i}]")
        return
    if schema.is_embedded:
        for field in ("apiVersion", "kind"):
            if field not in value:
                yield required(f"{path}.{field}")
            elif not value[field]:
                yield invalid(f"{path}.{field}", value[field], "must not be empty")
        kind = value.get("kind")
        if isinstance(kind, str) and kind and (wrong := dns_1035_label(kind.lower())):
            yield invalid(f"{path}.kind", kind, _MIXED + ",".join(wrong))
        metadata = value.get("metadata")
        if type(metadata) is dict:
            named = {**metadata, "name": metadata.get("name") or "fakename"}
            yield from embedded_metadata_problems(named, f"{path}.metadata")
    for name, each in value.items():
        place = f"{path}.{name}" if path else name
        yield from _embedded(each, schema.field(name), place)


def _spec_replicas(custom: CustomType, document: Document) -> Iterator[str]:
    if custom.scale is not None:
        yield from _replicas(custom.scale["specReplicasPath"], document)


def _status_replicas(custom: CustomType, document: Document) -> Iterator[str]:
    if custom.scale is not None:
        yield from _replicas(custom.scale["statusReplicasPath"], document)


def _in_go(value: Any) -> str:
    """Returns a value and its type in Go's words."""
    kind = _GO_TYPES[type(value)]
    shown = "<nil>" if value is None else str(value).lower() if value in (True, False) else value
    return f"{shown} is of the type {kind}"


def _replicas(path: str, document: Document) -> Iterator[str]:
    replicas: Any = document
    for step in path.removeprefix(".").split("."):
        if type(replicas) is not dict:
            why = f"accessor error: {_in_go(replicas)}, expected map[string]interface{{}}"
            yield invalid(path, 0, f"{path} {why}")
            return
        if step not in replicas:
            return
        replicas = replicas[step]
    if type(replicas) is not int:
        yield invalid(path, 0, f"{path} accessor error: {_in_go(replicas)}, expected int64")
        return
    if replicas < 0:
        yield invalid(path, replicas, "should be a non-negative integer")
    elif replicas > _MOST_REPLICAS:
        yield invalid(path, replicas, f"should be less than or equal to {_MOST_REPLICAS}")
