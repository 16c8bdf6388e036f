"""The forms of an answer: objects, their metadata, a table, or a Status; and its warnings."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from io import BytesIO
from typing import Any

import msgspec

from ...kubernetes.api.requests.accepted_forms import (
    PARTIAL,
    PARTIAL_LIST,
    TABLE,
    AcceptedForm,
    accepted_form,
)
from ...kubernetes.api.requests.list_pages import ListPage
from ...kubernetes.api.requests.media_types import JSON, PROTOBUF, YAML
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Document, RefusedError, StoredObject
from ...kubernetes.api.types.conversion import served_form, served_raw
from ...kubernetes.api.types.resources import SCALES, Kind
from ...kubernetes.api.types.schema import Shape
from .http import Response

MOST_WARNINGS_CHARACTERS = 4096
MOST_WARNING_CHARACTERS = 256  # of each warning, if all together exceed the limit above
YAML_PIECE = 25  # items or fields that are written at once
MOST_PLAIN = 64  # characters of a key that is surely alone in its line
META = "meta.k8s.io"
Answer = StoredObject | Document | ListPage
# The reasons of a Status whose details Kubernetes leaves out.
_WITHOUT_DETAILS = ("", "BadRequest", "NotAcceptable", "Unauthorized", "UnsupportedMediaType")


def in_accepted_form(
    store: Store,
    request: HttpRequest,
    kind: Kind,
    answer: Answer,
    code: int = 200,
) -> Response:
    """Returns the answer in the form that the client accepts: objects, their metadata, or a
    table.

    Raises RefusedError with 406 if an object is asked for as a list, or a list as an object.
    """
    form = accepted_form(request.headers.get("accept", ""))
    if isinstance(answer, dict):
        if form.as_kind == TABLE and answer.get("kind") == SCALES.kind:
            scale = StoredObject(answer, int(answer["metadata"]["resourceVersion"]))
            return as_json(_table(store, request, SCALES, scale, form.version), code)
        return as_json(answer, code)
    if isinstance(answer, StoredObject) and form.as_kind == PARTIAL_LIST:
        raise _mismatch(kind, form, "not a list", "")
    if isinstance(answer, ListPage) and form.as_kind == PARTIAL:
        raise _mismatch(kind, form, "a list", "List")
    if form.media_type == PROTOBUF:
        return Response(_in_protobuf(store, kind, answer, form), code, PROTOBUF)
    if form.as_kind == TABLE:
        return as_json(_table(store, request, kind, answer, form.version), code)
    version = f"{META}/{form.version}"
    if isinstance(answer, StoredObject):
        if not form.as_kind:
            return Response(served_raw(kind, answer) + b"\n", code)
        return as_json(partial(answer, version), code)
    metadata = answer.metadata()
    if form.as_kind == PARTIAL_LIST:
        items = [partial(stored, version) for stored in answer.items]
        head: Document = {"kind": PARTIAL_LIST, "apiVersion": version, "metadata": metadata}
        return as_json({**head, "items": items})
    if kind.custom is not None:
        metadata = {"continue": "", **metadata}  # as Kubernetes writes lists without a type
    head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata}
    opened = msgspec.json.encode(head)[:-1] + b',"items":['
    return Response(_list_body(opened, kind, answer))


def _in_protobuf(
    store: Store, kind: Kind, answer: StoredObject | ListPage, form: AcceptedForm
) -> bytes:
    """Raises RefusedError with 406 for a kind that has no such form, as custom ones."""
    from ...kubernetes.api.types.protobuf_writer import encoded_list

    version = f"{META}/{form.version}" if form.as_kind else ""
    if isinstance(answer, StoredObject):
        return object_in_protobuf(store, kind, answer, version)
    if version:
        metadata = store.catalog.types[PARTIAL]
        parts = [_partial(stored, version) for stored in answer.items]
        return encoded_list(metadata, version, PARTIAL_LIST, answer.metadata(), parts)
    shape = protobuf_shape(store, kind)
    items = [served_form(kind, stored.whole) for stored in answer.items]
    return encoded_list(shape, kind.api_version, kind.list_kind, answer.metadata(), items)


def object_in_protobuf(store: Store, kind: Kind, stored: StoredObject, version: str = "") -> bytes:
    """Returns an object or, with a version of meta.k8s.io, its PartialObjectMetadata."""
    from ...kubernetes.api.types.protobuf_writer import encoded_object

    if version:
        return encoded_object(store.catalog.types[PARTIAL], _partial(stored, version))
    return encoded_object(protobuf_shape(store, kind), served_form(kind, stored.whole))


def protobuf_shape(store: Store, kind: Kind) -> Shape:
    """Returns the type of a kind. Raises RefusedError with 406 for one that has no messages, as
    custom kinds.
    """
    from ...kubernetes.api.types.protobuf import numbers_of

    shape = store.catalog.types.get(kind.type_name)
    if shape is None or kind.custom is not None or not numbers_of(shape):
        accepted = f"only the following media types are accepted: {JSON}, {YAML}"
        raise RefusedError(406, "NotAcceptable", accepted)
    return shape


def partial(stored: StoredObject, version: str) -> Document:
    """Returns an object's PartialObjectMetadata in a version of meta.k8s.io."""
    return {"kind": PARTIAL, "apiVersion": version, "metadata": stored.encodable["metadata"]}


