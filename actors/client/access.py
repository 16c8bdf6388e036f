"""The scheduler's interface to an API server, and its implementation over HTTP.

Another implementation is a store in the same process; the actors run on either.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import msgspec

from ..process.version import USER_AGENT
from ..runtime.backoff import Rng
from ..runtime.clock import Clock
from ..runtime.own_thread import in_own_thread
from ..scheduling.kube.core import Node, Pod
from ..scheduling.kube.meta import HasMetadata
from .measures import ClientMeasures
from .reflector_state import Streaming
from .rest import Client, Connection
from .tenure import Tenure
from .watch import Reflector, WatchUpdate

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata)
KeepsWhole = Callable[[Any], bool]


class Calls(Protocol):
    """Requests with typed answers.

    They raise ApiError if the server refuses the request, and ConnectionFailedError if there is no
    usable answer.
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
    """The objects of one kind: first ObjectsListed, then changes, without end.

    For an unchanged object of a list, the source may yield the very object in `held`.
    """

    def changes(self, held: Mapping[str, Kept]) -> AsyncIterator[WatchUpdate[Kept]]: ...


class Access(Protocol):
    """The requests of the scheduler to an API server.

    `calls`, `plugins` and `events` have their own connections, so that none of them delays another.
    They write only while `tenure` permits it.
    """

    @property
    def server(self) -> str:
        """The URL of the API server, for the log."""
        ...

    @property
    def tenure(self) -> Tenure: ...

    @property
    def calls(self) -> Calls: ...

    @property
    def plugins(self) -> Calls:
        """The calls for requests of plugins, except bindings."""
        ...

    @property
    def events(self) -> Calls: ...

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        """Runs the work that renews the lease, in a thread of its own and with calls of its own.

        So neither many other requests nor a busy event loop can delay it. Its calls need no tenure.
        Cancelling this method cancels the work and waits for its end.
        """
        ...

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Source[Kept]:
        """Follows the objects under a path, such as `/api/v1/pods`.

        `selector` is a query that selects some of them, such as `fieldSelector=...`, or "".
        """
        ...


class Remote(msgspec.Struct, frozen=True):
    """Access over HTTP. Calls, plugins' requests, events and leases have their own connections.

    Plugins' requests share the rate limit of the calls; the others have their own. `streaming`
    tells whether the API server streams its lists.
    """

    connection: Connection
    tenure: Tenure
    calls: Client
    plugins: Client
    events: Client
    clock: Clock
    rng: Rng
    streaming: Streaming
    measures: ClientMeasures | None = None
    keeps_whole: KeepsWhole | None = None

    @property
    def server(self) -> str:
        return self.connection.server

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        async def run() -> None:
            connection = self.connection.for_another_thread()
            agent = f"{USER_AGENT}/leader-election"
            async with Client(connection, measures=self.measures, agent=agent) as leases:
                await work(leases)

        await in_own_thread(run, "lease")

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Source[Kept]:
        keeps_whole = self.keeps_whole if kind in (Pod, Node) else None
        return Reflector(
            self.calls,
            path,
            kind,
            self.clock,
            self.rng,
            selector,
            streaming=self.streaming,
            keeps_whole=keeps_whole,
        )


@asynccontextmanager
async def remote(
    connection: Connection,
    clock: Clock,
    rng: Rng,
    qps: float,
    burst: int,
    measures: ClientMeasures | None = None,
    *,
    streams: bool = True,
    keeps_whole: KeepsWhole | None = None,
    sender: type[Client] = Client,
) -> AsyncIterator[Remote]:
    """Gives access for the duration of the block.

    `qps` and `burst` limit the calls and the events separately, and do not limit the leases.
    `measures` has the rest_client_* families. If `streams`, lists are streamed while the API server
    can do it.
    `keeps_whole` returns whether to keep the JSON of a pod or a node; without it, no JSON is kept.
    `sender` is the kind of client that sends the requests.
    """
    tenure = Tenure()

    def client() -> Client:
        return sender(
            connection,
            clock=clock,
            qps=qps,
            burst=burst,
            tenure=tenure,
            measures=measures,
            agent=f"{USER_AGENT}/scheduler",
        )

    calls, events = client(), client()
    async with calls, calls.with_own_connections() as plugins, events:
        yield Remote(
            connection,
            tenure,
            calls,
            plugins,
            events,
            clock,
            rng,
            Streaming(works=streams),
            measures,
            keeps_whole,
        )
