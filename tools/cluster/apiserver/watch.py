"""Watches: the events of one kind, one per line, until the client leaves or the time is up."""

from __future__ import annotations

import asyncio

import msgspec

from ...kubernetes.api.requests.list_options import is_on, sends_initial_events, too_large
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.requests.selectors import matches_of
from ...kubernetes.api.store import Store, StoreEvent
from ...kubernetes.api.tables import table
from ...kubernetes.api.types.api_documents import Document, RefusedError, StoredObject
from ...kubernetes.api.types.conversion import served_raw
from ...kubernetes.api.types.resources import Kind
from .http import Stream
from .next_write import next_write

BOOKMARK_SECONDS = 30.0
LONGEST_SECONDS = 3600
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watch:
    """A watch request.

    An object that leaves the selection is reported as DELETED, one that enters it as ADDED. A watch
    that begins with all objects marks their end with an annotated bookmark: a streamed list.
    """

    def __init__(self, store: Store, kind: Kind, namespace: str, request: HttpRequest) -> None:
        """Reads the query.

        Raises RefusedError: 400 or 422 if it is invalid, 410 for a compacted revision, and 504 if
        a streamed list shall not be older than a revision to come.
        """
        query = request.query
        self._store = store
        self._kind = kind
        self._namespace = namespace
        self._matches = matches_of(
            kind, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        self._as_table = "as=Table" in request.headers.get("accept", "").split(",", maxsplit=1)[0]
        self._include = query.get("includeObject", "Metadata")
        self._bookmarks = is_on(query, "allowWatchBookmarks")
        self._definitions = True
        self._initial = sends_initial_events(query)
        try:
            self._revision = int(query.get("resourceVersion") or 0)
            self._seconds = min(
                int(query.get("timeoutSeconds") or LONGEST_SECONDS), LONGEST_SECONDS
            )
        except ValueError as problem:
            raise RefusedError(
                400, "BadRequest", f"resourceVersion, timeoutSeconds: {problem}"
            ) from None
        if not self._initial:
            self._revision = self._revision or store.revision
            store.check_known(kind, self._revision)
        elif self._revision > store.revision:
            raise too_large(self._revision, store.revision)

    async def run(self, stream: Stream) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._follow(stream)
        except TimeoutError:
            return
        except RefusedError as refused:
            failed = {
                "status": "Failure",
                "message": str(refused),
                "reason": refused.reason,
                "code": refused.code,
            }
            status = msgspec.json.encode(
                {"apiVersion": "v1", "kind": "Status", "metadata": {}, **failed}
            )
            await stream.write(_line("ERROR", status))

    async def _follow(self, stream: Stream) -> None:
        if self._initial:
            chosen = [s for s in self._store.list(self._kind, self._namespace) if self._selects(s)]
            self._revision = self._store.revision
            lines = [self._event_line("ADDED", stored) for stored in chosen]
            if self._bookmarks:
                lines.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
            if lines:
                await stream.write(b"".join(lines))
        while True:
            latest = self._store.revision
            lines = [
                line
                for event in self._store.since(self._kind, self._revision)
                for line in self._lines_of(event)
            ]
            self._revision = latest
            if lines:
                await stream.write(b"".join(lines))
            elif not await self._wait_for_write() and self._bookmarks:
                self._revision = self._store.revision
                await stream.write(self._bookmark({}))

    async def _wait_for_write(self) -> bool:
        """Waits for a write. Returns False if there was none for BOOKMARK_SECONDS."""
        try:
            async with asyncio.timeout(BOOKMARK_SECONDS):
                await next_write(self._store, self._kind)
        except TimeoutError:
            return bool(self._store.since(self._kind, self._revision))
        return True

    def _lines_of(self, event: StoreEvent) -> list[bytes]:
        if self._namespace and event.after.document["metadata"].get("namespace") != self._namespace:
            return []
        was = event.before is not None and self._selects(event.before)
        now = event.type != "DELETED" and self._selects(event.after)
        if not was and not now:
            return []
        kind = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
        return [self._event_line(kind, event.after)]

    def _selects(self, stored: StoredObject) -> bool:
        return self._matches is None or self._matches(stored.document)

    def _event_line(self, kind: str, stored: StoredObject) -> bytes:
        if not self._as_table:
            return _line(kind, served_raw(self._kind, stored))
        rows = table(
            self._kind,
            [stored.document],
            revision=str(stored.revision),
            now=self._store.outside.wall(),
            include=self._include,
            definitions=self._definitions,
        )
        self._definitions = False
        return _line(kind, msgspec.json.encode(rows))

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        metadata: Document = {"resourceVersion": str(self._revision)}
        if annotations:
            metadata["annotations"] = annotations
        mark: Document = {
            "kind": self._kind.kind,
            "apiVersion": self._kind.api_version,
            "metadata": metadata,
        }
        if self._as_table:
            mark = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "rows": [],
            }
        return _line("BOOKMARK", msgspec.json.encode(mark))


def _line(kind: str, raw: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"
