"""The API server as the programs of a cluster in memory see it, through faults.

Without connections, a program learns at once what its client would find out: that a connection is
reset after a second, that a silent one is dead after the client's own time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Generic, TypeVar

from anyio.abc import TaskGroup

from berth.actors.client.access import Calls
from berth.actors.client.rest import (
    ANSWER_SECONDS,
    ApiError,
    ConnectionFailedError,
    DeposedError,
)
from berth.actors.client.seen_version import SeenVersion
from berth.actors.client.silence import SILENCE_SECONDS
from berth.actors.client.tenure import Tenure
from berth.actors.client.watch import ObjectsListed, WatchUpdate
from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.meta import HasMetadata

from ..cluster.apiserver.store_faults import StoreFaults
from ..cluster.controllers.cluster_access import Read, Renewed
from ..cluster.controllers.embedded_access import EmbeddedAccess, Subscription, in_group
from ..cluster.faults.vocabulary import Fault
from .machine import Machine

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata | dict[str, Any])
Tell = Callable[[str, str, str], None]
LOST_SECONDS = 1.0  # until a client knows that a connection is lost


class Program:
    """A program that talks to the API server: what the faults call it, and where it runs.

    `wrote` is called before each write that is sent, and `binds_late` with the node of a binding
    that will arrive after the program has given it up. `tell` hears of requests, events and faults:
    what it is, what it is about, and what becomes of it.
    """

    def __init__(
        self,
        name: str,
        faults: StoreFaults,
        machine: Machine,
        group: TaskGroup,
        wrote: Callable[[], None] = lambda: None,
        binds_late: Callable[[str], None] = lambda _: None,
        tell: Tell | None = None,
    ) -> None:
        self.name = name
        self.faults = faults
        self.machine = machine
        self.group = group
        self.wrote = wrote
        self.binds_late = binds_late
        self.tell = tell
        self.is_dead = False

    def lost(self, why: str = "the connection was reset by a fault") -> ConnectionFailedError:
        return ConnectionFailedError(why)

    async def reached(self) -> None:
        """Returns while the program runs, and the API server is there."""
        await self.machine.running()
        while (back := self.faults.faults.back_at()) and (away := back - self.machine.now()) > 0:
            await self.machine.sleep(away)


class FaultyCalls:
    """The requests of a program, through faults. With a tenure, writes need it, as those over HTTP
    do; the calls of an election have none.
    """

    def __init__(
        self, inner: EmbeddedAccess, program: Program, tenure: Tenure | None = None
    ) -> None:
        self._inner = inner
        self._program = program
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
        program, machine = self._program, self._program.machine
        await machine.running()
        if program.is_dead:
            raise program.lost("the program was killed")
        fault = program.faults.faults.of_request(method, path, program.name)
        does = "" if fault is None else fault.does
        if program.tell is not None:
            program.tell(f"{program.name} request", path, f"{method} {does}".rstrip())
        if fault is not None and does == "slow":
            await machine.sleep(fault.seconds)
        tenure = None if method == "GET" else self._tenure
        if tenure is not None and not tenure.permits():
            raise DeposedError("not sent: the lease is lost")
        if (back := program.faults.faults.back_at()) and back > machine.now():
            await machine.sleep(LOST_SECONDS)
            raise program.lost("the API server is away")
        if fault is not None:
            _refuse(fault)
            if does == "arrive-late":
                if node:
                    program.binds_late(node)
                program.group.start_soon(self._arrives_late, work, fault.seconds)
        if does not in ("lose", "arrive-late", "half-open"):
            if tenure is not None:
                program.wrote()
            answer = await work()
            await machine.running()
            if does not in ("unanswered", "truncated"):
                return answer
        await machine.sleep(ANSWER_SECONDS if does == "half-open" else LOST_SECONDS)
        raise program.lost()

    async def _arrives_late(self, work: Callable[[], Awaitable[Any]], seconds: float) -> None:
        await self._program.machine.sleep(seconds)
        with suppress(ApiError):
            await work()

    async def renew(self, namespace: str, names: Sequence[str], time: str) -> list[str]:
        work = partial(self._inner.renew, namespace, names, time)
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        try:
            return await self._carried_out("PATCH", path, work)
        except (ApiError, ConnectionFailedError):
            return []  # they are left alone

    async def heartbeat(
        self, node: dict[str, Any], conditions: Collection[str], time: str
    ) -> dict[str, Any]:
        work = partial(self._inner.heartbeat, node, conditions, time)
        path = f"/api/v1/nodes/{node['metadata']['name']}/status"
        return await self._carried_out("PATCH", path, work)


def _refuse(fault: Fault) -> None:
    if fault.does in ("refuse", "disk-full"):
        raise ApiError(*fault.refusal)


class FaultyAccess(FaultyCalls):
    """The access of a program, of a scheduler or of controllers and kubelets, through faults."""

    server = "memory"

    def __init__(self, inner: EmbeddedAccess, program: Program) -> None:
        self.tenure = Tenure(program.machine.now)
        super().__init__(inner, program)
        self._of_election = FaultyCalls(inner, program)
        self.calls: Calls = FaultyCalls(inner, program, self.tenure)
        self.plugins = self.events = self.calls

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        await work(self._of_election)

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> FaultyWatch[Kept]:
        return FaultyWatch(self._inner.follow(path, kind, selector), self._program, path)

    def follow_later(self, group: TaskGroup, path: str, kind: type[Kept], read: Read[Kept]) -> bool:
        watch = self.follow(path, kind)
        return watch.begins_later(in_group(group, read, watch))

    def follow_leases(self) -> AsyncGenerator[WatchUpdate[Lease] | Renewed]:
        path = "/apis/coordination.k8s.io/v1/leases"
        return through_faults(self._inner.follow_leases, self._program, path)


class FaultyWatch(Generic[Kept]):
    """A watch of a program, through faults."""

    def __init__(self, inner: Subscription[Kept], program: Program, path: str) -> None:
        self._inner = inner
        self._program = program
        self._path = path
        self._is_listed = False

    def begins_later(self, begin: Callable[[], None]) -> bool:
        """Like that of a Subscription. False if its list may meet a fault."""
        if not self._program.faults.faults.may_meet_lists():
            self._is_listed = self._inner.begins_later(begin)
        return self._is_listed

    def changes(self, held: Mapping[str, Kept] | None = None) -> AsyncGenerator[WatchUpdate[Kept]]:
        follow = partial(self._inner.changes, held)
        return through_faults(follow, self._program, self._path, self._is_listed)


async def through_faults(
    follow: Callable[[int], AsyncGenerator[T]], program: Program, path: str, is_listed: bool = False
) -> AsyncGenerator[T]:
    """Yields what `follow` yields, from a list of the revision that it is given, as far as no fault
    holds it up. After an event that cannot be used, a program lists again, and after a list that is
    older than what it has seen. If it `is_listed`, there is no list that could meet a fault before
    the first event.
    """
    faults, sleep, seen = program.faults, program.machine.sleep, SeenVersion()
    while True:
        await program.reached()
        older = None if is_listed else faults.faults.of_list(path, program.name)
        is_listed = False
        revision = 0 if older is None else faults.revision_of(older.seconds)
        if not seen.takes(str(revision or faults.revision)):
            await sleep(LOST_SECONDS * 2**seen.refused)
            continue
        async with aclosing(follow(revision)) as updates:
            async for update in updates:
                await program.reached()
                fault = None
                seen.see(_version(update))
                if not isinstance(update, ObjectsListed):
                    fault = faults.faults.of_event(path, program.name)
                if program.tell is not None:
                    program.tell(
                        f"{program.name} watch", path, _event(update, fault.does if fault else "")
                    )
                if fault is None:
                    yield update
                    continue
                if fault.does in ("watch-garbage", "watch-expired"):
                    break
                await _hold_up(fault, program)
                yield update
                if fault.does == "watch-repeat":
                    yield update
        await sleep(LOST_SECONDS)


def _version(update: object) -> str:
    """Returns the version of a change, or "" for a list."""
    item = getattr(update, "object", None)
    if isinstance(item, dict):
        return str(item["metadata"]["resourceVersion"])
    return "" if item is None else str(item.metadata.resource_version)


def _event(update: object, does: str) -> str:
    """Returns an event of a watch in words, with the fault that it meets."""
    about = getattr(update, "object", None)
    if isinstance(about, dict):
        name = str(about["metadata"].get("name", ""))
    else:
        name = str(getattr(getattr(about, "metadata", None), "name", ""))
    return " ".join(each for each in (type(update).__name__, name, does) if each)


async def _hold_up(fault: Fault, program: Program) -> None:
    """Waits as long as an event is held up; a silent watch at most until all faults end."""
    machine = program.machine
    match fault.does:
        case "watch-late":
            await machine.sleep(fault.seconds)
        case "watch-cut":
            await machine.sleep(LOST_SECONDS)
        case "watch-silent":
            ends = machine.now() + SILENCE_SECONDS
            while machine.now() < ends and not program.faults.faults.calm:
                await machine.sleep(LOST_SECONDS)
