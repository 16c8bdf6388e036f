"""Writes the events of controllers, one after another, while the controllers go on."""

from __future__ import annotations

from contextlib import suppress

from anyio.abc import TaskGroup

from berth.actors.client.rest import ApiError, ConnectionFailedError, IgnoredAnswer
from berth.actors.runtime.clock import Clock

from ...kubernetes.objects.event_correlation import Correlator, Occurrence
from ...kubernetes.objects.structs import Document
from .cluster_access import ClusterAccess

MOST_WAITING = 1000  # events; a new one beyond them is lost
_CHANGES = ("count", "lastTimestamp", "message")


class Recorder:
    def __init__(self, access: ClusterAccess, clock: Clock, group: TaskGroup) -> None:
        self._access = access
        self._clock = clock
        self._group = group
        self._correlator = Correlator()
        self._waiting: dict[tuple[str, str], Occurrence] = {}
        self._writing = False

    def record(self, event: Document) -> None:
        """Writes an event soon, or counts it together with an earlier one."""
        latest = self._correlator.correlate(event, self._clock.wall())
        if latest is None:
            return
        metadata = latest.document["metadata"]
        place = metadata["namespace"], metadata["name"]
        before = self._waiting.get(place)
        if before is not None:
            latest = Occurrence(latest.document, before.is_new)
        elif len(self._waiting) >= MOST_WAITING:
            return
        self._waiting[place] = latest
        if not self._writing:
            self._writing = True
            self._group.start_soon(self._write_all)

    async def _write_all(self) -> None:
        while self._waiting:
            (namespace, name), latest = next(iter(self._waiting.items()))
            del self._waiting[namespace, name]
            with suppress(ApiError, ConnectionFailedError):
                await self._write(f"/api/v1/namespaces/{namespace}/events", name, latest)
        self._writing = False

    async def _write(self, path: str, name: str, latest: Occurrence) -> None:
        """Counts an event, and creates it if it is new or gone."""
        document = latest.document
        if not latest.is_new:
            changes = {field: document[field] for field in _CHANGES}
            try:
                await self._access.patch(f"{path}/{name}", changes, IgnoredAnswer, "merge")
            except ApiError as refusal:
                if refusal.code != 404:
                    raise
            else:
                return
        await self._access.call("POST", path, IgnoredAnswer, document)
