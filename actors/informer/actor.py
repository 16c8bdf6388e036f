"""The informer: follows one kind, and delivers every change to the cache before the queue hears of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import anyio
import structlog
from anyio.abc import TaskStatus
from berth.actors.client.access import Source
from berth.actors.client.watch import Changed, Deleted, Listed, Unlisted, Unread
from berth.actors.informer.routing import Told
from berth.actors.informer.stand_ins import last_or_rest
from berth.actors.informer.state import Change, InformerState, StandIn
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages import KindListed, UnreadableObject
from berth.actors.scheduling.kube.meta import HasMetadata

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=HasMetadata)
SLICE = 250  # so many objects of a list are told before others have their turn


class InformerActor(Generic[T]):
    """Started means synced: the first list is delivered.

    `stand_in` says what counts in place of an object that cannot be read. `looked_up` is the kind
    if plugins look it up, and nothing else depends on it. Such a kind may be absent, which counts
    as an empty list. If it may not be listed the cache is told why, for those who look it up, and
    the start is not held up either.
    """

    def __init__(
        self,
        source: Source[T],
        route: Callable[[Change[T]], Told],
        mailboxes: Mailboxes,
        stand_in: StandIn[T] = last_or_rest,
        looked_up: type[T] | None = None,
    ) -> None:
        self._source = source
        self._route = route
        self._cache = mailboxes.cache
        self._queue = mailboxes.queue
        self._state: InformerState[T] = InformerState(stand_in)
        self._looked_up = looked_up
        self._is_listed = False
        self._problem = ""

    def objects(self) -> Mapping[str, T]:
        """The objects by key, a view; between two turns, everything that made them so has been
        delivered.
        """
        return self._state.objects()

    def unreadable(self) -> tuple[UnreadableObject, ...]:
        """The objects that cannot be read."""
        return tuple(
            UnreadableObject(one.kind, one.key, one.uid, one.problem)
            for one in self._state.unreadable().values()
        )

    def problem(self) -> str:
        """Why the API server does not list the kind, "" if it does."""
        return self._problem

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async for told in self._source.changes(self._state.objects()):
            match told:
                case Changed():
                    self._deliver(self._state.changed(told.object))
                case Deleted():
                    self._deliver(self._state.deleted(told.object))
                case Unread(rest, problem):
                    self._deliver(self._state.unread(rest, problem))
                case Listed():
                    await self._take_list(told)
                    task_status.started()
                case Unlisted(absent=True) if self._looked_up is not None:
                    await self._take_list(Listed(()))
                    task_status.started()
                case Unlisted(problem):
                    self._problem = problem
                    if self._looked_up is not None:
                        if not self._is_listed:
                            self._cache.tell(KindListed(self._looked_up, problem))
                        task_status.started()

    async def _take_list(self, told: Listed[T]) -> None:
        unread = ((found.rest, found.problem) for found in told.unread)
        for number, changes in enumerate(self._state.listed(told.items, unread), 1):
            self._deliver(changes)
            if number % SLICE == 0:
                await anyio.lowlevel.checkpoint()
        self._name_unreadable()
        if self._looked_up is not None and not self._is_listed:
            self._cache.tell(KindListed(self._looked_up))
        self._is_listed, self._problem = True, ""

    def _deliver(self, changes: list[Change[T]]) -> None:
        """Without waiting, so that `objects` never runs ahead of what was delivered: these
        mailboxes have no bound.
        """
        for change in changes:
            to_cache, to_queue = self._route(change)
            for fact in to_cache:
                self._cache.tell(fact)
            for message in to_queue:
                self._queue.tell(message)
        self._name_unreadable()

    def _name_unreadable(self) -> None:
        """Once an object, until it can be read again or is gone."""
        for found, begins in self._state.take_news():
            told = {"kind": found.kind, "key": found.key, "uid": found.uid}
            if begins:
                log.warning("object cannot be read", **told, error=found.problem)
            else:
                log.info("object can be read again, or is gone", **told)
