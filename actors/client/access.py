"""What the scheduler asks of an API server: the same actors run over HTTP, or on a store in their own process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from actors.client.rest import Client, Connection
from actors.client.watch import Changed, Deleted, Listed, Reflector
from actors.kube.meta import HasMetadata
from actors.runtime.backoff import Rng
from actors.runtime.clock import Clock

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata)


class Calls(Protocol):
    """Requests, with typed answers. They raise ApiError for a refusal, ConnectionFailedError for no answer."""

    async def call(
        self, method: str, path: str, answer: type[T], body: object | None = None, content_type: str = ...
    ) -> T: ...

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None: ...

    async def patch(self, path: str, body: object, answer: type[T], kind: str = ...) -> T: ...


class Source(Protocol[Kept]):
    """One kind: Listed first, then changes, without end. It may hand on what is the same as known as what is known."""

    def changes(self, known: Mapping[str, Kept]) -> AsyncIterator[Listed[Kept] | Changed[Kept] | Deleted[Kept]]: ...


class Access(Protocol):
    """`events` and `leases` are apart from `calls`: neither a flood of events nor a full queue of bindings may hold up
    the renewal of the lease.
    """

    @property
    def calls(self) -> Calls: ...

    @property
    def events(self) -> Calls: ...

    @property
    def leases(self) -> Calls: ...

    def follow(self, path: str, kind: type[Kept]) -> Source[Kept]:
        """The objects under a path, such as `/api/v1/pods`."""
        ...


class Remote:
    """Over HTTP, each kind of calls with connections and a rate limit of its own."""

    def __init__(self, calls: Client, events: Client, leases: Client, clock: Clock, rng: Rng) -> None:
        self.calls: Calls = calls
        self.events: Calls = events
        self.leases: Calls = leases
        self._client = calls
        self._clock = clock
        self._rng = rng

    def follow(self, path: str, kind: type[Kept]) -> Source[Kept]:
        return Reflector(self._client, path, kind, self._clock, self._rng)


@asynccontextmanager
async def remote(connection: Connection, clock: Clock, rng: Rng, qps: float, burst: int) -> AsyncIterator[Remote]:
    """Access for as long as the block runs; `qps` and `burst` limit the calls and the events, not the leases."""
    async with (
        Client(connection, clock=clock, qps=qps, burst=burst) as calls,
        Client(connection, clock=clock, qps=qps, burst=burst) as events,
        Client(connection, clock=clock) as leases,
    ):
        yield Remote(calls, events, leases, clock, rng)
