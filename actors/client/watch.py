"""List, then watch: the changes of one kind, for as long as somebody reads them.

The reader gets everything that is (Listed), then every change, and again everything whenever the
server cannot tell what was missed. Failures are handled here and logged; the stream does not end.
An object that cannot be read is told as Unread, with what can be read of it; of one that is gone,
that is enough. That the server refuses to list the kind is told as well, and logged once a minute
for as long as it does.

The reader may say what it knows: what is the same in a list is then handed on as the object that it
has already, and not read anew, so that a list costs what has changed, in memory as well.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from types import GenericAlias
from typing import Any, Generic, TypeVar

import aiohttp
import anyio
import anyio.lowlevel
import msgspec
import structlog
from berth.actors.client.reflector_state import Ended, Next, ReflectorState
from berth.actors.client.rest import (
    ApiError,
    Client,
    ConnectionFailedError,
    Patience,
    in_words,
    refusal,
)
from berth.actors.client.sharing import Sharing
from berth.actors.client.silence import SILENCE_SECONDS, SilenceGuard
from berth.actors.runtime.backoff import Rng
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import HasMetadata, ListMeta
from berth.actors.scheduling.kube.meta import Status as ApiStatus
from berth.actors.scheduling.kube.reading import UNREADABLE, Reader, UnreadableError

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=HasMetadata | dict[str, Any])
PAGE = 5000
SLICE = 250  # so many objects are decoded before others have their turn
SHORT_SECONDS = 1.0
HEAD_SECONDS = 30.0  # an API server sends the head of a watch at once
SAY_SECONDS = 60.0


class Unread(msgspec.Struct, Generic[T], frozen=True):
    """An object was added or modified, and cannot be read. `rest` is what can, its name mostly;
    `problem` says why.
    """

    rest: T
    problem: str


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """All there is, at this moment."""

    items: Sequence[T]
    unread: Sequence[Unread[T]] = ()


class Changed(msgspec.Struct, Generic[T], frozen=True):
    """An object was added or modified."""

    object: T


class Deleted(msgspec.Struct, Generic[T], frozen=True):
    """An object is gone; as it was last, or what can be read of that."""

    object: T


class Unlisted(msgspec.Struct, frozen=True):
    """The server does not list the kind, because it has no such kind (`absent`) or because it
    refuses to.
    """

    problem: str
    absent: bool = False


Told = Listed[T] | Changed[T] | Deleted[T] | Unread[T] | Unlisted


class _List(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


class _Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A line of the watch whose object could be read, which is nearly every one: decoded in one
    go.
    """

    type: str
    object: T


class _Envelope(msgspec.Struct, frozen=True):
    """A line of the watch whatever its object is."""

    type: str
    object: msgspec.Raw


class _Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Versioned(msgspec.Struct, frozen=True, gc=False):
    metadata: _Identity


