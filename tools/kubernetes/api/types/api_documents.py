"""The documents of objects, as JSON and at one revision, and the refusal of a request."""

from __future__ import annotations

from typing import Any

import msgspec

Document = dict[str, Any]
_ENCODER = msgspec.json.Encoder()


class RefusedError(Exception):
    """A refusal, as a metav1.Status: HTTP code, reason, message, and details for some clients."""

    def __init__(
        self, code: int, reason: str, message: str, details: Document | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details


class StoredObject:
    """A document at one revision; `raw` is its JSON.

    The document of a renewed lease is made each time that somebody reads it. Most are never read,
    and the history holds many.
    """

    __slots__ = ("_document", "_raw", "_renew_time", "revision")

    def __init__(self, document: Document, revision: int, renew_time: str | None = None) -> None:
        self.revision = revision
        self._document = document
        self._renew_time = renew_time
        self._raw: bytes | None = None

    def renewed(self, time: str, revision: int) -> StoredObject:
        """Returns the lease with another renewTime."""
        return StoredObject(self._document, revision, time)

    @property
    def document(self) -> Document:
        lease = self._document
        if self._renew_time is None:
            return lease
        metadata = {**lease["metadata"], "resourceVersion": str(self.revision)}
        spec = {**lease["spec"], "renewTime": self._renew_time}
        return {**lease, "metadata": metadata, "spec": spec}

    @property
    def raw(self) -> bytes:
        if self._raw is None:
            self._raw = _ENCODER.encode(self.document)
        return self._raw
