"""The events of watches: an object whole, its metadata, or its row of a table; as lines of JSON or
frames of protobuf.

What many watchers are sent is encoded once. An object has its JSON; other forms of the latest
events are remembered here.
"""

from __future__ import annotations

import msgspec

from ...kubernetes.api.requests.accepted_forms import TABLE, accepted_form
from ...kubernetes.api.requests.media_types import PROTOBUF
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import Document, RefusedError, StoredObject
from ...kubernetes.api.types.conversion import served_form, served_raw
from ...kubernetes.api.types.resources import Kind
from .answer_forms import META, object_in_protobuf, partial, refusal

REMEMBERED = 1000  # objects in a form, until the oldest is forgotten


class WatchForm(msgspec.Struct, frozen=True):
    """How a watch shows objects of a kind: OBJECT, METADATA, or TABLE with what `include` says;
    these two in a version of meta.k8s.io. Only a table is never in protobuf.
    """

    kind: Kind
    how: str
    include: str = ""
    api_version: str = ""
    in_protobuf: bool = False

    def event(self, kind: str, encoded: bytes) -> tuple[bytes, ...]:
        """Returns the parts of an event of a type: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""
        if self.in_protobuf:
            from ...kubernetes.api.types.protobuf_writer import encoded_event

            return (encoded_event(kind, encoded),)
        return line(kind, encoded)

    def refused(self, refused: RefusedError) -> bytes:
        """Returns the event that ends a watch."""
        status = refusal(refused)
        if self.in_protobuf:
            from ...kubernetes.api.types.protobuf_writer import encoded_status

            return b"".join(self.event("ERROR", encoded_status(status)))
        return b"".join(self.event("ERROR", msgspec.json.encode(status)))


OBJECT, METADATA = "Object", "Metadata"


def form_of(kind: Kind, request: HttpRequest) -> WatchForm:
    """Returns the form that the client prefers. Raises RefusedError with 406 if there is none."""
    accepted = accepted_form(request.headers.get("accept", ""), streams=True)
    version = f"{META}/{accepted.version}"
    if accepted.as_kind == TABLE:
        return WatchForm(kind, TABLE, request.query.get("includeObject", METADATA), version)
    in_protobuf = accepted.media_type == PROTOBUF
    if accepted.as_kind:
        return WatchForm(kind, METADATA, api_version=version, in_protobuf=in_protobuf)
    return WatchForm(kind, OBJECT, in_protobuf=in_protobuf)


class WatchLines:
    """Writes the lines of all watches of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._encoded: dict[tuple[int, WatchForm], bytes] = {}

    def encoded(self, form: WatchForm, stored: StoredObject) -> bytes:
        """Returns the object of a recent event in a form, encoded once for all who watch."""
        if form.how == OBJECT and form.kind.stored_as is None and not form.in_protobuf:
            return stored.raw
        key = stored.revision, form
        encoded = self._encoded.get(key)
        if encoded is None:
            encoded = self._encoded[key] = self.encode(form, stored)
            if len(self._encoded) > REMEMBERED:
                del self._encoded[next(iter(self._encoded))]
        return encoded

    def encode(self, form: WatchForm, stored: StoredObject, *, definitions: bool = False) -> bytes:
        """Returns an object in a form as it is now; `definitions` are those of a table's columns.

        Raises RefusedError with 400 for a table of a form that there is not.
        """
        if form.in_protobuf:
            return object_in_protobuf(self._store, form.kind, stored, form.api_version)
        if form.how == OBJECT:
            return served_raw(form.kind, stored)
        if form.how == METADATA:
            return msgspec.json.encode(partial(stored, form.api_version))
        from ...kubernetes.api.tables import table  # most watches show objects

        rows = table(
            form.kind,
            [
                stored.encodable
                if form.kind.custom is None
                else served_form(form.kind, stored.encodable)
            ],
            revision=str(stored.revision),
            now=self._store.outside.wall(),
            include=form.include,
            definitions=definitions,
        )
        return msgspec.json.encode({**rows, "apiVersion": form.api_version})

    def bookmark(self, form: WatchForm, revision: int, annotations: dict[str, str]) -> bytes:
        """Returns an object that has nothing but a revision and annotations."""
        metadata: Document = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        kind = form.kind
        empty = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if form.how == OBJECT and not form.in_protobuf:
            return msgspec.json.encode(empty)
        return self.encode(form, StoredObject(empty, revision))


def as_it_was(before: StoredObject, revision: int) -> StoredObject:
    """Returns an object that leaves a selection: as it was in it, at the revision of the write."""
    metadata = {**before.document["metadata"], "resourceVersion": str(revision)}
    document = {**before.document, "metadata": metadata}
    return StoredObject(document, revision, entries=before.entries)


def line(kind: str, encoded: bytes) -> tuple[bytes, bytes, bytes]:
    """Returns the parts of the line of an event."""
    return b'{"type":"' + kind.encode() + b'","object":', encoded, b"}\n"