def _partial(stored: StoredObject, version: str) -> Document:
    """Returns an object's PartialObjectMetadata with its entries as a document."""
    return {"kind": PARTIAL, "apiVersion": version, "metadata": stored.whole["metadata"]}


def _table(
    store: Store, request: HttpRequest, kind: Kind, answer: StoredObject | ListPage, version: str
) -> Document:
    from ...kubernetes.api.tables import table

    page = ListPage([answer], answer.revision) if isinstance(answer, StoredObject) else answer
    shown_objects = [stored.encodable for stored in page.items]
    if kind.custom is not None:
        shown_objects = [served_form(kind, each) for each in shown_objects]
    shown = table(
        kind,
        shown_objects,
        revision=str(page.revision),
        now=store.outside.wall(),
        include=request.query.get("includeObject", "Metadata"),
        metadata=page.metadata(),
    )
    return {**shown, "apiVersion": f"{META}/{version}"}


def _mismatch(kind: Kind, form: AcceptedForm, is_what: str, suffix: str) -> RefusedError:
    package = kind.group.partition(".")[0] or "core"
    message = (
        f"you requested {form.as_kind}, but the requested object is {is_what} "
        f"(*{package}.{kind.kind}{suffix})"
    )
    return RefusedError(406, "NotAcceptable", message)


def in_yaml(request: HttpRequest, response: Response) -> Response:
    """Returns an answer in YAML if the client prefers it, else as it is."""
    accept = request.headers.get("accept", "")
    if "yaml" not in accept or response.content_type != JSON:
        return response
    with suppress(RefusedError):
        if accepted_form(accept).media_type == YAML:
            text = _as_yaml(response.body)
            return msgspec.structs.replace(response, body=text.encode(), content_type=YAML)
    return response


def _as_yaml(body: bytes) -> str:
    """Writes JSON as YAML, in pieces: the writer in C lets no other thread in before it ends."""
    import yaml  # few clients want it

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    def written(value: Any) -> str:
        return str(yaml.dump(value, Dumper=dumper, allow_unicode=True))

    document = msgspec.json.decode(body)
    if not isinstance(document, dict) or not document:
        return written(document)
    texts = []
    for key in sorted(document):
        for at, piece in enumerate(_pieces(key, document[key])):
            text = written({key: piece})
            texts.append(text if at == 0 else text.partition("\n")[2])
    return "".join(texts)


def _pieces(key: str, value: Any) -> Iterable[Any]:
    """Returns the parts of a field with a large list or object, in the order of YAML's writer."""
    is_plain = key.isidentifier() and len(key) < MOST_PLAIN
    if not is_plain or not isinstance(value, list | dict) or len(value) <= YAML_PIECE:
        return (value,)
    starts = range(0, len(value), YAML_PIECE)
    if isinstance(value, list):
        return [value[at : at + YAML_PIECE] for at in starts]
    fields = sorted(value.items())
    return [dict(fields[at : at + YAML_PIECE]) for at in starts]


def _list_body(opened: bytes, kind: Kind, page: ListPage) -> bytes:
    """Returns the JSON of a list, of which the beginning is given. Custom objects tell their kind,
    as in Kubernetes; objects of other kinds leave it to their list.

    It may have a hundred megabytes, so nothing of it is copied twice.
    """
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    told = msgspec.json.encode(head)[:-1] + b","
    body = BytesIO()
    body.write(opened)
    between = b""
    for stored in page.items:
        raw = served_raw(kind, stored)
        body.write(between)
        if kind.custom is None and raw.startswith(told):
            body.write(b"{")
            body.write(memoryview(raw)[len(told) :])
        else:
            body.write(raw)
        between = b","
    body.write(b"]}\n")
    return body.getvalue()


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
    """Returns a document as Go writes it, with the end of a line."""
    return Response(msgspec.json.encode(document) + b"\n", code)


def refused_response(refused: RefusedError) -> Response:
    answer = as_json(refusal(refused), refused.code)
    seconds = (refused.details or {}).get("retryAfterSeconds", 0)
    return msgspec.structs.replace(answer, retry_after=seconds) if seconds else answer


def refusal(refused: RefusedError) -> Document:
    """Returns the metav1.Status that reports a refusal."""
    status: Document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": refused.continue_} if refused.continue_ else {},
        "status": "Failure",
        "message": str(refused),
    }
    if refused.reason:
        status["reason"] = refused.reason
    if refused.details is not None or refused.reason not in _WITHOUT_DETAILS:
        # kubectl reads it without a check
        details = refused.details or {}
        status["details"] = {field: value for field, value in details.items() if value != ""}
    return {**status, "code": refused.code}
