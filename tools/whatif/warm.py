"""A cluster that is kept up to date by watching it, and that answers questions.

One thread changes the objects and answers, one thing after another; the event loop stays free.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TypeVar

import anyio
import anyio.to_thread
import click
from anyio.abc import TaskStatus

from berth.actors.client.rest import Client, Connection
from berth.actors.client.watch import (
    KindUnlisted,
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    Reflector,
    WatchUpdate,
)
from berth.actors.runtime.clock import SystemClock
from berth.actors.telemetry.klog import printable

from ..explain.source import REQUIRED, SourceError, can_be_read, paths_of
from .documents import Document, Documents, place_of
from .source import BESIDES

T = TypeVar("T")
Update = WatchUpdate[Document]
MOST_UPDATES = 500  # between two questions


class Warm:
    """The objects of a cluster, as the watch last told them."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._thread = anyio.CapacityLimiter(1)
        self._updates: list[tuple[str, str, Update]] = []
        self._arrived = anyio.Event()

    async def ask(self, question: Callable[[Documents], T]) -> T:
        """Returns the answer of a function, which must leave the objects as they are."""
        return await anyio.to_thread.run_sync(question, self._documents, limiter=self._thread)

    async def follow(self, connection: Connection, *, task_status: TaskStatus[None]) -> None:
        """Follows the cluster until cancelled; started means that every kind is listed. Raises
        SourceError if the nodes or the pods may not be listed.
        """
        paths = paths_of(self._documents.kinds, BESIDES)
        async with Client(connection) as client, anyio.create_task_group() as group:
            await client.call("GET", "/version", dict)  # A reflector would try for ever.
            async with anyio.create_task_group() as listing:
                for (version, kind), path in paths.items():
                    reflector = Reflector(client, path, dict, SystemClock(), Random())
                    listed = anyio.Event()
                    group.start_soon(self._watch, reflector, version, kind, listed)
                    listing.start_soon(listed.wait)
            await self._catch_up()
            task_status.started()
            while True:
                await self._arrived.wait()
                await self._catch_up()

    async def _watch(
        self, reflector: Reflector[Document], version: str, kind: str, listed: anyio.Event
    ) -> None:
        async for update in reflector.changes():
            if isinstance(update, KindUnlisted) and (version, kind) in REQUIRED:
                raise SourceError(f"{kind}: {update.problem}")
            self._updates.append((version, kind, update))
            self._arrived.set()
            listed.set()

    async def _catch_up(self) -> None:
        while self._updates:
            batch, self._updates = self._updates[:MOST_UPDATES], self._updates[MOST_UPDATES:]
            take = partial(_take, self._documents, batch)
            await anyio.to_thread.run_sync(take, limiter=self._thread)
        self._arrived = anyio.Event()


def _take(documents: Documents, updates: list[tuple[str, str, Update]]) -> None:
    for version, kind, update in updates:
        match update:
            case ObjectsListed(items):
                present = {
                    place_of(item): item
                    for item in ({**item, "apiVersion": version, "kind": kind} for item in items)
                }
                for place, _ in documents.every(kind):
                    if place not in present:
                        documents.remove(place)
                for item in present.values():
                    _put(documents, item)
            case ObjectChanged(item):
                _put(documents, {**item, "apiVersion": version, "kind": kind})
            case ObjectDeleted(item):
                place = place_of({**item, "kind": kind})
                if documents.document(kind, place[2], place[1]) is not None:
                    documents.remove(place)
            case KindUnlisted(problem, absent) if not absent:
                click.echo(printable(f"{kind}: {problem}"), err=True)
            case _:
                pass


def _put(documents: Documents, item: Document) -> None:
    place = place_of(item)
    before = documents.document(place[0], place[2], place[1])
    version = item["metadata"].get("resourceVersion")
    if before is not None and version and before["metadata"].get("resourceVersion") == version:
        return
    if can_be_read(item, documents.kinds):
        documents.put(item)
    elif before is not None:
        documents.remove(place)
