"""Reflector: lists the objects of one kind, then watches their changes.

The reader gets all objects (ObjectsListed), then every change, and all objects again whenever the
server cannot report the changes since the last one. Failures are handled and logged here; the
stream does not end. An object that cannot be read is reported as Unreadable, with the part that can
be read; for a deleted object that part is enough. If the server refuses to list the kind, that is
reported as KindUnlisted, and logged once.

The list may be the beginning of the watch, which the server streams object by object up to a
bookmark. If it does not, the objects are listed page by page.

The reader may pass in the objects that it holds. For an unchanged object of a list, that object is
yielded, and nothing is decoded. The time and the memory that a list takes are therefore in
proportion to the changes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from types import GenericAlias
from typing import Any, Generic, TypeVar

import aiohttp
import anyio
import anyio.lowlevel
import msgspec

from ..runtime.backoff import Rng
from ..runtime.clock import Clock
from ..scheduling.framework.logger import get_logger
from ..scheduling.kube.core import Pod
from ..scheduling.kube.meta import HasMetadata
from ..scheduling.kube.meta import Status as ApiStatus
from ..scheduling.kube.reading import UNREADABLE, Reader, UnreadableError
from ..scheduling.kube.whole import with_json
from .answers import Bookmark, Envelope, Event, Page, Version, VersionedObject, is_end_of_list
from .bodies import TooLongError, read_lines
from .interruption import (
    ERRORS,
    STALLED_SECONDS,
    InterruptedWatchError,
    KindUnlisted,
    interruption,
    stalled_error,
    unlisted,
)
from .reflector_state import STREAMED_AGAIN, Next, ReflectorState, RequestEnd, Streaming
from .rest import (
    ApiError,
    Client,
    ConnectionFailedError,
    Timeouts,
    TooLongAnswerError,
    in_words,
    is_refused,
    refusal,
    refusal_body,
)
from .sharing import Sharing
from .silence import SILENCE_SECONDS, SilenceGuard

log = get_logger(__name__)

T = TypeVar("T", bound=HasMetadata | dict[str, Any])
PAGE = 5000  # objects; fewer once they have been too long
MAX_LINE = 16 << 20  # bytes of a line; an API server takes objects of up to 3 MiB
SLICE = 250  # the number of objects that are decoded before other tasks may run
SLICE_SECONDS = 0.02  # or fewer objects, if they took this long
SHORT_SECONDS = 1.0
HEAD_SECONDS = 30.0  # an API server sends the head of a watch at once
STREAMED_LIST = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


class Unreadable(msgspec.Struct, Generic[T], frozen=True):
    """An object was added or modified, but cannot be read.

    `part` is its readable part, which usually has its name; `problem` is the reason.
    """

    part: T
    problem: str


class ObjectsListed(msgspec.Struct, Generic[T], frozen=True):
    """All objects that exist at the moment of the list, at this resource version; "" if that is not
    known.
    """

    items: Sequence[T]
    unreadable: Sequence[Unreadable[T]] = ()
    version: str = ""


class ObjectChanged(msgspec.Struct, Generic[T], frozen=True):
    """An object was added or modified."""

    object: T


class ObjectDeleted(msgspec.Struct, Generic[T], frozen=True):
    """An object was deleted. `object` is its last state, or the readable part of that state."""

    object: T


WatchUpdate = ObjectsListed[T] | ObjectChanged[T] | ObjectDeleted[T] | Unreadable[T] | KindUnlisted


class Reflector(Generic[T]):
    """A follower of the objects under one path, such as `/api/v1/pods`.

    `selector` is a query such as `fieldSelector=...`, or "". Lists are streamed while `streaming`
    works. An object is yielded with its whole JSON if `keeps_whole` says so.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        kind: type[T],
        clock: Clock,
        rng: Rng,
        selector: str = "",
        *,
        streaming: Streaming | None = None,
        keeps_whole: Callable[[T], bool] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._query = f"&{selector}" if selector else ""
        self._clock = clock
        self._rng = rng
        self._keeps_whole = keeps_whole
        self._streaming = streaming or Streaming(works=False)
        self._state = ReflectorState(rng, self._streaming)
        self._streamed: StreamedList[T] | None = None  # the list that has no end yet
        self._has_changes = False  # this watch has brought changes
        self._interrupted = False
        self._has_bookmarks = False  # the server has sent one
        self._version = ""  # of the line that was read last
        self._unlisted: KindUnlisted | None = None
        self._page = PAGE
        self._sharing = Sharing()
        self._versioned = msgspec.json.Decoder(VersionedObject)
        self._reader = Reader(kind)
        alias = GenericAlias(Event, (kind,))  # Event[kind], for a kind known only at run time
        self._event: msgspec.json.Decoder[Event[T]] = msgspec.json.Decoder(alias, strict=False)

    async def changes(self, held: Mapping[str, T] | None = None) -> AsyncGenerator[WatchUpdate[T]]:
        """Yields ObjectsListed first, then changes, without end.

        `held` maps the keys of the reader's objects to the objects, as they were yielded.
        """
        relist = True
        while True:
            streams = relist and self._state.streams
            self._streamed = StreamedList[T](self._clock.now()) if streams else None
            try:
                if relist and not streams:
                    yield await self._list(held or {})
                async with aclosing(self._watch()) as watch:
                    async for lines in watch:
                        for line in lines:
                            if self._streamed is not None:
                                if await self._add_listed_line(line, self._streamed, held or {}):
                                    listed = self._streamed.listed(self._version)
                                    self._streamed = None
                                    yield listed
                                    del listed  # It would hold all objects as they were then.
                                continue
                            change = self._change(line)
                            self._state.resource_version = self._version
                            if change is not None and not isinstance(change, Bookmark):
                                self._has_changes = True
                                yield change
                            del change
                        # The next line may be an hour away, and these large.
                        line = b""
                        lines.clear()
                step = self._note_end(RequestEnd.QUIETLY)
            except InterruptedWatchError as ended:
                step = self._next_request_after(ended)
                if ended.unlisted is not None:
                    yield ended.unlisted
            relist = step.relist
            await self._clock.sleep(step.delay)

    def _note_end(self, how: RequestEnd, retry_after: float | None = None) -> Next:
        streams = self._streamed is not None
        return self._state.ended(how, self._clock.now(), retry_after, while_streaming=streams)

    def _next_request_after(self, ended: InterruptedWatchError) -> Next:
        worked = self._streaming.works
        step = self._note_end(ended.how, ended.retry_after)
        if self._streamed is not None and ended.how not in STREAMED_AGAIN:
            # One warning, although all kinds are listed at the same time.
            stalled = ended.how is RequestEnd.STALLED and worked
            (log.warning if stalled else log.debug)(
                "list not streamed", path=self._path, error=str(ended)
            )
            return step
        before, self._unlisted = self._unlisted, ended.unlisted
        if self._unlisted is not None:
            if before is None or before.problem != self._unlisted.problem:
                log.warning(self._unlisted.problem)
            self._interrupted = True
            return step
        if ended.how is RequestEnd.NEWS:
            log.debug("watch closed soon", path=self._path, again_in_seconds=round(step.delay, 2))
            return step
        # One warning for each outage and kind, however often it is tried again.
        (log.debug if self._interrupted else log.warning)(
            "watch interrupted",
            path=self._path,
            error=str(ended),
            again_in_seconds=round(step.delay, 1),
        )
        self._interrupted = True
        return step

    def _note_success(self) -> None:
        self._unlisted = None
        if self._interrupted:
            self._interrupted = False
            log.info("watch resumed", path=self._path)

    def _begin_at(self, version: str) -> None:
        """Notes a list that has come to its end. Raises InterruptedWatchError if it is too old."""
        if not self._state.takes(version):
            raise InterruptedWatchError(
                RequestEnd.OLDER, f"a list of version {version}, which is older than what was seen"
            )
        self._note_success()
        self._version = version

    async def _list(self, held: Mapping[str, T]) -> ObjectsListed[T]:
        """Lists page by page. While one page is decoded, the next is fetched."""
        items: list[T] = []
        unreadable: list[Unreadable[T]] = []
        pages: list[Page | ApiError | ConnectionFailedError] = []
        await self._fetch("", pages)
        while True:
            page = pages.pop()
            if not isinstance(page, Page):
                raise unlisted(self._path, page)
            async with anyio.create_task_group() as group:
                if page.metadata.continue_:
                    group.start_soon(self._fetch, page.metadata.continue_, pages)
                since = anyio.current_time()
                for number, raw in enumerate(page.items):
                    if number % SLICE == 0 or anyio.current_time() - since > SLICE_SECONDS:
                        await anyio.lowlevel.checkpoint()
                        since = anyio.current_time()
                    unchanged = self._unchanged(raw, held) if held else None
                    change = ObjectChanged(unchanged) if unchanged is not None else self._read(raw)
                    match change:
                        case ObjectChanged(item):
                            items.append(item)
                        case Unreadable():
                            unreadable.append(change)
                        case None:
                            pass
            if not page.metadata.continue_:
                self._begin_at(page.metadata.resource_version)
                return ObjectsListed(items, unreadable, page.metadata.resource_version)

    async def _fetch(
        self, token: str, pages: list[Page | ApiError | ConnectionFailedError]
    ) -> None:
        """Appends the next page of the list to `pages`, or the reason why there is none."""
        path = f"{self._path}?limit={self._page}{self._query}"
        try:
            pages.append(
                await self._client.page(path + (f"&continue={token}" if token else ""), Page)
            )
        except TooLongAnswerError as failure:
            self._page = max(self._page // 10, 1)
            pages.append(failure)
        except (ApiError, ConnectionFailedError) as failure:
            pages.append(failure)

    async def _add_listed_line(
        self, line: bytes, streamed: StreamedList[T], held: Mapping[str, T]
    ) -> bool:
        """Adds a line to a streamed list. True if the line ends the list. Raises
        InterruptedWatchError.
        """
        if streamed.lines % SLICE == 0:
            await anyio.lowlevel.checkpoint()
        streamed.lines += 1
        unchanged = self._unchanged_line(line, held) if held else None
        change = ObjectChanged(unchanged) if unchanged is not None else self._change(line)
        if not isinstance(change, Bookmark):
            streamed.take(change, self._clock.now())
            return False
        if change.ends_list:
            self._begin_at(self._version)
        elif self._clock.now() - streamed.active_at > STALLED_SECONDS:
            raise stalled_error()
        return change.ends_list

    async def _watch(self) -> AsyncGenerator[list[bytes]]:
        """Yields the lines of one watch, in lists of all lines that arrived at the same time.

        The watch begins with all objects while a list is streamed.
        """
        seconds = int(300 * (1 + self._rng.random()))
        query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}{self._query}"
        lists, begins_at = self._streamed is not None, self._state.resource_version
        start = STREAMED_LIST if lists else f"resourceVersion={begins_at}"
        path = f"{self._path}?{query}&{start}"
        timeouts = Timeouts(STALLED_SECONDS if lists else HEAD_SECONDS, seconds + HEAD_SECONDS)
        opened, has_lines, self._has_changes = self._clock.now(), False, False
        guard: SilenceGuard | None = None
        try:
            async with await self._client.open(path, timeouts) as response:
                if response.status >= 400:
                    body = await refusal_body(response)
                    failure = refusal(response.status, body, response.headers.get("Retry-After"))
                    raise interruption(failure)
                if not lists:
                    self._note_success()
                with SilenceGuard(self._clock, self._longest_silence, response.close) as guard:
                    async for lines in read_lines(response, MAX_LINE):
                        if lines or self._streamed is None:
                            guard.note_activity()
                        has_lines = has_lines or bool(lines)
                        yield lines
        except TooLongError as endless:
            raise InterruptedWatchError(RequestEnd.REFUSED, str(endless)) from None
        except ConnectionFailedError as failure:
            raise InterruptedWatchError(RequestEnd.BROKEN, str(failure)) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as failure:
            if guard is not None and guard.closed:
                raise self._silence_error() from None
            how = RequestEnd.BUSY if is_refused(failure) else RequestEnd.BROKEN
            why = f"{self._client.server}: {in_words(failure)}"
            raise InterruptedWatchError(how, why) from None
        if self._clock.now() - opened < SHORT_SECONDS:
            # Without a delay, a server or proxy that cannot watch would be asked again and again.
            how = RequestEnd.SHORT if has_lines else RequestEnd.BROKEN
            if self._has_changes and self._state.resource_version != begins_at:
                how = RequestEnd.NEWS
            raise InterruptedWatchError(how, "the watch was closed at once")

    def _longest_silence(self) -> float | None:
        """Returns the seconds without a byte after which the watch is given up; None for never."""
        if self._streamed is not None:
            return STALLED_SECONDS
        return SILENCE_SECONDS if self._has_bookmarks else None

    def _silence_error(self) -> InterruptedWatchError:
        if self._streamed is not None:
            return stalled_error()
        why = f"nothing arrived for {SILENCE_SECONDS:g} s, not even a bookmark"
        return InterruptedWatchError(RequestEnd.BROKEN, why)

    def _change(
        self, line: bytes
    ) -> ObjectChanged[T] | ObjectDeleted[T] | Unreadable[T] | Bookmark | None:
        """Returns the change in a line, and notes its version.

        Returns None for an empty line, and an object without a readable part. Raises
        InterruptedWatchError.
        """
        if not line:
            return None
        if self._keeps_whole is not None:
            return self._read_exceptional_line(line)
        try:
            event = self._event.decode(line)
            _, version = _identity(event.object)
            match event.type:
                case "ADDED" | "MODIFIED" if version:
                    accepted = self._checked_and_shared(event.object)
                    self._version = version
                    return ObjectChanged(accepted)
                case "DELETED" if version and _is_named(event.object):
                    self._version = version
                    return ObjectDeleted(event.object)
                case _:
                    return self._read_exceptional_line(line)
        except UNREADABLE:
            return self._read_exceptional_line(line)

    def _read_exceptional_line(
        self, line: bytes
    ) -> ObjectChanged[T] | ObjectDeleted[T] | Unreadable[T] | Bookmark | None:
        """Reads a line with a bookmark, an object with nulls or without a version, an object that
        is readable only in part, or one whose JSON may be kept.

        Any other line ends the watch. Raises InterruptedWatchError.
        """
        try:
            event = msgspec.json.decode(line, type=Envelope)
            if event.type == "ERROR":
                status = Reader(ApiStatus).read(event.object)
                how = ERRORS.get(status.code, RequestEnd.REFUSED)
                raise InterruptedWatchError(how, status.message)
            version = msgspec.json.decode(event.object, type=Version).metadata.resource_version
            ends_list = event.type == "BOOKMARK" and is_end_of_list(event.object)
        except UNREADABLE as problem:
            raise InterruptedWatchError(
                RequestEnd.REFUSED, f"expected a watch event, got {line[:80]!r}: {problem}"
            ) from None
        match event.type:
            case "BOOKMARK" if version:
                self._has_bookmarks = True
                self._version = version
                return Bookmark(ends_list)
            case "ADDED" | "MODIFIED" | "DELETED":
                item = self._read(event.object)
                if version or isinstance(item, ObjectChanged):
                    change = item if event.type != "DELETED" else _end(item, line)
                    self._version = version or self._version
                    return change
            case _:
                pass
        raise InterruptedWatchError(
            RequestEnd.REFUSED, f"expected a watch event, got {line[:80]!r}"
        )

    def _unchanged_line(self, line: bytes, held: Mapping[str, T]) -> T | None:
        """Returns the held object if the line adds an equal one, else None."""
        try:
            event = msgspec.json.decode(line, type=Envelope)
        except UNREADABLE:
            return None
        return self._unchanged(event.object, held) if event.type == "ADDED" else None

    def _unchanged(self, raw: msgspec.Raw, held: Mapping[str, T]) -> T | None:
        """Returns the held object if the listed one is equal, else None."""
        try:
            listed = self._versioned.decode(raw).metadata
        except UNREADABLE:
            return None
        item = held.get(f"{listed.namespace}/{listed.name}" if listed.namespace else listed.name)
        if item is None or not listed.resource_version:
            return None
        return item if _identity(item) == (listed.uid, listed.resource_version) else None

    def _read(self, raw: msgspec.Raw) -> ObjectChanged[T] | Unreadable[T] | None:
        """Returns the object or its readable part, or None if nothing of it is readable."""
        try:
            item = self._checked_and_shared(self._reader.decode(raw))
            keeps = self._keeps_whole is not None and self._keeps_whole(item)
            return ObjectChanged(with_json(item, raw) if keeps else item)
        except UNREADABLE as problem:
            part = self._reader.readable_part(raw)
            if part is None:
                log.warning("unreadable object ignored", path=self._path, error=str(problem))
                return None
            return Unreadable(part, str(problem))

    def _checked_and_shared(self, item: T) -> T:
        """Checks an object and returns it with its parts shared. Raises UnreadableError."""
        if isinstance(item, dict):
            return item
        if not _is_named(item):
            raise UnreadableError("metadata.name: expected a name")
        if not isinstance(item, Pod):
            self._reader.check(item)
        elif not item.metadata.namespace:
            raise UnreadableError("metadata.namespace: expected a namespace")
        elif not item.metadata.uid:  # distinguishes a pod from the next one with the same name
            raise UnreadableError("metadata.uid: expected a uid")
        return self._sharing.shared(item)


