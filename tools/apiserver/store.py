"""The store: objects as JSON documents under one revision counter, with the recent past for watchers.

A document is never changed in place: every write puts a new one in. Watchers read the history from a revision on; a
revision older than the history is compacted, and whoever asks for it must list again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from tools.apiserver.resources import Kind

Document = dict[str, Any]
HISTORY = 100_000


class Refused(Exception):  # noqa: N818 - it is an answer, as the API gives it
    """A metav1.Status that says no: HTTP code, reason and message."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class Event(msgspec.Struct, frozen=True):
    """`document` as it is after the event (as it was last, for DELETED), `before` as it was before it."""

    revision: int
    type: str
    kind: Kind
    document: Document
    before: Document | None


class Store:
    def __init__(self, history: int = HISTORY) -> None:
        self.revision = 1
        self._objects: dict[Kind, dict[tuple[str, str], Document]] = {}
        self._history: deque[Event] = deque(maxlen=history)
        self._news = asyncio.Event()

    def get(self, kind: Kind, namespace: str, name: str) -> Document:
        """Raises Refused with 404."""
        found = self._objects.get(kind, {}).get((namespace, name))
        if found is None:
            resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
            raise Refused(404, "NotFound", f'{resource} "{name}" not found')
        return found

    def list(self, kind: Kind, namespace: str) -> Iterable[Document]:
        """In the order of namespace and name; all namespaces for ""."""
        objects = self._objects.get(kind, {})
        return (objects[key] for key in sorted(objects) if not namespace or key[0] == namespace)

    def create(self, kind: Kind, document: Document) -> Document:
        """Raises Refused with 409 if the name is taken."""
        key = _key(document)
        if key in self._objects.setdefault(kind, {}):
            raise Refused(409, "AlreadyExists", f'{kind.plural} "{key[1]}" already exists')
        return self._put(kind, "ADDED", document, None)

    def update(self, kind: Kind, document: Document) -> Document:
        """Replace. Raises Refused: 404, or 409 if the document carries a resourceVersion that is not the latest."""
        namespace, name = _key(document)
        before = self.get(kind, namespace, name)
        wanted = document["metadata"].get("resourceVersion")
        if wanted and wanted != before["metadata"]["resourceVersion"]:
            raise Refused(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {kind.plural} "{name}": the object has been modified; '
                "please apply your changes to the latest version and try again",
            )
        return self._put(kind, "MODIFIED", document, before)

    def delete(self, kind: Kind, namespace: str, name: str) -> Document:
        """Raises Refused with 404."""
        before = self.get(kind, namespace, name)
        del self._objects[kind][namespace, name]
        return self._record(kind, "DELETED", before, before)

    def since(self, revision: int) -> Iterable[Event]:
        """The events after a revision. Raises Refused with 410 if it is compacted."""
        oldest = self._history[0].revision if self._history else self.revision + 1
        if revision + 1 < oldest and revision < self.revision:
            raise Refused(410, "Expired", f"too old resource version: {revision} ({oldest})")
        missing = self.revision - revision
        start = max(len(self._history) - missing, 0)
        return [self._history[i] for i in range(start, len(self._history))]

    async def news(self) -> None:
        """Wait for the next write."""
        await self._news.wait()

    def _put(self, kind: Kind, event: str, document: Document, before: Document | None) -> Document:
        written = self._record(kind, event, document, before)
        self._objects[kind][_key(written)] = written
        return written

    def _record(self, kind: Kind, event: str, document: Document, before: Document | None) -> Document:
        self.revision += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.revision)}
        written = {**document, "metadata": metadata}
        self._history.append(Event(self.revision, event, kind, written, before))
        self._news.set()
        self._news = asyncio.Event()
        return written


def _key(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
