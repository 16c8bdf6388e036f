"""The API server as a scheduler sees it through the faults of a scenario."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Generic, TypeVar

from anyio.abc import TaskGroup

from berth.actors.client.access import Calls
from berth.actors.client.rest import ApiError, ConnectionFailedError
from berth.actors.client.tenure import Tenure
from berth.actors.client.watch import ObjectsListed, WatchUpdate
from berth.actors.runtime.clock import Clock
from berth.actors.scheduling.kube.meta import HasMetadata

from ...cluster.controllers.embedded_access import EmbeddedAccess, Subscription
from .scenario import Fault

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata)
LOST_SECONDS = 1.0  # until a client knows that a connection is lost
_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 503: "ServiceUnavailable"}
_OF_WATCHES = ("watch-late", "watch-repeat")


class FaultsInForce:
    """The faults of a scenario, drawn from one source of chance. `calm` ends them all."""

    def __init__(self, faults: Sequence[Fault], now: Callable[[], float], rng: Random) -> None:
        self._of_requests = [fault for fault in faults if fault.does not in _OF_WATCHES]
        self._of_watches = [fault for fault in faults if fault.does in _OF_WATCHES]
        self._now = now
        self._rng = rng
        self.calm = False
        self.met = 0

    def of_request(self, method: str, path: str) -> Fault | None:
        """Returns the fault that a request meets."""
        path = path.partition("?")[0]
        return self._drawn(
            fault
            for fault in self._of_requests
            if (not fault.methods or method in fault.methods)
            and (not fault.paths or path.endswith(fault.paths))
        )

    def of_event(self, path: str) -> Fault | None:
        """Returns the fault that an event of a watch of this path meets."""
        return self._drawn(
            fault for fault in self._of_watches if not fault.paths or path.endswith(fault.paths)
        )

    def _drawn(self, candidates: Any) -> Fault | None:
        if self.calm:
            return None
        now = self._now()
        for fault in candidates:
            if fault.begin <= now < fault.end and self._rng.random() < fault.chance:
                self.met += 1
                found: Fault = fault
                return found
        return None


class FaultyCalls:
    """The requests of a scheduler, through faults. Its writes need the tenure, as those over HTTP
    do; the calls of an election have none.

    `wrote` is called before a write, and `binds_late` with the node of a binding that will arrive
    after the scheduler has given it up.
    """

    def __init__(
        self,
        inner: EmbeddedAccess,
        faults: FaultsInForce,
        clock: Clock,
        group: TaskGroup,
        wrote: Callable[[], None],
        binds_late: Callable[[str], None],
        tenure: Tenure | None,
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._clock = clock
        self._group = group
        self._wrote = wrote
        self._binds_late = binds_late
        self._tenure = tenure

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "application/json",
    ) -> T:
        work = partial(self._inner.call, method, path, answer, body, content_type)
        return await self._carried_out(method, path, work)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        work = partial(self._inner.bind, namespace, name, uid, node)
        await self._carried_out("POST", path, work, node)

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        work = partial(self._inner.patch, path, body, answer, kind)
        return await self._carried_out("PATCH", path, work)

    async def _carried_out(
        self, method: str, path: str, work: Callable[[], Awaitable[T]], node: str = ""
    ) -> T:
        """Carries a request out, unless a fault prevents it. `node` is that of a binding."""
        fault = self._faults.of_request(method, path)
        does = "" if fault is None else fault.does
        if fault is not None and does == "slow":
            await self._clock.sleep(fault.seconds)
        tenure = None if method == "GET" else self._tenure
        if tenure is not None and not tenure.permits():
            raise ConnectionFailedError("not sent: the lease is lost")
        if fault is not None and does == "refuse":
            reason = _REASONS.get(fault.code, "InternalError")
            raise ApiError(fault.code, reason, "refused by a fault of the scenario")
        if fault is not None and does == "arrive-late":
            if node:
                self._binds_late(node)
            self._group.start_soon(self._arrives_late, work, fault.seconds)
        elif does != "lose":
            if tenure is not None:
                self._wrote()
            answer = await work()
            if does != "unanswered":
                return answer
        await self._clock.sleep(LOST_SECONDS)
        raise ConnectionFailedError("the connection was lost by a fault of the scenario")

    async def _arrives_late(self, work: Callable[[], Awaitable[Any]], seconds: float) -> None:
        await self._clock.sleep(seconds)
        with suppress(ApiError):
            await work()


class FaultyAccess:
    """A scheduler's Access, through faults. The arguments are those of FaultyCalls."""

    server = "memory"

    def __init__(
        self,
        inner: EmbeddedAccess,
        faults: FaultsInForce,
        clock: Clock,
        group: TaskGroup,
        wrote: Callable[[], None],
        binds_late: Callable[[str], None],
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._clock = clock
        self.tenure = Tenure(clock.now)
        calls = partial(FaultyCalls, inner, faults, clock, group, wrote, binds_late)
        self._of_election = calls(None)
        self.calls: Calls = calls(self.tenure)
        self.plugins = self.events = self.calls

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        await work(self._of_election)

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> FaultyWatch[Kept]:
        inner = self._inner.follow(path, kind, selector)
        return FaultyWatch(inner, self._faults, path, self._clock)


class FaultyWatch(Generic[Kept]):
    """A watch whose events may be late, or come twice."""

    def __init__(
        self, inner: Subscription[Kept], faults: FaultsInForce, path: str, clock: Clock
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._path = path
        self._clock = clock

    async def changes(self, held: Mapping[str, Kept]) -> AsyncIterator[WatchUpdate[Kept]]:
        async for update in self._inner.changes(held):
            fault = None
            if not isinstance(update, ObjectsListed):
                fault = self._faults.of_event(self._path)
            if fault is not None and fault.does == "watch-late":
                await self._clock.sleep(fault.seconds)
            yield update
            if fault is not None and fault.does == "watch-repeat":
                yield update
