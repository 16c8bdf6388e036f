"""The content of a request: its media type, and the object in its body."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.actors.scheduling.kube.yaml_documents import documents

from ..types.api_documents import Document, RefusedError
from ..types.protobuf import CONTENT_TYPE as PROTOBUF
from ..types.protobuf import decoded
from ..types.resources import Kind
from .media_types import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, YAML
from .request import HttpRequest


def media_type_of(request: HttpRequest) -> str:
    """Returns the media type of the body: JSON if the header is missing.

    Raises RefusedError with 415 for a type that holds no object. This also keeps web pages out: a
    browser sends forms and plain text to any site, but other types only to a site that agreed to
    it.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    accepted: tuple[str, ...] = (JSON, YAML, PROTOBUF)
    if request.method == "PATCH":
        accepted = (STRATEGIC, MERGE, JSON_PATCH, APPLY)
    elif not media_type or (request.method == "DELETE" and not request.body):
        media_type = JSON
    if media_type not in accepted:
        message = f"Content-Type: expected {' or '.join(accepted)}, got {media_type!r}"
        raise RefusedError(415, "UnsupportedMediaType", message)
    return media_type


def read_body(raw: bytes, media_type: str) -> Any:
    """Returns the document in a body; None if empty. Raises RefusedError with 400 if unreadable."""
    if not raw:
        return None
    if media_type == PROTOBUF:
        return decoded(raw)
    try:
        if media_type in (APPLY, YAML):
            (document,) = documents(raw) or (None,)
            return document
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError) as problem:
        raise RefusedError(400, "BadRequest", f"the body cannot be read: {problem}") from None


def as_object(document: Any) -> Document:
    """Returns the document. Raises RefusedError with 400 if it is not an object."""
    if not isinstance(document, dict):
        sort = "nothing" if document is None else type(document).__name__
        raise RefusedError(400, "BadRequest", f"the body: expected an object, got {sort}")
    return document


def of_kind(kind: Kind, document: Any) -> Document:
    """Returns the document. Raises RefusedError with 400 if it is not an object of this kind."""
    read = as_object(document)
    for field, expected in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        value = read.get(field) or expected
        if value != expected:
            raise RefusedError(400, "BadRequest", f"{field}: expected {expected}, got {value}")
    return read
