"""The forms of an answer: objects, their metadata, a table, or a Status; and its warnings."""

from __future__ import annotations

import msgspec

from ...kubernetes.api.requests.list_pages import ListPage
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.store import Store
from ...kubernetes.api.tables import table
from ...kubernetes.api.types.api_documents import Document, RefusedError, StoredObject
from ...kubernetes.api.types.conversion import served_raw
from ...kubernetes.api.types.resources import Kind
from .http import Response

MOST_WARNINGS_CHARACTERS = 4096
MOST_WARNING_CHARACTERS = 256  # of each warning, if all together exceed the limit above
Answer = StoredObject | Document | ListPage


def in_accepted_form(
    store: Store,
    request: HttpRequest,
    kind: Kind,
    answer: Answer,
    code: int = 200,
) -> Response:
    """Returns the answer in the form that the client accepts: objects, their metadata, or a
    table.
    """
    accept = request.headers.get("accept", "")
    as_table = "as=Table" in accept.partition(",")[0]
    if isinstance(answer, StoredObject) and not as_table:
        return Response(served_raw(kind, answer), code)
    if isinstance(answer, dict):
        return as_json(answer, code)
    page = ListPage([answer], answer.revision) if isinstance(answer, StoredObject) else answer
    metadata = page.metadata()
    if as_table:
        include = request.query.get("includeObject", "Metadata")
        documents = [stored.whole for stored in page.items]
        now, revision = store.outside.wall(), str(page.revision)
        shown = table(
            kind, documents, revision=revision, now=now, include=include, metadata=metadata
        )
        return as_json(shown)
    if "as=PartialObjectMetadataList" in accept:
        head = {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
        }
        part = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return as_json(
            {
                **head,
                "items": [{**part, "metadata": stored.whole["metadata"]} for stored in page.items],
            }
        )
    head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata}
    opened = msgspec.json.encode(head)[:-1] + b',"items":['
    items = b",".join([served_raw(kind, stored) for stored in page.items])
    return Response(opened + items + b"]}")


def with_warnings(response: Response, messages: list[str]) -> Response:
    if not messages:
        return response
    return msgspec.structs.replace(response, warnings=warning_headers(messages))


def warning_headers(messages: list[str]) -> tuple[str, ...]:
    """Returns the Warning headers, cut to the same total length as Kubernetes cuts them.

    The name of a field may hold any character. A character that could end the header is replaced or
    escaped.
    """
    most = (
        MOST_WARNING_CHARACTERS
        if sum(map(len, messages)) > MOST_WARNINGS_CHARACTERS
        else MOST_WARNINGS_CHARACTERS
    )
    headers, left = [], MOST_WARNINGS_CHARACTERS
    for message in messages:
        text = "".join([c if c.isprintable() else " " for c in message[:most]])
        left -= len(text)
        if left < 0:
            break
        headers.append('299 - "' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return tuple(headers)


def as_json(document: Document, code: int = 200) -> Response:
    return Response(msgspec.json.encode(document), code)


def refused_response(refused: RefusedError) -> Response:
    answer = as_json(refusal(refused), refused.code)
    seconds = (refused.details or {}).get("retryAfterSeconds", 0)
    return msgspec.structs.replace(answer, retry_after=seconds) if seconds else answer


def refusal(refused: RefusedError) -> Document:
    """Returns the metav1.Status that reports a refusal."""
    failed = {
        "status": "Failure",
        "message": str(refused),
        "reason": refused.reason,
        "details": refused.details or {},  # kubectl reads it without a check
        "code": refused.code,
    }
    metadata = {"continue": refused.continue_} if refused.continue_ else {}
    return {"apiVersion": "v1", "kind": "Status", "metadata": metadata, **failed}
