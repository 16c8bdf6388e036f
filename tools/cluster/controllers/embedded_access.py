"""Access to an API server in the same process, without HTTP and JSON.

Requests have the same rules and answers as over HTTP, and are answered at once. An answer is the
stored document itself, which nobody may change. Watches pass on the store's events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar, cast
from urllib.parse import parse_qsl

import anyio
import msgspec
from anyio.abc import TaskGroup

from berth.actors.client.access import Calls
from berth.actors.client.interruption import KindUnlisted
from berth.actors.client.reflector_state import ABSENT_SECONDS
from berth.actors.client.rest import CONTENT_TYPES, ApiError
from berth.actors.client.tenure import Tenure
from berth.actors.client.watch import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    Unreadable,
    WatchUpdate,
)
from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.kube.reading import UNREADABLE, Reader

from ...kubernetes.api.policies.policy_writes import BINDINGS, MUTATING_BINDINGS
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.requests.request_targets import (
    RequestTarget,
    target_of,
    unconverted_target_of,
)
from ...kubernetes.api.requests.selectors import Matches, matches_of
from ...kubernetes.api.resource_metrics import Kubelets
from ...kubernetes.api.store import Store, StoreEvent
from ...kubernetes.api.types.api_documents import RefusedError, StoredObject
from ...kubernetes.api.types.catalog import Catalog
from ...kubernetes.api.types.conversion import served_form
from ...kubernetes.api.types.releases import RELEASES
from ...kubernetes.api.types.resources import Kind
from ..apiserver.app import Server
from ..apiserver.next_write import next_write
from .cluster_access import LEASES, NODES, Changes, Heartbeat, Read, Renewed, heartbeat_patch

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata | dict[str, Any])
_ENCODER = msgspec.json.Encoder(enc_hook=dict)
_JSON = "application/json"
_EVERY_KIND = Catalog([*RELEASES.values()][-1])


class EmbeddedAccess:
    """The clients of an embedded API server, and the scheduler's Access to it."""

    server = "memory"

    def __init__(
        self, store: Store, agent: str = "berth", kubelets: Kubelets | None = None
    ) -> None:
        """`agent` is the name under which the fields that it writes are tracked. Without
        `kubelets`, there are no metrics.
        """
        self._store = store
        self._headers = {"user-agent": agent}
        self._kubelets = kubelets
        self._server = Server(store, kubelets=kubelets)
        self._readers: dict[type, Reader[object]] = {}
        self.tenure = Tenure()
        self.calls: Calls = self
        self.plugins: Calls = self
        self.events: Calls = self

    def named(self, agent: str) -> EmbeddedAccess:
        """Returns the access of another program."""
        return EmbeddedAccess(self._store, agent, self._kubelets)

    def kind_of(self, api_version: str, name: str) -> Kind | None:
        """Returns a kind that is served, such as ("apps/v1", "Deployment")."""
        return self._store.catalog.named(api_version, name)

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        await work(self)

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Subscription[Kept]:
        try:
            return Subscription(self._store, path, kind, selector)
        except RefusedError as refused:
            return _Unserved(self._store, path, kind, selector, f"{path}: {refused}")

    def follow_later(self, group: TaskGroup, path: str, kind: type[Kept], read: Read[Kept]) -> bool:
        watch = self.follow(path, kind)
        return watch.begins_later(in_group(group, read, watch))

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = _JSON,
    ) -> T:
        """Answers a request. Raises ApiError if it is refused."""
        path, _, query = path.partition("?")
        data = b"" if body is None else _ENCODER.encode(body)
        read = dict(parse_qsl(query)) if query else {}
        try:
            document = self._server.carry_out(
                HttpRequest(method, path, read, self._headers, data),
                content_type,
            )
        except RefusedError as refused:
            raise _error(refused) from None
        if isinstance(document, answer):
            return document
        reader = self._readers.get(answer)
        if reader is None:
            reader = self._readers[answer] = Reader(answer)
        converted = reader.convert(document)
        assert isinstance(converted, answer)
        return converted

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        body = {"metadata": {"name": name, "uid": uid}, "target": {"kind": "Node", "name": node}}
        await self.call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", dict, body)

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        return await self.call("PATCH", path, answer, body, CONTENT_TYPES[kind])

    async def renew(self, namespace: str, names: Sequence[str], time: str) -> list[str]:
        """Sets the renewTime of leases. Returns the names of the leases that do not exist.

        Clusters do this more often than anything else. Nothing else changes in a lease, so nothing
        has to be validated, and no admission policy is asked.
        """
        return list(self._store.renew(LEASES, namespace, names, time))

    async def heartbeat(
        self, node: dict[str, Any], conditions: Collection[str], time: str
    ) -> dict[str, Any]:
        """Sets the lastHeartbeatTime of conditions of a node, given by their types.

        Only renewals of leases are more frequent. Nothing is to be validated, because nothing else
        changes. Admission policies are asked, if there are any.
        """
        name = node["metadata"]["name"]
        if self._store.has(BINDINGS) or self._store.has(MUTATING_BINDINGS):
            body = heartbeat_patch(node, conditions, time)
            return await self.patch(f"{NODES.path('', name)}/status", body, dict)
        version = node["metadata"]["resourceVersion"]
        try:
            return self._store.heartbeat(NODES, name, version, conditions, time).document
        except RefusedError as refused:
            raise _error(refused) from None

    async def follow_leases(self, at: int = 0) -> AsyncGenerator[WatchUpdate[Lease] | Renewed]:
        leases = self.follow(LEASES.path(), Lease)
        async with aclosing(leases.updates(at)) as updates:
            async for update in updates:
                if isinstance(update, ObjectsListed):
                    yield update
                    continue
                renewed = {event.renews: event.after for event in update if event.renews}
                if len(renewed) == len(update):  # which is nearly always so
                    yield Renewed(renewed)
                    continue
                renewed = {}
                for event in update:
                    if event.renews is not None:
                        renewed[event.renews] = event.after
                        continue
                    if renewed:
                        yield Renewed(renewed)
                        renewed = {}
                    change = leases.change(event)
                    if change is not None:
                        yield change
                if renewed:
                    yield Renewed(renewed)