class _VersionAlone(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""


class _Version(msgspec.Struct, frozen=True, gc=False):
    metadata: _VersionAlone


class _InterruptedError(Exception):
    """`unlisted` if the server answered, and will not list the kind."""

    def __init__(
        self,
        how: Ended,
        why: str,
        retry_after: float | None = None,
        unlisted: Unlisted | None = None,
    ) -> None:
        super().__init__(why)
        self.how = how
        self.retry_after = retry_after
        self.unlisted = unlisted


class Reflector(Generic[T]):
    """Follows one path, such as `/api/v1/pods`; `selector` is a query such as `fieldSelector=...`,
    or "".
    """

    def __init__(
        self, client: Client, path: str, kind: type[T], clock: Clock, rng: Rng, selector: str = ""
    ) -> None:
        self._client = client
        self._path = path
        self._query = f"&{selector}" if selector else ""
        self._clock = clock
        self._rng = rng
        self._state = ReflectorState(rng)
        self._interrupted = False
        self._bookmarked = False  # whether this server sends bookmarks
        self._unlisted: Unlisted | None = None
        self._said_at = 0.0
        self._sharing = Sharing()
        self._versioned = msgspec.json.Decoder(_Versioned)
        self._reader = Reader(kind)
        alias = GenericAlias(
            _Event, (kind,)
        )  # what _Event[kind] is, for a kind known at run time only
        self._event: msgspec.json.Decoder[_Event[T]] = msgspec.json.Decoder(alias, strict=False)

    async def changes(self, known: Mapping[str, T] | None = None) -> AsyncGenerator[Told[T]]:
        """Listed first, then changes, without end. `known` are the reader's objects by key, as it
        was told of them.
        """
        relist = True
        while True:
            try:
                if relist:
                    yield await self._list(known or {})
                async with aclosing(self._watch()) as watch:
                    async for lines in watch:
                        for line in lines:
                            change = self._change(line)
                            if change is not None:
                                yield change
                step = self._state.ended(Ended.QUIETLY, self._clock.now())
            except _InterruptedError as interruption:
                step = self._after(interruption)
                if interruption.unlisted is not None:
                    yield interruption.unlisted
            relist = step.relist
            await self._pause(step.delay)

    async def _pause(self, seconds: float) -> None:
        """Wait, and say every minute what the server still refuses."""
        until = self._clock.now() + seconds
        while (
            self._unlisted is not None
            and not self._unlisted.absent
            and self._said_at + SAY_SECONDS <= until
        ):
            await self._clock.sleep(self._said_at + SAY_SECONDS - self._clock.now())
            self._say(self._unlisted)
        await self._clock.sleep(max(0.0, until - self._clock.now()))

    def _say(self, unlisted: Unlisted) -> None:
        self._said_at = self._clock.now()
        log.warning(unlisted.problem)

    def _after(self, interruption: _InterruptedError) -> Next:
        step = self._state.ended(interruption.how, self._clock.now(), interruption.retry_after)
        before, self._unlisted = self._unlisted, interruption.unlisted
        if self._unlisted is not None:
            if before is None or before.problem != self._unlisted.problem:
                self._say(self._unlisted)
            self._interrupted = True
            return step
        # One line an outage for each kind, however often it is tried.
        level = logging.DEBUG if self._interrupted else logging.WARNING
        told = {
            "path": self._path,
            "error": str(interruption),
            "again_in_seconds": round(step.delay, 1),
        }
        log.log(level, "watch interrupted", **told)
        self._interrupted = True
        return step

    def _answered(self) -> None:
        self._unlisted = None
        if self._interrupted:
            self._interrupted = False
            log.info("watch resumed", path=self._path)

    async def _list(self, known: Mapping[str, T]) -> Listed[T]:
        """Page by page: while one is decoded, the next is on its way."""
        items: list[T] = []
        unread: list[Unread[T]] = []
        pages: list[_List | ApiError | ConnectionFailedError] = []
        await self._fetch("", pages)
        while True:
            page = pages.pop()
            if not isinstance(page, _List):
                raise self._not_listed(page)
            async with anyio.create_task_group() as group:
                if page.metadata.continue_:
                    group.start_soon(self._fetch, page.metadata.continue_, pages)
                for number, raw in enumerate(page.items):
                    if number % SLICE == 0:
                        await anyio.lowlevel.checkpoint()
                    same = self._same(raw, known) if known else None
                    found = Changed(same) if same is not None else self._read(raw)
                    match found:
                        case Changed(item):
                            items.append(item)
                        case Unread():
                            unread.append(found)
                        case None:
                            pass
            if not page.metadata.continue_:
                self._answered()
                self._state.resource_version = page.metadata.resource_version
                return Listed(items, unread)

    def _not_listed(self, failure: ApiError | ConnectionFailedError) -> _InterruptedError:
        interruption = _interruption(failure)
        if interruption.how is not Ended.REFUSED or isinstance(failure, ConnectionFailedError):
            return interruption
        *before, resource = self._path.strip("/").split("/")
        group = f" in {before[1]}" if before[0] == "apis" else ""
        absent = failure.code == 404
        unlisted = Unlisted(
            f"cannot list {resource}{group} at the cluster scope: {failure}", absent
        )
        return _InterruptedError(
            Ended.ABSENT if absent else Ended.REFUSED, str(failure), None, unlisted
        )

    async def _fetch(
        self, token: str, pages: list[_List | ApiError | ConnectionFailedError]
    ) -> None:
        """A page of the list, or why there is none."""
        path = f"{self._path}?limit={PAGE}{self._query}" + (f"&continue={token}" if token else "")
        try:
            pages.append(await self._client.page(path, _List))
        except (ApiError, ConnectionFailedError) as failure:
            pages.append(failure)

    async def _watch(self) -> AsyncGenerator[list[bytes]]:
        """The lines of one watch, as many at a time as came."""
        seconds = int(300 * (1 + self._rng.random()))
        query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}{self._query}"
        path = f"{self._path}?{query}&resourceVersion={self._state.resource_version}"
        patience = Patience(HEAD_SECONDS, seconds + HEAD_SECONDS)
        opened, told = self._clock.now(), False
        guard: SilenceGuard | None = None
        try:
            async with await self._client.open(path, patience) as response:
                if response.status >= 400:
                    failure = refusal(
                        response.status, await response.read(), response.headers.get("Retry-After")
                    )
                    raise _interruption(failure)
                self._answered()
                pending = b""
                with SilenceGuard(self._clock, lambda: self._bookmarked, response.close) as guard:
                    async for chunk in response.content.iter_any():
                        guard.heard()
                        *lines, pending = (pending + chunk).split(b"\n")
                        if lines:
                            told = True
                            yield lines
        except (aiohttp.ClientError, TimeoutError, OSError, ConnectionFailedError) as failure:
            if guard is not None and guard.closed:
                why = f"not even a bookmark came for {SILENCE_SECONDS:g} s"
                raise _InterruptedError(Ended.BUSY, why) from None
            raise _InterruptedError(Ended.BUSY, in_words(failure)) from None
        if not told and self._clock.now() - opened < SHORT_SECONDS:
            # A server or proxy that cannot watch would otherwise be asked without a pause.
            raise _InterruptedError(Ended.BUSY, "the watch was closed at once")

    def _change(self, line: bytes) -> Changed[T] | Deleted[T] | Unread[T] | None:
        """None for a bookmark, an object of which nothing can be read, and an empty line. Raises
        _InterruptedError.
        """
        if not line:
            return None
        try:
            event = self._event.decode(line)
            _, version = _identity(event.object)
            match event.type:
                case "ADDED" | "MODIFIED" if version:
                    accepted = self._accepted(event.object)
                    self._state.resource_version = version
                    return Changed(accepted)
                case "DELETED" if version and _is_named(event.object):
                    self._state.resource_version = version
                    return Deleted(event.object)
                case _:
                    return self._hard_to_read(line)
        except UNREADABLE:
            return self._hard_to_read(line)

    def _hard_to_read(self, line: bytes) -> Changed[T] | Deleted[T] | Unread[T] | None:
        """A bookmark, or an object with nulls, or one that cannot be read. Anything else ends the
        watch.
        """
        try:
            event = msgspec.json.decode(line, type=_Envelope)
            if event.type == "ERROR":
                status = Reader(ApiStatus).read(event.object)
                raise _InterruptedError(
                    Ended.GONE if status.code == 410 else Ended.REFUSED, status.message
                )
            version = msgspec.json.decode(event.object, type=_Version).metadata.resource_version
        except UNREADABLE as problem:
            raise _InterruptedError(
                Ended.REFUSED, f"expected a watch event, got {line[:80]!r}: {problem}"
            ) from None
        if not version or event.type not in {"BOOKMARK", "ADDED", "MODIFIED", "DELETED"}:
            raise _InterruptedError(Ended.REFUSED, f"expected a watch event, got {line[:80]!r}")
        if event.type == "BOOKMARK":
            self._bookmarked = True
            self._state.resource_version = version
            return None
        found = self._read(event.object)
        change = found if event.type != "DELETED" else _end(found, line)
        self._state.resource_version = version
        return change

    def _same(self, raw: msgspec.Raw, known: Mapping[str, T]) -> T | None:
        """What is known of an object, if it has not changed since."""
        try:
            listed = self._versioned.decode(raw).metadata
        except UNREADABLE:
            return None
        found = known.get(f"{listed.namespace}/{listed.name}" if listed.namespace else listed.name)
        if found is None or not listed.resource_version:
            return None
        return found if _identity(found) == (listed.uid, listed.resource_version) else None

    def _read(self, raw: msgspec.Raw) -> Changed[T] | Unread[T] | None:
        """The object as it is now, or what can be read of it; None if that is nothing."""
        try:
            return Changed(self._accepted(self._reader.decode(raw)))
        except UNREADABLE as problem:
            rest = self._reader.salvage(raw)
            if rest is None:
                log.warning("object left out", path=self._path, error=str(problem))
                return None
            return Unread(rest, str(problem))

    def _accepted(self, found: T) -> T:
        """An object that is fit to be told. Raises UnreadableError."""
        if isinstance(found, dict):
            return found
        if not _is_named(found):
            raise UnreadableError("metadata.name: expected a name")
        if not isinstance(found, Pod):
            self._reader.check(found)
        elif not found.metadata.namespace:
            raise UnreadableError("metadata.namespace: expected a namespace")
        elif not found.metadata.uid:  # by which the queue tells a pod from the next one of its name
            raise UnreadableError("metadata.uid: expected a uid")
        return self._sharing.shared(found)


