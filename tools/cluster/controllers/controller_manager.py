"""Runs the controllers of a toy cluster as kube-controller-manager does: follow, decide, write.

Only one task at a time works on an item. If a change touches the item meanwhile, the task works on
it once more. After a failed write, it waits for a backoff and decides again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count, groupby
from math import inf

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from berth.actors.client.rest import (
    ApiError,
    ConnectionFailedError,
)
from berth.actors.runtime.backoff import (
    Backoff,
    Rng,
)
from berth.actors.runtime.clock import Clock
from berth.actors.runtime.workers import Line, Workers
from berth.actors.scheduling.framework.logger import get_logger

from ...kubernetes.api.types.resources import KINDS
from ...kubernetes.kubelet.usage_models import NO_SCENARIO, Scenario
from ...kubernetes.object_index import ObjectChange, ObjectIndex
from ...kubernetes.objects.object_events import (
    event_about,
    refused_creation,
    refused_deletion,
    reporter_of,
)
from ...kubernetes.objects.structs import TYPES, Document, read
from ...kubernetes.objects.writes import Again, Create, Delete, Look, Notice, Patch, Write
from ...kubernetes.work_items import Item
from .alarm import Alarm
from .cluster_access import ClusterAccess
from .controller_table import ControllerTable
from .custom_kinds import CustomKinds
from .event_writer import Recorder
from .object_watches import Watches
from .workload_controllers import POD_OWNERS

log = get_logger(__name__)
# The items of controllers, each with the seconds until they decide on it: 0 for now.
Plans = Callable[[], list[tuple[Item, float]]]

WRITES_AT_ONCE = 32
SET = timedelta(seconds=1)  # a larger step of the time of day means that somebody set it
RETRY = Backoff(initial=0.05, most=10.0, jitter=0.2)
# An item rests this long after each decision; changes that arrive meanwhile are handled together.
REST_SECONDS = 0.02
REST_PER_DEPENDENT = 1e-4  # ten times the seconds that a decision takes for it
REFUSALS = (400, 403, 422, 500)  # the codes of what another attempt would not change
TERMINATING = "is being terminated"  # in the refusal of what enters a namespace that ends
_KINDS = {kind.kind: kind for kind in KINDS if kind.stored_as is None}


class Selection(msgspec.Struct, frozen=True):
    """The controllers to run, or None for all, and the kinds that they follow.

    An item rests for `rest` seconds after each decision. Without a rest, each change leads to a
    decision at once, and only an item with something to write gets a task.
    """

    followed: tuple[str, ...]
    controllers: frozenset[str] | None = None
    rest: float = REST_SECONDS


ALL = Selection(tuple(TYPES))
# The controllers that create the claims of pods from templates, and free and delete them after
# the pods. They serve measurements, so they do not rest.
OF_CLAIMS = Selection(
    ("Pod", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
    frozenset(("claim-templates", "claim-release", "device-eviction", "garbage")),
    rest=0.0,
)


async def run_controllers(
    access: ClusterAccess,
    clock: Clock,
    rng: Rng,
    some: Selection = ALL,
    *,
    scenario: Scenario = NO_SCENARIO,
    task_status: TaskStatus[Plans] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Runs controllers until cancelled; started once all kinds that they follow are listed, with
    a function that tells what they work on.

    Autoscalers measure the usage of pods as the scenario describes it.
    """
    async with anyio.create_task_group() as group:
        cluster = ObjectIndex()
        running = _Runner(cluster, access, clock, rng, group, some, scenario)
        watches = Watches(cluster, access, running.changed, running.renewed, running.heartbeat_of)
        await watches.follow_all(((_KINDS[kind], TYPES[kind]) for kind in some.followed), group)
        running.begin()
        if some.controllers is None:
            group.start_soon(CustomKinds(cluster, access, watches, group).follow)
        task_status.started(running.plans)


def collection(kind: str, namespace: str) -> str:
    """Returns the path of the objects of a kind; the namespace "" stands for all."""
    served = _KINDS[kind]
    base = f"/apis/{served.group}/{served.version}" if served.group else f"/api/{served.version}"
    return (
        f"{base}/namespaces/{namespace}/{served.plural}" if namespace else f"{base}/{served.plural}"
    )