class StreamedList(Generic[T]):
    """The part of a streamed list that has arrived: its objects by key, unreadable ones by uid.

    `active_at` is the time of its last object, or of its request.
    """

    def __init__(self, now: float) -> None:
        self.lines = 0
        self.active_at = now
        self._items: dict[str, T | Unreadable[T]] = {}

    def take(
        self, change: ObjectChanged[T] | ObjectDeleted[T] | Unreadable[T] | None, now: float
    ) -> None:
        self.active_at = now
        match change:
            case ObjectChanged(item):
                self._items[_place(item)] = item
            case Unreadable(part):
                self._items[_place(part)] = change
            case ObjectDeleted(last):
                self._items.pop(_place(last), None)
            case None:
                pass

    def listed(self, version: str) -> ObjectsListed[T]:
        items, unreadable = [], []
        for item in self._items.values():
            if isinstance(item, Unreadable):
                unreadable.append(item)
            else:
                items.append(item)
        return ObjectsListed(items, unreadable, version)


def _place(item: HasMetadata | dict[str, Any]) -> str:
    if isinstance(item, dict):
        metadata = item["metadata"]
        return f"{metadata.get('namespace', '')}/{metadata.get('name') or metadata.get('uid')}"
    return f"{item.metadata.namespace}/{item.metadata.name or item.metadata.uid}"


def _end(change: ObjectChanged[T] | Unreadable[T] | None, line: bytes) -> ObjectDeleted[T]:
    """Returns the deletion of an object, which needs a name or a uid. Raises
    InterruptedWatchError.
    """
    match change:
        case ObjectChanged(last):
            return ObjectDeleted(last)
        case Unreadable(part) if isinstance(part, dict) or part.metadata.name or part.metadata.uid:
            return ObjectDeleted(part)
        case _:
            raise InterruptedWatchError(
                RequestEnd.REFUSED, f"expected the name of the deleted object, got {line[:80]!r}"
            )


def _is_named(item: HasMetadata | dict[str, Any]) -> bool:
    return isinstance(item, dict) or bool(item.metadata.name)


def _identity(item: HasMetadata | dict[str, Any]) -> tuple[str, str]:
    """Returns the uid and the resourceVersion of an object or of a plain document."""
    if isinstance(item, dict):
        metadata = item["metadata"]
        return str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))
    return item.metadata.uid, item.metadata.resource_version
