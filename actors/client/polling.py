"""The poller: follows a kind that cannot be watched by lists at regular intervals.

An API server that aggregates another one, such as metrics.k8s.io, often lists and does not watch.
What an interval's list does not show is gone. A list that fails leaves the objects as they are; the
next one comes at its time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ..runtime.clock import Clock
from ..scheduling.framework.logger import get_logger
from ..scheduling.kube.kinds import WatchedKind
from ..scheduling.kube.meta import HasMetadata
from ..scheduling.kube.reading import Reader
from .access import Calls
from .interruption import KindUnlisted
from .rest import ApiError, ConnectionFailedError
from .watch import ObjectsListed, WatchUpdate

T = TypeVar("T", bound=HasMetadata)
log = get_logger(__name__)


class Poller(Generic[T]):
    """A Source of a kind with `every`, in seconds."""

    def __init__(self, calls: Calls, kind: WatchedKind, clock: Clock) -> None:
        self._calls = calls
        self._kind = kind
        self._path = f"{kind.path}?{kind.selector}" if kind.selector else kind.path
        self._reader: Reader[T] = Reader(kind.type)
        self._clock = clock

    async def changes(self, held: Mapping[str, T]) -> AsyncIterator[WatchUpdate[T]]:
        while True:
            try:
                yield ObjectsListed(await listed(self._calls, self._path, self._reader))
            except ApiError as refused:
                yield KindUnlisted(f"{self._path}: {refused}", absent=refused.code == 404)
            except ConnectionFailedError as failed:
                yield KindUnlisted(f"{self._path}: {failed}")
            await self._clock.sleep(self._kind.every)


async def listed(calls: Calls, path: str, reader: Reader[T]) -> tuple[T, ...]:
    """Returns the objects that a path lists; objects that cannot be read are left out, and the log
    names them. Raises ApiError or ConnectionFailedError.
    """
    document: dict[str, Any] = await calls.call("GET", path, dict)
    items: list[T] = []
    found = document.get("items") or ()
    for item in found if isinstance(found, list | tuple) else ():
        try:
            items.append(reader.convert(item))
        except msgspec.ValidationError as invalid:
            name = item.get("metadata", {}).get("name") if isinstance(item, dict) else None
            error, repeats = str(invalid), (path, str(invalid))
            log.warning("object cannot be read", path=path, name=name, error=error, repeats=repeats)
    return tuple(items)
