"""The recorder: writes events and conditions, a few at a time, and never holds up whoever sends them."""

from __future__ import annotations

from itertools import count
from typing import assert_never

import anyio
import msgspec
import structlog

from actors.client.access import Calls
from actors.client.rest import ApiError, ConnectionFailedError
from actors.messages import RecorderMessage, RecordEvent, SetUnschedulable
from actors.recorder.state import condition_patch, event_document
from actors.runtime.actor import Actor
from actors.runtime.clock import Clock
from actors.runtime.mailbox import Mailbox

log = structlog.get_logger(__name__)
Anything = dict[str, msgspec.Raw]


class RecorderActor(Actor[RecorderMessage]):
    """Its mailbox drops the oldest message when it is full: an event may be lost, a pod may not wait for one."""

    def __init__(self, mailbox: Mailbox[RecorderMessage], client: Calls, clock: Clock) -> None:
        super().__init__("recorder", mailbox)
        self._client = client
        self._clock = clock
        self._serial = count()

    async def handle(self, batch: list[RecorderMessage]) -> None:
        async with anyio.create_task_group() as group:
            for message in batch:
                group.start_soon(self._write, message)

    async def _write(self, message: RecorderMessage) -> None:
        wall = self._clock.wall()
        try:
            match message:
                case RecordEvent():
                    document = event_document(message, wall, next(self._serial))
                    path = f"/api/v1/namespaces/{document['metadata']['namespace']}/events"
                    await self._client.call("POST", path, dict, document)
                case SetUnschedulable(pod):
                    patch = condition_patch(message, wall)
                    if patch is not None:
                        metadata = pod.metadata
                        path = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}/status"
                        await self._client.patch(path, patch, dict)
                case _:
                    assert_never(message)
        except (ApiError, ConnectionFailedError) as failure:
            log.warning("not recorded", error=str(failure))
