"""Follows a cluster, and writes down its changes. It only reads."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import anyio

from berth.actors.client.rest import Client
from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed, Reflector
from berth.actors.runtime.clock import SystemClock

from ...kubernetes.api.types.resources import Kind
from .recording import KINDS, RecordedChange, lines_of, without_secrets

Document = dict[str, Any]


class Recorder:
    """Writes changes until `most_bytes` are written; then `is_full`. Kinds that the server does not
    have, or does not show, are left out.
    """

    def __init__(self, client: Client, write: Callable[[bytes], object], most_bytes: int) -> None:
        self._client = client
        self._write = write
        self._most = most_bytes
        self._written = 0
        self.changes = 0
        self.is_full = anyio.Event()

    async def run(self) -> None:
        """Follows all kinds until cancelled."""
        self._began = anyio.current_time()
        async with anyio.create_task_group() as group:
            for kind in KINDS:
                group.start_soon(self._follow, kind)

    async def _follow(self, kind: Kind) -> None:
        held: dict[str, Document] = {}
        watch: Reflector[Document] = Reflector(
            self._client, kind.path(), dict, SystemClock(), Random(0)
        )
        async for told in watch.changes():
            match told:
                case ObjectsListed(items):
                    listed = {item["metadata"]["uid"]: item for item in items}
                    for uid in held.keys() - listed.keys():
                        self._add(kind, held.pop(uid), gone=True)
                    for uid, item in listed.items():
                        if held.get(uid) != item:
                            self._add(kind, item)
                    held = listed
                case ObjectChanged(item):
                    held[item["metadata"]["uid"]] = item
                    self._add(kind, item)
                case ObjectDeleted(item):
                    held.pop(item["metadata"]["uid"], None)
                    self._add(kind, item, gone=True)
                case _:
                    pass

    def _add(self, kind: Kind, document: Document, *, gone: bool = False) -> None:
        if self.is_full.is_set():
            return
        at = round(anyio.current_time() - self._began, 3)
        line = lines_of([RecordedChange(at, kind.kind, without_secrets(document), gone)])
        if self._written + len(line) > self._most:
            self.is_full.set()
            return
        self._written += len(line)
        self.changes += 1
        self._write(line)
