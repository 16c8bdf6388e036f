"""The OpenAPI document of version 2: one for all kinds.

As JSON it defines the types of the documents of version 3, without paths. As protobuf it defines
nothing: kubectl reads it so before it splits a List, skips kinds that the document does not define,
and leaves the validation of every item to the server.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from .api_documents import Document
from .catalog import Catalog
from .openapi import TITLE, document
from .published_schema import component_of, published_in_version_2

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ACCEPTED_AS_PROTOBUF = (PROTOBUF, PROTOBUF.replace(".v1.0", "@v1.0"))  # which older clients ask for
_COMPONENTS, _DEFINITIONS = "#/components/schemas/", "#/definitions/"


def version_2_as_protobuf(catalog: Catalog) -> bytes:
    """Returns the Document of gnostic's OpenAPI v2: its version, and an Info of two fields."""
    version = catalog.release.version.release
    title = _length_delimited(1, TITLE.encode()) + _length_delimited(2, version.encode())
    return _length_delimited(1, b"2.0") + _length_delimited(2, title)


@lru_cache(maxsize=2)
def version_2_as_json(catalog: Catalog) -> bytes:
    schemas: Document = {}
    for path in (document("/openapi/v3", catalog) or {})["paths"]:
        schemas |= (document(f"/openapi/v3/{path}", catalog) or {})["components"]["schemas"]
    for kind in catalog.kinds:
        if kind.custom is not None and kind.custom.is_served:
            name = component_of(kind)
            group_version_kind = "x-kubernetes-group-version-kind"
            told = {group_version_kind: schemas[name][group_version_kind]}
            schemas[name] = published_in_version_2(kind) | told
    described: Document = {
        "swagger": "2.0",
        "info": {"title": TITLE, "version": catalog.release.version.release},
        "paths": {},
        "definitions": {name: _in_version_2(schema) for name, schema in sorted(schemas.items())},
    }
    return msgspec.json.encode(described)


def _in_version_2(schema: Any) -> Any:
    """Returns a schema of version 3 with its references as version 2 writes them."""
    if isinstance(schema, list):
        return [_in_version_2(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    match schema:
        case {"allOf": [{"$ref": str(reference)}], **others}:
            return {"$ref": reference.replace(_COMPONENTS, _DEFINITIONS), **_in_version_2(others)}
    return {key: _in_version_2(value) for key, value in schema.items()}


def _length_delimited(number: int, octets: bytes) -> bytes:
    """Returns a length-delimited field of a protobuf message; fields here are below 128 bytes."""
    return bytes((number << 3 | 2, len(octets))) + octets