def _target(path: str, store: Store) -> RequestTarget:
    """Returns what a path names. Of a kind that the store does not serve there are no objects."""
    try:
        return unconverted_target_of(path, store.catalog)
    except RefusedError:
        return target_of(path, _EVERY_KIND)


def _matches(kind: Kind, selector: str) -> Matches | None:
    query = dict(parse_qsl(selector))
    return matches_of(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))


class Subscription(Generic[Kept]):
    """The objects under a path for one reader."""

    def __init__(self, store: Store, path: str, kind: type[Kept], selector: str) -> None:
        self._store = store
        self._target = _target(path, store)
        self._matches = _matches(self._target.kind, selector) if selector else None
        self._kind = kind
        self._reader = Reader(kind)
        self._selects_all = not self._target.namespace and self._matches is None
        self._empty_at = 0  # the revision at which there was no object yet

    def begins_later(self, begin: Callable[[], None]) -> bool:
        """If there is no object of the kind, calls `begin` at the first write of one, and returns
        True: then the next `changes` begin with that write, and not with a list.
        """
        kind = self._target.kind
        if self._store.has(kind.stored_as or kind):
            return False
        self._empty_at = self._store.revision
        self._store.at_next_write(kind, begin)
        return True

    async def changes(
        self, held: Mapping[str, Kept] | None = None, at: int = 0
    ) -> AsyncGenerator[WatchUpdate[Kept]]:
        """Yields ObjectsListed first, then changes, without end. `held` is not used. The list is
        that of the revision `at`, if it is known still; 0 is the latest.
        """
        async with aclosing(self.updates(at)) as updates:
            async for update in updates:
                if isinstance(update, ObjectsListed):
                    yield update
                    continue
                for event in update:
                    change = self.change(event)
                    if change is not None:
                        yield change

    async def updates(
        self, at: int = 0
    ) -> AsyncGenerator[ObjectsListed[Kept] | Sequence[StoreEvent]]:
        """Yields the list of objects first, then the new events whenever there are any."""
        store, kind = self._store, self._target.kind
        revision, self._empty_at = self._empty_at, 0
        if not revision:
            revision = at or store.revision
            try:
                yield self._listed(at)
            except RefusedError:  # it is compacted
                revision = store.revision
                yield self._listed()
        while True:
            try:
                events = store.since(kind, revision)
            except RefusedError:  # the reader is later than the history is long
                revision = store.revision
                yield self._listed()
                continue
            if not events:
                await next_write(store, kind)
                continue
            revision = events[-1].after.revision
            yield events

    def _listed(self, at: int = 0) -> ObjectsListed[Kept]:
        """Returns the list, as it was at a revision. Raises RefusedError if that is compacted."""
        items: list[Kept] = []
        unreadable: list[Unreadable[Kept]] = []
        for stored in self._store.list_at(self._target.kind, at, self._target.namespace):
            if self._selects(stored):
                match self._read(stored):
                    case Unreadable() as item:
                        unreadable.append(item)
                    case ObjectChanged(item):
                        items.append(item)
        return ObjectsListed(items, unreadable, str(at or self._store.revision))

    def change(self, event: StoreEvent) -> WatchUpdate[Kept] | None:
        """Returns the change that an event makes for the reader."""
        if event.type != "DELETED" and self._selects(event.after):
            news = self._read(event.after)
            if event.is_heartbeat and isinstance(news, ObjectChanged):
                return Heartbeat(news.object)
            return news
        if event.before is None or not self._selects(event.before):
            return None
        match self._read(event.after):
            case Unreadable(part):
                return ObjectDeleted(part)
            case ObjectChanged(item):
                return ObjectDeleted(item)
            case None:
                return None

    def _selects(self, stored: StoredObject) -> bool:
        if self._selects_all:
            return True
        namespace = self._target.namespace
        if namespace and stored.document["metadata"].get("namespace") != namespace:
            return False
        return self._matches is None or self._matches(stored.document)

    def _read(self, stored: StoredObject) -> ObjectChanged[Kept] | Unreadable[Kept] | None:
        """Returns the readable object, or the readable part of it; None if there is none."""
        document = served_form(self._target.kind, stored.document)
        if self._kind is dict:
            return ObjectChanged(cast("Kept", document))
        try:
            return ObjectChanged(self._reader.convert(document))
        except UNREADABLE as problem:
            part = self._reader.readable_part(_ENCODER.encode(document))
            return None if part is None else Unreadable(part, str(problem))


