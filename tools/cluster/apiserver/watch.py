"""Watches: the events of one kind, one by one, until the client leaves or the time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain

from ...kubernetes.api.requests.accepted_forms import TABLE
from ...kubernetes.api.requests.list_options import is_on, sends_initial_events, too_large
from ...kubernetes.api.requests.list_pages import number_in, revision_in
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.requests.selectors import matches_of
from ...kubernetes.api.store import Store, StoreEvent
from ...kubernetes.api.types.api_documents import RefusedError, StoredObject
from ...kubernetes.api.types.conversion import prepare_conversion
from ...kubernetes.api.types.resources import Kind
from ...kubernetes.api.types.webhook_conversion import ConversionsNeededError
from .http import Stream
from .next_write import next_write
from .watch_lines import WatchLines, as_it_was, form_of
from .webhook_answers import WebhookClient

BOOKMARK_SECONDS = 30.0
LONGEST_SECONDS = 3600
PIECE = 500  # objects or events that are sent at once
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watch:
    """A watch request.

    An object that leaves the selection is reported as DELETED, one that enters it as ADDED. A watch
    that begins with all objects marks their end with an annotated bookmark: a streamed list. A
    revision that is compacted, or yet to come, ends the watch with an event of the type ERROR.
    """

    def __init__(
        self,
        store: Store,
        lines: WatchLines,
        kind: Kind,
        namespace: str,
        request: HttpRequest,
        webhooks: WebhookClient | None = None,
    ) -> None:
        """Reads the query. `webhooks` convert custom objects. Raises RefusedError with 400 or 422
        if the query is invalid.
        """
        converts = kind.custom is not None and kind.custom.webhook is not None
        self._webhooks = webhooks if converts else None
        query = request.query
        self._store = store
        self._lines = lines
        self._kind = kind
        self._namespace = namespace
        self._matches = matches_of(
            kind, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        self._form = form_of(kind, request)
        self._bookmarks = is_on(query, "allowWatchBookmarks")
        self._definitions = self._form.how == TABLE  # the next line has those of the columns
        self._initial = sends_initial_events(query)
        self._revision = revision_in(query)
        self._seconds = min(number_in(query, "timeoutSeconds") or LONGEST_SECONDS, LONGEST_SECONDS)

    async def run(self, stream: Stream) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._follow(stream)
        except TimeoutError:
            return
        except RefusedError as refused:
            await stream.write(self._form.refused(refused))

    async def _follow(self, stream: Stream) -> None:
        if self._initial:
            await self._send_objects(stream)
        else:
            self._revision = self._revision or self._store.revision
        while True:
            latest = self._store.revision
            events = self._store.since(self._kind, self._revision)
            if self._webhooks is not None:
                versions = ((event.before, event.after) for event in events)
                await self._convert(self._webhooks, chain.from_iterable(versions))
            await self._send_events(stream, events)
            self._revision = latest
            if events:
                continue
            if self._has_ended():
                return
            if not await self._wait_for_write() and self._bookmarks:
                self._revision = self._store.revision
                await self._send_bookmark(stream, {})

    async def _send_events(self, stream: Stream, events: Sequence[StoreEvent]) -> None:
        """Sends what concerns this watch, in pieces, for a watch may begin long ago."""
        for at in range(0, len(events), PIECE):
            if at:
                await asyncio.sleep(0)  # others come first
            piece = events[at : at + PIECE]
            lines = b"".join([part for event in piece for part in self._lines_of(event)])
            if lines:
                await stream.write(lines)

    def _has_ended(self) -> bool:
        """True for a custom kind that is served no more, or in another way, as in Kubernetes."""
        kind, catalog = self._kind, self._store.catalog
        return kind.custom is not None and catalog.at(*kind.place) is not kind

    async def _send_objects(self, stream: Stream) -> None:
        """Sends the objects as they are now, in pieces, for they may be many."""
        if self._revision > self._store.revision:
            raise too_large(self._revision, self._store.revision)
        self._revision = self._store.revision
        objects = [s for s in self._store.list(self._kind, self._namespace) if self._selects(s)]
        for at in range(0, len(objects), PIECE):
            if self._webhooks is not None:
                await self._convert(self._webhooks, objects[at : at + PIECE])
            added = (self._line("ADDED", stored) for stored in objects[at : at + PIECE])
            await stream.write(b"".join(chain.from_iterable(added)))
            await asyncio.sleep(0)  # others come first
        if self._bookmarks:
            await self._send_bookmark(stream, {INITIAL_EVENTS_END: "true"})

    async def _convert(
        self, webhooks: WebhookClient, objects: Iterable[StoredObject | None]
    ) -> None:
        try:
            prepare_conversion(self._kind, [each.document for each in objects if each is not None])
        except ConversionsNeededError as needed:
            await webhooks.convert(needed)

    async def _send_bookmark(self, stream: Stream, annotations: dict[str, str]) -> None:
        mark = self._lines.bookmark(self._form, self._revision, annotations)
        await stream.write(b"".join(self._form.event("BOOKMARK", mark)))

    async def _wait_for_write(self) -> bool:
        """Waits for a write. Returns False if there was none for BOOKMARK_SECONDS."""
        try:
            async with asyncio.timeout(BOOKMARK_SECONDS):
                await next_write(self._store, self._kind)
        except TimeoutError:
            return bool(self._store.since(self._kind, self._revision))
        return True

    def _lines_of(self, event: StoreEvent) -> Iterable[bytes]:
        """Returns the parts of the line that reports a write; none if it does not concern this
        watch.
        """
        if self._namespace and event.after.document["metadata"].get("namespace") != self._namespace:
            return ()
        was = event.before is not None and self._selects(event.before)
        now = event.type != "DELETED" and self._selects(event.after)
        if not was and not now:
            return ()
        what = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
        if event.before is not None and what == "DELETED" != event.type:
            return self._line(what, as_it_was(event.before, event.after.revision))
        if self._definitions:
            return self._line(what, event.after)
        return self._form.event(what, self._lines.encoded(self._form, event.after))

    def _line(self, what: str, stored: StoredObject) -> tuple[bytes, ...]:
        encoded = self._lines.encode(self._form, stored, definitions=self._definitions)
        self._definitions = False
        return self._form.event(what, encoded)

    def _selects(self, stored: StoredObject) -> bool:
        return self._matches is None or self._matches(stored.document)
