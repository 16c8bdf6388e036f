"""The documents of objects, as JSON and at one revision, and the refusal of a request."""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import msgspec

from .field_entries import FieldEntries, compacted_entries

Document = dict[str, Any]
Place = tuple[str, str, str]  # kind, namespace and name
ENTRIES = "managedFields"
OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
PROTOBUF = "application/vnd.kubernetes.protobuf"
_MARK_BYTES = b"\0"  # which JSON never has
_MARK = msgspec.Raw(_MARK_BYTES)
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Document)


def names_of(document: Document) -> tuple[str, str]:
    """Returns the namespace and the name of an object; "" for one that it lacks."""
    metadata = document.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


def place_of(document: Document) -> Place:
    return document["kind"], *names_of(document)


def key_of(document: Document) -> str:
    """Returns `namespace/name`, or the name alone for an object without a namespace."""
    return "/".join(filter(None, names_of(document)))


def controller_in(document: Document) -> Document | None:
    """Returns the reference to the owner that controls an object; None if no owner does."""
    owners = (document.get("metadata") or {}).get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


class RefusedError(Exception):
    """A refusal, as a metav1.Status: HTTP code, reason, message, and details for some clients.

    `continue_` is a token with which a refused list can go on.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Document | None = None,
        continue_: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.continue_ = continue_


class StoredObject:
    """A document at one revision, with the entries of its managedFields, which it does not have
    itself. `raw` is the JSON of both, `whole` the document with its entries.

    The document of a renewed lease, and of an object that was read from a file, is made when
    somebody reads it. Most are never read, and the history holds many.
    """

    __slots__ = ("_document", "_entries", "_raw", "_renew_time", "revision")

    def __init__(
        self,
        document: Document | None,
        revision: int,
        renew_time: str | None = None,
        raw: bytes | None = None,
        entries: FieldEntries | None = None,
    ) -> None:
        """Takes the document or, if it is None, its JSON, which has its entries."""
        self.revision = revision
        self._document = document
        self._entries: FieldEntries | EllipsisType | None = ... if document is None else entries
        self._renew_time = renew_time
        self._raw = raw

    def renewed(self, time: str, revision: int) -> StoredObject:
        """Returns the lease with another renewTime."""
        return StoredObject(self._decoded(), revision, time, None, self.entries)

    @property
    def document(self) -> Document:
        lease = self._document
        if lease is None:
            lease = self._decoded()
        if self._renew_time is None:
            return lease
        metadata = {**lease["metadata"], "resourceVersion": str(self.revision)}
        spec = {**lease["spec"], "renewTime": self._renew_time}
        return {**lease, "metadata": metadata, "spec": spec}

    @property
    def entries(self) -> FieldEntries | None:
        if isinstance(self._entries, EllipsisType):
            self._decoded()
            assert not isinstance(self._entries, EllipsisType)
        return self._entries

    @property
    def whole(self) -> Document:
        document, entries = self.document, self.entries
        if entries is None:
            return document
        metadata = {**document["metadata"], ENTRIES: entries.listed()}
        return {**document, "metadata": metadata}

    @property
    def encodable(self) -> Document:
        """The document with its entries as JSON, which is quick to make, and good for encoding
        alone.
        """
        document, entries = self.document, self.entries
        if entries is None:
            return document
        metadata = {**document["metadata"], ENTRIES: msgspec.Raw(entries.raw)}
        return {**document, "metadata": metadata}

    @property
    def raw(self) -> bytes:
        """The JSON. What is kept of it has a mark in place of the entries, which are far longer
        than their share of the object, and which many objects share.
        """
        entries = self._entries
        if isinstance(entries, EllipsisType):
            assert self._raw is not None
            return self._raw
        if self._raw is None:
            document = self.document
            if entries is not None:
                document = {**document, "metadata": {**document["metadata"], ENTRIES: _MARK}}
            self._raw = _ENCODER.encode(document)
        return self._raw if entries is None else self._raw.replace(_MARK_BYTES, entries.raw, 1)

    @property
    def known_length(self) -> int:
        """The bytes of its JSON but for its entries, if that was made; else 0."""
        return 0 if self._raw is None else len(self._raw)

    def pack(self) -> None:
        """Lets go of the document if its JSON is there, from which it can be made again."""
        if self._raw is not None and self._renew_time is None:
            self._document = None

    def _decoded(self) -> Document:
        document = self._document
        if document is None:  # a thread may read what is packed meanwhile
            assert self._raw is not None
            document = _DECODER.decode(self._raw.replace(_MARK_BYTES, b"null", 1))
            rows = document["metadata"].pop(ENTRIES, None)
            if isinstance(self._entries, EllipsisType):
                self._entries = compacted_entries(rows or [])
            self._document = document
        return document
