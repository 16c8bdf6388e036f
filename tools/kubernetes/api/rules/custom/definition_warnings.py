"""What a client is told of a definition, or of a custom object, that is not refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from berth.actors.scheduling.kube.names import qualified_name

from ...types.api_documents import Document
from .value_formats import is_known

_STANDARD = ("orphan", "foregroundDeletion", "kubernetes")
_OTHERS = "to avoid accidental conflicts with other finalizer writers"


def format_warnings(definition: Document, before: Document | None) -> list[str]:
    """Returns a warning for each format that Kubernetes does not know, and that is new."""
    had = {*_formats((before or {}).get("spec"))}
    return [
        f'unrecognized format "{form}"'
        for form in _formats(definition.get("spec"))
        if form not in had
    ]


def _formats(value: Any) -> Iterator[str]:
    """Yields the unknown formats of the schemas of a spec."""
    for version in (value or {}).get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema:
            yield from _of_schema(schema)


def _of_schema(schema: Document) -> Iterator[str]:
    form = schema.get("format")
    if form and not is_known(form, schema.get("type") or ""):
        yield form
    below: list[Any] = [schema.get(word) for word in ("items", "additionalProperties", "not")]
    for word in ("allOf", "anyOf", "oneOf"):
        below += schema.get(word) or ()
    below += (schema.get("properties") or {}).values()
    for each in below:
        if isinstance(each, dict):
            yield from _of_schema(each)


def finalizer_warnings(document: Document, before: Document | None) -> list[str]:
    """Returns warnings for new finalizers whose names may be those of others."""
    had = ((before or {}).get("metadata") or {}).get("finalizers") or ()
    new = {*(document["metadata"].get("finalizers") or ())} - {*had}
    return [warning for name in sorted(new) for warning in _of_finalizer(name)]


def _of_finalizer(name: str) -> Iterator[str]:
    head = f'metadata.finalizers: "{name}"'
    for message in qualified_name(name):
        yield f"{head}: {message}"
    if "/" not in name and name not in _STANDARD:
        path = " including a path (/)" if "." in name else ""
        yield f"{head}: prefer a domain-qualified finalizer name{path} {_OTHERS}"
