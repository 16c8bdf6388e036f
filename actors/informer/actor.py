"""The informer: follows one kind, and delivers every change to the cache before the queue hears of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskStatus

from actors.client.access import Source
from actors.client.watch import Changed, Deleted, Listed
from actors.informer.routing import Told
from actors.informer.state import Change, InformerState
from actors.kube.meta import HasMetadata
from actors.messages import CacheMessage, QueueMessage
from actors.runtime.mailbox import Mailbox

T = TypeVar("T", bound=HasMetadata)
SLICE = 250  # so many objects of a list are told before others have their turn


class InformerActor(Generic[T]):
    """Started means synced: the first list is delivered."""

    def __init__(
        self,
        source: Source[T],
        route: Callable[[Change[T]], Told],
        cache: Mailbox[CacheMessage],
        queue: Mailbox[QueueMessage],
    ) -> None:
        self._source = source
        self._route = route
        self._cache = cache
        self._queue = queue
        self._state: InformerState[T] = InformerState()

    def objects(self) -> Mapping[str, T]:
        """The objects by key, a view; between two turns, everything that made them so has been delivered."""
        return self._state.objects()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async for told in self._source.changes(self._state.objects()):
            match told:
                case Changed():
                    self._deliver(self._state.changed(told.object))
                case Deleted():
                    self._deliver(self._state.deleted(told.object))
                case Listed():
                    for number, changes in enumerate(self._state.listed(told.items), 1):
                        self._deliver(changes)
                        if number % SLICE == 0:
                            await anyio.lowlevel.checkpoint()
                    task_status.started()

    def _deliver(self, changes: list[Change[T]]) -> None:
        """Without waiting, so that `objects` never runs ahead of what was delivered: these mailboxes have no bound."""
        for change in changes:
            to_cache, to_queue = self._route(change)
            for fact in to_cache:
                self._cache.tell_nowait(fact)
            for message in to_queue:
                self._queue.tell_nowait(message)
