"""List, then watch: the changes of one kind, for as long as somebody reads them.

The reader gets everything that is (Listed), then every change, and again everything whenever the server cannot tell
what was missed. Failures are handled here and logged; the stream does not end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import aiohttp
import msgspec
import structlog

from actors.client.reflector_state import Ended, Next, ReflectorState
from actors.client.rest import ApiError, Client, ConnectionFailedError
from actors.kube.meta import HasMetadata, ListMeta, ObjectMeta
from actors.kube.meta import Status as ApiStatus
from actors.runtime.backoff import Rng
from actors.runtime.clock import Clock

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=HasMetadata)
PAGE = 5000


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """All there is, at this moment."""

    items: tuple[T, ...]


class Changed(msgspec.Struct, Generic[T], frozen=True):
    """An object was added or modified."""

    object: T


class Deleted(msgspec.Struct, Generic[T], frozen=True):
    """An object is gone; as it was last."""

    object: T


class _List(msgspec.Struct, frozen=True):
    metadata: ListMeta
    items: tuple[msgspec.Raw, ...] | None = ()


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Versioned(msgspec.Struct, frozen=True):
    metadata: ObjectMeta


class _Interrupted(Exception):  # noqa: N818 - it is no error to the reader
    def __init__(self, how: Ended, why: str, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.how = how
        self.retry_after = retry_after


class Reflector(Generic[T]):
    """Follows one path, such as `/api/v1/pods`; `selector` is a query such as `fieldSelector=...`, or ""."""

    def __init__(self, client: Client, path: str, kind: type[T], clock: Clock, rng: Rng, selector: str = "") -> None:
        self._client = client
        self._path = path
        self._query = f"&{selector}" if selector else ""
        self._clock = clock
        self._rng = rng
        self._state = ReflectorState(rng)
        self._decode = msgspec.json.Decoder(kind, strict=False)
        self._envelope = msgspec.json.Decoder(_Event)

    async def changes(self) -> AsyncIterator[Listed[T] | Changed[T] | Deleted[T]]:
        """Listed first, then changes, without end."""
        relist = True
        while True:
            try:
                if relist:
                    yield await self._list()
                async for change in self._watch():
                    yield change
                step = self._state.ended(Ended.QUIETLY, self._clock.now())
            except _Interrupted as interruption:
                step = self._after(interruption)
            relist = step.relist
            await self._clock.sleep(step.delay)

    def _after(self, interruption: _Interrupted) -> Next:
        step = self._state.ended(interruption.how, self._clock.now(), interruption.retry_after)
        log.warning(
            "watch interrupted", path=self._path, error=str(interruption), again_in_seconds=round(step.delay, 1)
        )
        return step

    async def _list(self) -> Listed[T]:
        items: list[T] = []
        token = ""
        while True:
            page = f"{self._path}?limit={PAGE}{self._query}" + (f"&continue={token}" if token else "")
            try:
                answer = await self._client.call("GET", page, _List)
            except (ApiError, ConnectionFailedError) as failure:
                raise _interruption(failure) from None
            items.extend(decoded for raw in answer.items or () if (decoded := self._decoded(raw)) is not None)
            token = answer.metadata.continue_
            if not token:
                self._state.resource_version = answer.metadata.resource_version
                return Listed(tuple(items))

    async def _watch(self) -> AsyncIterator[Changed[T] | Deleted[T]]:
        seconds = int(300 * (1 + self._rng.random()))
        query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}{self._query}"
        path = f"{self._path}?{query}&resourceVersion={self._state.resource_version}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=seconds + 30)
        try:
            async with self._client.request("GET", path, timeout=timeout) as response:
                pending = b""
                async for chunk in response.content.iter_any():
                    *lines, pending = (pending + chunk).split(b"\n")
                    for line in lines:
                        change = self._change(line) if line else None
                        if change is not None:
                            yield change
        except (ApiError, ConnectionFailedError) as failure:
            raise _interruption(failure) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as failure:
            raise _Interrupted(Ended.BUSY, str(failure) or type(failure).__name__) from None

    def _change(self, line: bytes) -> Changed[T] | Deleted[T] | None:
        """A line of the watch; None for a bookmark and for what cannot be read."""
        try:
            event = self._envelope.decode(line)
            if event.type == "ERROR":
                status = msgspec.json.decode(event.object, type=ApiStatus)
                raise _Interrupted(Ended.GONE if status.code == 410 else Ended.REFUSED, status.message)
            decoded = None if event.type == "BOOKMARK" else self._decoded(event.object)
            if decoded is None:
                seen = msgspec.json.decode(event.object, type=_Versioned).metadata
                self._state.resource_version = seen.resource_version
                return None
        except msgspec.DecodeError as problem:
            raise _Interrupted(Ended.REFUSED, f"a line of the watch cannot be read: {problem}") from None
        self._state.resource_version = decoded.metadata.resource_version
        return Deleted(decoded) if event.type == "DELETED" else Changed(decoded)

    def _decoded(self, raw: msgspec.Raw) -> T | None:
        try:
            return self._decode.decode(raw)
        except msgspec.DecodeError as problem:
            log.warning("object left out", path=self._path, error=str(problem))
            return None


def _interruption(failure: ApiError | ConnectionFailedError) -> _Interrupted:
    if isinstance(failure, ConnectionFailedError):
        return _Interrupted(Ended.BUSY, str(failure))
    if failure.code == 410:
        return _Interrupted(Ended.GONE, str(failure))
    busy = failure.code == 429 or failure.code >= 500
    return _Interrupted(Ended.BUSY if busy else Ended.REFUSED, str(failure), failure.retry_after)
