"""The informer: follows one kind, and sends every change to the cache before it sends it to the
queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, assert_never

import anyio
from anyio.abc import TaskStatus

from ..client.access import Source
from ..client.interruption import KindUnlisted
from ..client.watch import ObjectChanged, ObjectDeleted, ObjectsListed, Unreadable
from ..mailboxes import Mailboxes
from ..messages.cache import KindListed
from ..messages.queue import KindKnown
from ..scheduling.framework.logger import get_logger
from ..scheduling.kube.meta import HasMetadata
from ..scheduling.kube.reading import UnreadableObject
from .routing import Routed
from .stand_ins import last_or_part
from .state import (
    BecameUnreadable,
    Change,
    Effect,
    InformerState,
    NotUnreadable,
    StandIn,
    UnreadableItem,
)

log = get_logger(__name__)

T = TypeVar("T", bound=HasMetadata)
SLICE = 250  # objects of a list that are delivered before other tasks run
SECONDS = 0.02  # or fewer objects, if they took this long


def _ignore_change(_: object) -> None:
    """Does nothing, as nobody listens for changes."""


def _unchanged_object(item: T) -> T:
    return item


class InformerActor(Generic[T]):
    """The informer of one kind. It has started once it is synced: once the first list is delivered.

    `stand_in` returns the object that counts in place of one that cannot be read.

    `looked_up` is the kind if only plugins read it. Such a kind may be absent, which counts as an
    empty list. If the API server refuses to list it, the cache gets the reason, for the plugins
    that look it up. In both cases the start goes on.

    `changed` is called with each object that changed, once the store has the change and the
    mailboxes have its messages. `read` returns the part of an object that counts.
    """

    def __init__(
        self,
        source: Source[T],
        route: Callable[[Change[T]], Routed],
        mailboxes: Mailboxes,
        stand_in: StandIn[T] = last_or_part,
        looked_up: type[T] | None = None,
        changed: Callable[[T], None] = _ignore_change,
        read: Callable[[T], T] = _unchanged_object,
    ) -> None:
        self._source = source
        self._route = route
        self._cache = mailboxes.cache
        self._queue = mailboxes.queue
        self._state: InformerState[T] = InformerState(stand_in)
        self._looked_up = looked_up
        self._changed = changed
        self._read = read
        self._is_listed = False
        self._problem = ""
        self._latest: str | None = None  # the version of the latest change; None after a list

    def objects(self) -> Mapping[str, T]:
        """Returns the objects by key: a read-only view, for the cache debugger.

        Between two turns of the event loop, the changes that led to these objects are all in the
        mailboxes.
        """
        return self._state.objects()

    def version(self) -> int:
        """Returns a number that grows with each change of the objects."""
        return self._state.version

    def resource_version(self) -> str:
        """Returns the resource version of the latest change; "" if there was none."""
        if self._latest is None:
            objects = self._state.objects().values()
            latest = max(objects, key=_order_of, default=None)
            if latest is None:
                return ""
            self._latest = latest.metadata.resource_version
        return self._latest

    def unreadable(self) -> tuple[UnreadableObject, ...]:
        """Returns the objects that cannot be read."""
        return tuple(
            UnreadableObject(item.kind, item.key, item.uid, item.problem)
            for item in self._state.unreadable().values()
        )

    def problem(self) -> str:
        """Returns why the API server does not list the kind; "" if it lists it."""
        return self._problem

    def unlisted(self) -> str:
        """Returns why the objects are not known yet; "" once they are."""
        return "" if self._is_listed else self._problem or "not listed yet"

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        async for news in self._source.changes(self._state.objects()):
            match news:
                case ObjectChanged():
                    self._latest = news.object.metadata.resource_version
                    self._deliver(self._state.changed(self._read(news.object)))
                case ObjectDeleted():
                    self._latest = news.object.metadata.resource_version
                    self._deliver(self._state.deleted(self._read(news.object)))
                case Unreadable():
                    self._deliver(self._state.unread(self._read(news.part), news.problem))
                case ObjectsListed():
                    await self._take_list(news)
                    task_status.started()
                case KindUnlisted(absent=True) if self._looked_up is not None:
                    await self._take_list(ObjectsListed(()))
                    task_status.started()
                case KindUnlisted(problem):
                    self._problem = problem
                    if self._looked_up is not None:
                        if not self._is_listed:
                            self._cache.tell(KindListed(self._looked_up, problem))
                        task_status.started()
                case _:
                    assert_never(news)
            del news  # The next change may be an hour away, and the object large.

    async def _take_list(self, news: ObjectsListed[T]) -> None:
        items = map(self._read, news.items)
        unread = ((self._read(item.part), item.problem) for item in news.unreadable)
        since = anyio.current_time()
        for number, effects in enumerate(self._state.listed(items, unread), 1):
            self._deliver(effects)
            if number % SLICE == 0 or anyio.current_time() - since > SECONDS:
                await anyio.lowlevel.checkpoint()
                since = anyio.current_time()
        is_first, self._is_listed = not self._is_listed, True
        self._problem, self._latest = "", None
        if self._looked_up is not None and is_first:
            self._cache.tell(KindListed(self._looked_up))
            self._queue.tell(KindKnown())

    def _deliver(self, effects: list[Effect[T]]) -> None:
        """Sends the effects in the same turn as the store's change, so that the store is never
        ahead of the mailboxes.
        """
        for effect in effects:
            match effect:
                case Change():
                    to_cache, to_queue = self._route(effect)
                    for fact in to_cache:
                        self._cache.tell(fact)
                    for message in to_queue:
                        self._queue.tell(message)
                    item = effect.new if effect.new is not None else effect.old
                    if item is not None:
                        self._changed(item)
                case BecameUnreadable(unreadable):
                    log.warning(
                        "object cannot be read", **_name(unreadable), error=unreadable.problem
                    )
                case NotUnreadable(unreadable):
                    log.info("object can be read again, or is gone", **_name(unreadable))
                case _:
                    assert_never(effect)


def _order_of(item: HasMetadata) -> tuple[int, str]:
    """Returns a sort key for resource versions, which are numbers without leading zeros."""
    version = item.metadata.resource_version
    return len(version), version


def _name(item: UnreadableItem[T]) -> dict[str, str]:
    return {"kind": item.kind, "key": item.key, "uid": item.uid}
