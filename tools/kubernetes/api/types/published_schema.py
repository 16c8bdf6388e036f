"""The schema of a custom kind in OpenAPI documents.

Mirrors k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder: the schema as the definition
has it, with its extensions, and with the metadata that every object has.
"""

from __future__ import annotations

from .api_documents import Document
from .resources import Kind
from .structural import EMBEDDED, OPEN

_META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OBJECT_META: Document = {"allOf": [{"$ref": _META}]}
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")


def component_of(kind: Kind) -> str:
    """Names the component of a custom kind: its group, reversed, its version and its name."""
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def published_schema(kind: Kind) -> Document:
    assert kind.custom is not None
    schema = (kind.custom.version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
    return _published(schema, is_root=True)


def published_in_version_2(kind: Kind) -> Document:
    """Returns the schema without what version 2 of OpenAPI, or kubectl with it, cannot say.

    Without any restriction of a kind that keeps all fields: kubectl would refuse those fields.
    """
    assert kind.custom is not None
    if kind.custom.schema.keeps_unknown:
        return {"type": "object"}
    return _published(_for_version_2(kind.custom.schema.schema), is_root=True)


def _for_version_2(schema: Document) -> Document:
    kept = {word: told for word, told in schema.items() if word not in (*_JUNCTORS, "nullable")}
    keeps_unknown, is_nullable = schema.get(OPEN), schema.get("nullable")
    if keeps_unknown or is_nullable:
        kept.pop("items", None)
        kept.pop("properties", None)
    untyped = is_nullable or (keeps_unknown and schema.get("type") == "object")
    if untyped or (schema.get("type") == "array" and "items" not in kept):
        kept.pop("type", None)
    for word in ("items", "additionalProperties"):
        if isinstance(kept.get(word), dict):
            kept[word] = _for_version_2(kept[word])
    fields = kept.get("properties") or {}
    if fields:
        kept["properties"] = {name: _for_version_2(below) for name, below in fields.items()}
        required = [n for n in kept.pop("required", ()) if not fields.get(n, {}).get("nullable")]
        kept |= {"required": required} if required else {}
    return kept


def _published(schema: Document, *, is_root: bool = False) -> Document:
    published = dict(schema)
    for word in ("properties",):
        if word in schema:
            published[word] = {name: _published(below) for name, below in schema[word].items()}
    for word in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(word), dict):
            published[word] = _published(schema[word])
    for word in ("allOf", "anyOf", "oneOf"):
        if word in schema:
            published[word] = [_published(below) for below in schema[word]]
    if is_root or schema.get(EMBEDDED):
        text: Document = {"type": "string"}
        fields = published.get("properties") or {}
        own = {name: fields.get(name) or text for name in ("apiVersion", "kind")}
        published["properties"] = {**own, "metadata": _OBJECT_META, **_without_meta(fields)}
    return published


def _without_meta(fields: Document) -> Document:
    return {
        name: below
        for name, below in fields.items()
        if name not in ("apiVersion", "kind", "metadata")
    }