def in_group(group: TaskGroup, read: Read[Kept], watch: Changes[Kept]) -> Callable[[], None]:
    """Returns what starts to read a watch in a group, if that has not ended: in the context of the
    one who calls this, not of the one whose write is the first.
    """

    def begin() -> None:
        if not group.cancel_scope.cancel_called:
            group.start_soon(read, watch)

    return partial(copy_context().run, begin)


def _error(refused: RefusedError) -> ApiError:
    seconds = (refused.details or {}).get("retryAfterSeconds")
    return ApiError(refused.code, refused.reason, str(refused), seconds)


class _Unserved(Subscription[Kept]):
    """The objects of a kind that is not served: there are none, until it is."""

    def __init__(
        self, store: Store, path: str, kind: type[Kept], selector: str, problem: str
    ) -> None:
        self._again = partial(Subscription, store, path, kind, selector)
        self._problem = problem

    def begins_later(self, begin: Callable[[], None]) -> bool:
        return False  # it says that the kind is absent

    async def changes(
        self, held: Mapping[str, Kept] | None = None, at: int = 0
    ) -> AsyncGenerator[WatchUpdate[Kept]]:
        yield KindUnlisted(self._problem, absent=True)
        while True:
            await anyio.sleep(ABSENT_SECONDS)
            try:
                served = self._again()
            except RefusedError:
                continue
            async for update in served.changes(held):
                yield update