def _end(found: Changed[T] | Unread[T] | None, line: bytes) -> Deleted[T]:
    """The end of an object, of which its name or its uid is enough. Raises _InterruptedError."""
    match found:
        case Changed(last):
            return Deleted(last)
        case Unread(rest) if isinstance(rest, dict) or rest.metadata.name or rest.metadata.uid:
            return Deleted(rest)
        case _:
            raise _InterruptedError(
                Ended.REFUSED, f"expected the name of what is gone, got {line[:80]!r}"
            )


def _is_named(item: HasMetadata | dict[str, Any]) -> bool:
    return isinstance(item, dict) or bool(item.metadata.name)


def _identity(item: HasMetadata | dict[str, Any]) -> tuple[str, str]:
    """The uid and the resourceVersion of an object, or of a plain document."""
    if isinstance(item, dict):
        metadata = item["metadata"]
        return str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))
    return item.metadata.uid, item.metadata.resource_version


def _interruption(failure: ApiError | ConnectionFailedError) -> _InterruptedError:
    if isinstance(failure, ConnectionFailedError):
        return _InterruptedError(Ended.BUSY, str(failure))
    if failure.code == 410:
        return _InterruptedError(Ended.GONE, str(failure))
    busy = failure.code == 429 or failure.code >= 500
    return _InterruptedError(
        Ended.BUSY if busy else Ended.REFUSED, str(failure), failure.retry_after
    )
