"""What the scheduler asks of an API server: the same actors run over HTTP, or on a store in their
own process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from berth.actors.client.rest import Client, Connection
from berth.actors.client.tenure import Tenure
from berth.actors.client.watch import Reflector, Told
from berth.actors.runtime.backoff import Rng
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.own_thread import in_own_thread
from berth.actors.scheduling.kube.meta import HasMetadata

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata)


class Calls(Protocol):
    """Requests, with typed answers. They raise ApiError for a refusal, ConnectionFailedError for no
    answer.
    """

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = ...,
    ) -> T: ...

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None: ...

    async def patch(self, path: str, body: object, answer: type[T], kind: str = ...) -> T: ...


class Source(Protocol[Kept]):
    """One kind: Listed first, then changes, without end. It may hand on what is the same as known
    as what is known.
    """

    def changes(self, known: Mapping[str, Kept]) -> AsyncIterator[Told[Kept]]: ...


class Access(Protocol):
    """`events` are apart from `calls`, so that neither holds up the other. Both write only while
    `tenure` permits.
    """

    @property
    def tenure(self) -> Tenure: ...

    @property
    def calls(self) -> Calls: ...

    @property
    def events(self) -> Calls: ...

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        """Run what keeps the lease, which neither a flood of requests nor a busy event loop may
        hold up, with calls of its own that need no tenure. Cancelling this cancels the work, and
        waits for its end.
        """
        ...

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Source[Kept]:
        """The objects under a path, such as `/api/v1/pods`, that a query such as
        `fieldSelector=...` selects.
        """
        ...


class Remote:
    """Over HTTP, each kind of calls with connections and a rate limit of its own."""

    def __init__(
        self,
        connection: Connection,
        tenure: Tenure,
        calls: Client,
        events: Client,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self.tenure = tenure
        self.calls: Calls = calls
        self.events: Calls = events
        self._connection = connection
        self._client = calls
        self._clock = clock
        self._rng = rng

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        async def run() -> None:
            async with Client(self._connection.for_another_thread()) as leases:
                await work(leases)

        await in_own_thread(run, "lease")

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Source[Kept]:
        return Reflector(self._client, path, kind, self._clock, self._rng, selector)


@asynccontextmanager
async def remote(
    connection: Connection, clock: Clock, rng: Rng, qps: float, burst: int
) -> AsyncIterator[Remote]:
    """Access for as long as the block runs; `qps` and `burst` limit the calls and the events, not
    the leases.
    """
    tenure = Tenure()
    async with (
        Client(connection, clock=clock, qps=qps, burst=burst, tenure=tenure) as calls,
        Client(connection, clock=clock, qps=qps, burst=burst, tenure=tenure) as events,
    ):
        yield Remote(connection, tenure, calls, events, clock, rng)