class _Runner:
    def __init__(
        self,
        cluster: ObjectIndex,
        access: ClusterAccess,
        clock: Clock,
        rng: Rng,
        group: TaskGroup,
        some: Selection,
        scenario: Scenario,
    ) -> None:
        self._access = access
        self._clock = clock
        self._rng = rng
        self._group = group
        self._some = some
        # `fast_acquire`: an answer from the same process comes without a wait
        self._limiter = anyio.Semaphore(WRITES_AT_ONCE, fast_acquire=True)
        self._cluster = cluster
        self._controllers = ControllerTable(self._time, scenario, some.controllers)
        self._recorder = Recorder(access, clock, group)
        self._begun = False
        self._busy: set[Item] = set()
        self._dirty: set[Item] = set()
        self._due: dict[Item, float] = {}
        # A heap of times and items; times of which _due knows better stay in it.
        self._times: list[tuple[float, int, Item]] = []
        self._numbers = count()
        self._alarm = Alarm(group, clock.sleep, clock.now, self._next_time, self._decide_due)
        self._last_time = clock.wall(), clock.now()

    def _time(self) -> datetime:
        """Returns the time of day, and tells the controllers if it was set since the last call."""
        now, (before, at) = self._clock.now(), self._last_time
        if now == at:
            return before
        wall = self._clock.wall()
        step = wall - before - timedelta(seconds=now - at)
        if abs(step) > SET:
            self._controllers.nodes.shift(step)
        self._last_time = wall, now
        return wall

    def begin(self) -> None:
        """Acts on changes from now on. Every object that already exists counts as a change."""
        self._begun = True
        for kind in self._some.followed:
            self.changed([ObjectChange(None, obj) for obj in self._cluster.all(TYPES[kind])])

    def plans(self) -> list[tuple[Item, float]]:
        """Returns the items that are worked on, and those that are due later, in this order."""
        now, due = self._clock.now(), sorted(self._due.items(), key=lambda of: of[1])
        later = [(item, max(at - now, 0.0)) for item, at in due if item not in self._busy]
        return [*((item, 0.0) for item in self._busy), *later]

    def changed(self, changes: Iterable[ObjectChange | None]) -> None:
        if not self._begun:
            return
        for change in changes:
            if change is not None:
                for item in self._controllers.touched(self._cluster, change):
                    self._touch(item)

    def renewed(self, leases: Iterable[tuple[str, str]]) -> None:
        """Handles renewed leases, given by namespace and name."""
        if self._begun:
            for item in self._controllers.nodes.renewed(leases, self._time()):
                self._touch(item)

    def heartbeat_of(self, change: ObjectChange) -> None:
        """Handles the heartbeat of a node."""
        if self._begun:
            for item in self._controllers.nodes.heartbeat_of(change, self._time()):
                self._touch(item)

    def _touch(self, item: Item) -> None:
        if item in self._busy:
            self._dirty.add(item)
            return
        writes = None if self._some.rest else self._decide(item)
        if writes != []:
            self._busy.add(item)
            self._dirty.add(item)
            self._group.start_soon(self._work, item, writes)

    async def _work(self, item: Item, decided: list[Write] | None) -> None:
        """Works on an item until no more change touches it.

        `decided` holds the writes of the first decision; None if it is yet to come.
        """
        failures = 0
        while item in self._dirty:
            self._dirty.discard(item)
            writes, decided = self._decide(item) if decided is None else decided, None
            if await self._carry_out(
                item, [write for write in writes if not isinstance(write, Again)]
            ):
                failures = 0
                await self._clock.sleep(self._rest(item))
            else:
                failures += 1
                self._dirty.add(item)
                await self._clock.sleep(RETRY.delay(failures, self._rng))
            self._remind_of(item, writes)
        self._busy.discard(item)

    def _rest(self, item: Item) -> float:
        """Returns the seconds for which an item rests: longer if its decisions take long.

        A controller looks at all dependents of an object. Without a longer rest, the work for a
        workload would grow with the square of its pods.
        """
        if not self._some.rest:
            return 0.0
        owner = self._cluster.find(self._cluster.type_of(item.kind), item.namespace, item.name)
        dependents = 0 if owner is None else self._cluster.count_dependents(owner.metadata.uid)
        return max(self._some.rest, dependents * REST_PER_DEPENDENT)

    def _decide(self, item: Item) -> list[Write]:
        """Decides on an item. An item that cannot be read is left alone until it changes."""
        if not self._cluster.is_readable(
            self._cluster.type_of(item.kind), item.namespace, item.name
        ):
            return []
        try:
            return self._controllers.reconcile(self._cluster, item, self._time())
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as problem:
            log.warning(
                "object cannot be read",
                kind=item.kind,
                object=f"{item.namespace}/{item.name}",
                why=str(problem),
            )
            return []

    def _remind(self, item: Item, seconds: float) -> None:
        due = self._clock.now() + max(seconds, 0.0)
        if due < self._due.get(item, inf):
            self._put_due(item, due)
            self._alarm.set()

    def _put_due(self, item: Item, due: float) -> None:
        self._due[item] = due
        heappush(self._times, (due, next(self._numbers), item))

    def _next_time(self) -> float:
        return self._times[0][0] if self._times else inf

    def _decide_due(self, time: float) -> None:
        """Decides again on the items that are due at a time, or already now."""
        while self._times and self._times[0][0] <= max(time, self._clock.now()):
            at, _, item = heappop(self._times)
            if self._due.get(item) != at:
                continue
            seconds = self._controllers.nodes.postponed(item, self._time())
            if seconds > 0:
                self._put_due(item, self._clock.now() + seconds)
                continue
            del self._due[item]
            self._decide_again(item)

    def _decide_again(self, item: Item) -> None:
        """Decides on an item again. Starts a task only if there is something to write."""
        if item in self._busy:
            self._dirty.add(item)
            return
        writes = self._decide(item)
        if all(isinstance(write, Again) for write in writes):
            self._remind_of(item, writes)
            return
        self._busy.add(item)
        self._dirty.add(item)
        self._group.start_soon(self._work, item, writes)

    def _remind_of(self, item: Item, writes: Iterable[Write]) -> None:
        for write in writes:
            if isinstance(write, Again):
                self._remind(item, write.seconds)

    async def _carry_out(self, item: Item, writes: list[Write]) -> bool:
        """Sends the writes of each type concurrently, one type after another.

        Nothing is deleted after a patch that failed, which prepares deletions, and nothing written
        after a failed scale or creation of a ReplicaSet. Returns False if a write failed.
        """
        done: list[bool] = []
        refused: list[tuple[Create | Delete, str]] = []
        unpatched: list[str] = []
        uncreated: list[str] = []  # ReplicaSets
        unscaled: list[str] = []

        async def do(write: Write) -> None:
            async with self._limiter:
                try:
                    await self._write(item, write)
                except (ApiError, ConnectionFailedError) as failure:
                    code = failure.code if isinstance(failure, ApiError) else 0
                    # expected: the watch reports what is deleted (404) or newer (409)
                    report = log.debug if code in (404, 409) else log.warning
                    report(
                        "write failed",
                        controller=item.controller,
                        object=item.name,
                        error=str(failure),
                    )
                    done.append(code == 404 and not isinstance(write, Create))
                    if isinstance(write, Patch) and write.subresource == "scale":
                        unscaled.append(str(failure))
                    elif isinstance(write, Patch) and code != 404:
                        unpatched.append(write.name)
                    if isinstance(write, Create) and write.kind == "ReplicaSet":
                        uncreated.append(str(failure))
                    if code in REFUSALS and isinstance(write, Create | Delete):
                        refused.append((write, str(failure)))

        for kind, same in groupby(writes, key=type):
            if unscaled or uncreated or (kind is Delete and unpatched):
                break
            for batch in _batches(list(same)):
                if refused and isinstance(batch[0], Create):
                    break
                await self._send_concurrently(do, batch)
        self._record_refusal(item, *(refused[0] if refused else (None, "")))
        if unscaled:
            self._cluster.refusals[item.kind, item.namespace, item.name] = unscaled[0]
            return False
        return all(done)

    @staticmethod
    async def _send_concurrently(
        do: Callable[[Write], Awaitable[None]], writes: Sequence[Write]
    ) -> None:
        """Sends writes, as many at a time as the limit allows."""
        if len(writes) == 1:
            await do(writes[0])
            return
        async with anyio.create_task_group() as group:
            Workers[Write](group, Line(writes), do, WRITES_AT_ONCE, most_idle=0).wake()

    def _record_refusal(self, item: Item, refused: Create | Delete | None, why: str) -> None:
        """Records why the server refused to create something for an owner, or to delete one of its
        pods; None clears the record.
        """
        place = (item.kind, item.namespace, item.name)
        self._cluster.refusals.pop(place, "")
        owner = self._cluster.find(self._cluster.type_of(item.kind), item.namespace, item.name)
        if owner is None or refused is None or TERMINATING in why:
            return
        now = self._clock.wall()
        if isinstance(refused, Create):
            self._cluster.refusals[place] = why
            self._recorder.record(refused_creation(owner, refused.document, why, now))
        elif refused.kind == "Pod" and isinstance(owner, POD_OWNERS):
            self._cluster.refusals[place] = f"unable to delete pods: {why}"
            self._recorder.record(refused_deletion(owner, refused.name, why, now))

    def _record_events(self, item: Item, notices: Iterable[Notice], name: str) -> None:
        """Records events about the item, after an object of this name was written for it."""
        owner = self._cluster.find(self._cluster.type_of(item.kind), item.namespace, item.name)
        if owner is None:
            return
        now, reporter = self._clock.wall(), reporter_of(owner)
        for notice in notices:
            message = notice.message.replace("{name}", name)
            self._recorder.record(
                event_about(owner, notice.type, notice.reason, message, reporter, now)
            )

    async def _write(self, item: Item, write: Write) -> None:
        """Sends one write, and stores the server's answer at once if its kind is followed."""
        match write:
            case Create("Event", document):
                self._recorder.record(document)
            case Create(kind, document, notices):
                path = collection(kind, document["metadata"].get("namespace", ""))
                answer = await self._access.call("POST", path, dict, document)
                if notices:
                    self._record_events(item, notices, answer["metadata"]["name"])
                self._store(kind, answer)
            case Patch(kind, namespace, name, body, subresource, notices):
                path = self._path(kind, namespace, name)
                path += f"/{subresource}" if subresource else ""
                answer = await self._access.patch(path, body, dict, "merge")
                if notices:
                    self._record_events(item, notices, name)
                if subresource != "scale":
                    self._store(kind, answer)
            case Delete():
                await self._delete(write)
                if write.notices:
                    self._record_events(item, write.notices, write.name)
            case Look():
                await self._look_for_object(item, write)
            case Again():
                pass

    async def _look_for_object(self, item: Item, look: Look) -> None:
        """Asks the server for an object. If it is absent, decides again on the item that needs
        it.
        """
        place = (look.kind, look.namespace, look.name)
        try:
            answer = await self._access.call("GET", self._path(*place), dict)
        except ApiError as refusal:
            if refusal.code != 404:
                raise
            answer = {}
        if (answer.get("metadata") or {}).get("uid") == look.uid:
            self._store(look.kind, answer)
        else:
            self._cluster.note_absent(*place, look.uid)
            self._touch(item)

    async def _delete(self, write: Delete) -> None:
        options: Document = {
            "preconditions": {"uid": write.uid},
            "propagationPolicy": write.propagation,
        }
        if write.grace is not None:
            options["gracePeriodSeconds"] = write.grace
        path = self._path(write.kind, write.namespace, write.name)
        answer = await self._access.call("DELETE", path, dict, options)
        is_object = answer.get("kind") == write.kind.partition(".")[0]
        metadata = answer["metadata"] if is_object else {}
        waits = write.grace != 0 or metadata.get("finalizers")
        if waits and metadata.get("deletionTimestamp"):
            self._store(write.kind, answer)
            return
        kind = self._cluster.type_of(write.kind)
        self.changed([self._cluster.discard(kind, write.namespace, write.name, write.uid)])

    def _path(self, kind: str, namespace: str, name: str) -> str:
        """Returns the path of an object of a kind, which may be a custom one."""
        custom = self._cluster.customs.get(kind)
        if custom is not None:
            return custom.kind.path(namespace, name)
        return f"{collection(kind, namespace)}/{name}"

    def _store(self, kind: str, answer: Document) -> None:
        """Stores the server's answer; an object that cannot be read is left to the watch."""
        if kind in self._some.followed or kind in self._cluster.customs:
            type_ = self._cluster.type_of(kind)
            with suppress(msgspec.ValidationError):
                self.changed([self._cluster.put(read(answer, type_))])


def _batches(writes: list[Write]) -> Iterator[list[Write]]:
    """Yields creations in batches of 1, 2, 4 and so on, so that a server that refuses all of them
    gets one; other writes in one batch.
    """
    start, size = 0, 1
    while start < len(writes):
        size = size if isinstance(writes[0], Create) else len(writes)
        yield writes[start : start + size]
        start, size = start + size, size * 2
