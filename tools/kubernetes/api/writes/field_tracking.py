"""Keeps the entries of managedFields while an object is written.

Writes without a manager, which are not a client's, leave the entries as they are.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..ownership.field_sets import FieldSetError
from ..ownership.updates import FieldWrite, changed_entries, entries_of_client, first_entries
from ..store import Store
from ..types.api_documents import ENTRIES, Document, StoredObject
from ..types.field_entries import FieldEntries
from ..types.resources import Kind


class FieldTracker:
    """The keeping of entries for the writes of one manager to a store; None tracks nothing."""

    def __init__(self, store: Store, manager: str | None) -> None:
        self._store = store
        self.manager = manager

    def write(self, kind: Kind, subresource: str = "") -> FieldWrite:
        """Returns a write of the manager, now."""
        store, manager = self._store, self.manager or ""
        return FieldWrite(store.catalog, kind, manager, subresource, store.outside.now())

    def of_new(self, kind: Kind, created: Document, sent: Any) -> FieldEntries | None:
        """Returns the entries of a new object: those that an apply made, or else the manager's.

        `sent` are those that an apply made, or that the request has.
        """
        if isinstance(sent, FieldEntries) or self.manager is None:
            return sent if isinstance(sent, FieldEntries) else None
        had = entries_of_client(sent) if sent else None
        with suppress(FieldSetError):  # as in Kubernetes, which then tracks nothing
            if had is not None:
                return changed_entries(self.write(kind), None, created, had)
            return first_entries(self.write(kind), created)
        return None

    def of_update(
        self, kind: Kind, before: StoredObject, after: Document, sent: Any, subresource: str
    ) -> FieldEntries | None:
        """Returns the entries of an updated object.

        `sent` are those that an apply made, or that the request has; None if it has none. An empty
        list, and one of an empty entry, clear the entries.
        """
        had = before.entries
        if isinstance(sent, FieldEntries):
            return sent
        if sent in ([], [{}]) and not subresource:
            return None
        if self.manager is None:
            return had
        if sent and not subresource:
            had = entries_of_client(sent) or had
        if had is None:
            return None
        with suppress(FieldSetError):
            return changed_entries(self.write(kind, subresource), before.document, after, had)
        return None


def without_entries(document: Document) -> tuple[Document, Any]:
    """Returns a document without entries, and these; None if it has none."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or ENTRIES not in metadata:
        return document, None
    kept = {key: value for key, value in metadata.items() if key != ENTRIES}
    return {**document, "metadata": kept}, metadata[ENTRIES]


def mentions_entries(patch: Any) -> bool:
    """True if a patch has something to do with entries."""
    if isinstance(patch, dict):
        metadata = patch.get("metadata")
        return isinstance(metadata, dict) and ENTRIES in metadata
    if not isinstance(patch, list):
        return False
    paths = [
        operation.get(key, "")
        for operation in patch
        if isinstance(operation, dict)
        for key in ("path", "from")
    ]
    return any(
        path in ("", "/metadata") or str(path).startswith(f"/metadata/{ENTRIES}") for path in paths
    )


def reviewed_metadata(store: Store, kind: Kind, document: Document, manager: str) -> Document:
    """Returns the metadata of the answer to a review, whose fields belong to the one who asks."""
    metadata: Document = document.get("metadata") or {}
    asked = {**document, "metadata": metadata}
    entries = FieldTracker(store, manager).of_new(kind, asked, None)
    return metadata if entries is None else {**metadata, ENTRIES: entries.listed()}
