"""The whole scheduler and a cluster in one process, in virtual time, with an API server that may be
late or fail.

The objects and their rules are those of `berth bench`; time and faults are added here. A kubelet
ends deleted pods after their grace period.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import anyio
from anyio.abc import TaskGroup

from berth.actors.client.access import Calls, Source
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.rest import ApiError, ConnectionFailedError
from berth.actors.client.tenure import Tenure
from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed
from berth.actors.configuration.file import ConfigurationFile
from berth.actors.scheduling.decision.observer import DecisionObserver
from berth.actors.scheduling.decision.outcome import Outcome
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.kinds import PODS, WatchedKind
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.server.debug import Debug
from berth.actors.system import Daemon
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.config.options import Options
from berth.tools.bench.inproc import InProcess
from berth.tools.bench.pod_counts import PodTracker
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit import documents
from tests.kit.clock import VirtualClock
from tests.kit.documents import Document
from tests.kit.instruments import unread
from tests.kit.rights import RIGHTS

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata)
PRIORITIES = (0, 5, 10)


DELAY = 4.0  # seconds until a delayed request arrives


class Fault(enum.Enum):
    """The fate of a write."""

    NONE = "none"
    REFUSED = "refused"
    LOST = "the request is lost"
    UNANSWERED = "it is done, and the answer is lost"
    DELAYED = "the connection is lost, and the request arrives later"


class Write:
    """A write as the API server saw it, in virtual seconds."""

    def __init__(self, at: float, method: str, path: str, body: object, fault: Fault) -> None:
        self.at = at
        self.method = method
        self.path = path
        self.body = body
        self.fault = fault


class Decision(NamedTuple):
    """An attempt for a pod, in virtual seconds."""

    at: float
    pod: Pod
    outcome: Outcome


class LateSource:
    """The changes of one kind, each this many seconds after it happened."""

    def __init__(self, source: Source[Any], cluster: VirtualCluster, seconds: float) -> None:
        self._source = source
        self._cluster = cluster
        self._seconds = seconds

    async def changes(
        self, before: Mapping[str, Any]
    ) -> AsyncIterator[ObjectsListed[Any] | ObjectChanged[Any] | ObjectDeleted[Any]]:
        cluster = self._cluster
        send, receive = anyio.create_memory_object_stream[Any](float("inf"))

        async def deliver(event: object) -> None:
            await cluster.clock.sleep(self._seconds)
            await send.send(event)

        async def pump() -> None:
            async for event in self._source.changes(before):
                cluster.group.start_soon(deliver, event)

        cluster.group.start_soon(pump)
        with send, receive:
            async for event in receive:
                yield event


class VirtualCluster:
    """The API server takes `late` seconds for a call, half of them before it does anything.

    A watch is as late as the second half of a call, or by the seconds in `lags`, by kind.
    `fault` is called before each write, with its method, its path and its body; `fails_read` before
    the answer to each read, with its path. `looks` is called before each decision, with its
    snapshot. `debug` has the scheduler's debug pages.
    """

    def __init__(
        self,
        group: TaskGroup,
        late: float,
        fault: Callable[[str, str, object], Fault],
        lags: Mapping[type[Any], float],
    ) -> None:
        self.group = group
        self.late = late
        self.lags = lags
        self.clock = VirtualClock()
        self.instruments = unread(self.clock)
        self.tracker = PodTracker()
        self.api = InProcess(self.tracker)
        self.snapshot: Snapshot | None = None
        self.looks: Callable[[PodInfo, Snapshot], None] = lambda _info, _snapshot: None
        self.debug: Debug | None = None
        self.writes: list[Write] = []
        self.decisions: list[Decision] = []
        self._fault = fault
        self.fails_read: Callable[[str], bool] = lambda _path: False
        self.calls: Calls = self
        self.plugins: Calls = self
        self.events: Calls = self
        self.server = "memory"
        self.tenure = Tenure()

    # ------------------------------------------------------------------------------------ as Access

    async def run_apart(self, work: Callable[[Calls], Awaitable[None]]) -> None:
        await work(self)

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Source[Kept]:
        RIGHTS.check("GET", path)
        RIGHTS.check("GET", f"{path}?watch=1")
        return LateSource(
            self.api.follow(path, kind, selector), self, self.lags.get(kind, self.late / 2)
        )

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        await self._write("POST", path, node, partial(self.api.bind, namespace, name, uid, node))

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        work = partial(self.api.patch, path, body, answer, kind)
        patched: T = await self._write("PATCH", path, body, work)
        return patched

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "",
    ) -> T:
        work = partial(self.api.call, method, path, answer, body, content_type)
        if method == "GET":
            RIGHTS.check(method, path)
            await self.clock.sleep(self.late)
            if self.fails_read(path):
                raise ConnectionFailedError("the connection was lost for the test")
            return await work()
        answered: T = await self._write(method, path, body, work)
        return answered

    async def _write(self, method: str, path: str, body: object, work: Callable[[], Any]) -> Any:
        RIGHTS.check(method, path, body)
        fault = self._fault(method, path, body)
        if self.late:
            await self.clock.sleep(self.late / 2)
        assert self.tenure.permits()
        self.writes.append(Write(self.clock.now(), method, path, body, fault))
        if fault is Fault.REFUSED:
            raise ApiError(500, "InternalError", "refused for the test")
        if fault is Fault.DELAYED:
            self.group.start_soon(self._arrives_late, work)
            raise ConnectionFailedError("the connection was lost for the test")
        answer = None if fault is Fault.LOST else await work()
        if fault in (Fault.LOST, Fault.UNANSWERED):
            await self.clock.sleep(1.0)
            raise ConnectionFailedError("the connection was lost for the test")
        if self.late:
            await self.clock.sleep(self.late / 2)
        return answer

    async def _arrives_late(self, work: Callable[[], Any]) -> None:
        await self.clock.sleep(DELAY)
        with suppress(ApiError):
            await work()

    # ------------------------------------------------------------------------------------ for tests

    async def create(self, document: Document) -> None:
        kind = BY_KIND[document["apiVersion"], document["kind"]]
        metadata = document["metadata"]
        await self.api.create(kind, metadata.get("namespace", ""), metadata["name"], document)

    def put(self, kind: WatchedKind, item: HasMetadata) -> None:
        """Creates or changes an object of a kind that the cluster does not know."""
        self.api._put(self.api._shelves[kind.path], item)

    async def delete(self, kind: str, name: str, namespace: str = "", version: str = "v1") -> None:
        await self.api.delete(BY_KIND[version, kind], namespace, name)

    def objects(self, kind: WatchedKind) -> dict[tuple[str, str], Any]:
        """Returns the objects of a kind by namespace and name."""
        return dict(self.api._shelves[kind.path].items)

    async def delete_pod(self, name: str, grace: int = 0) -> None:
        await self.api.delete(BY_KIND["v1", "Pod"], "default", name, grace)

    def pods(self) -> dict[str, Pod]:
        """Returns the pods of the namespace default by name."""
        items = self.api._shelves[PODS.path].items
        return {name: pod for (_, name), pod in items.items()}

    async def run_kubelet(self) -> None:
        """Ends the pods that are being deleted."""
        ending: set[str] = set()

        async def end(pod: Pod) -> None:
            await self.clock.sleep(float(pod.spec.termination_grace_period_seconds or 0))
            await self.delete_pod(pod.metadata.name)

        async for event in self.api.follow(PODS.path, Pod).changes({}):
            if isinstance(event, ObjectChanged):
                pod = event.object
                if pod.metadata.deletion_timestamp is not None and pod.metadata.uid not in ending:
                    ending.add(pod.metadata.uid)
                    self.group.start_soon(end, pod)


class _Decisions(DecisionObserver):
    """Notes the decisions, and the snapshot that they are made on, which the cache updates."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self._cluster = cluster

    def deciding(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, start: int, *, extended: bool
    ) -> None:
        self._cluster.snapshot = snapshot
        self._cluster.looks(info, snapshot)

    def decided(self, info: PodInfo, outcome: Outcome) -> None:
        cluster = self._cluster
        cluster.decisions.append(Decision(cluster.clock.now(), info.pod, outcome))


class PromptFile(ConfigurationFile):
    """A file that is read without a thread, for which virtual time would not wait."""

    async def read_again(self) -> bytes | None:
        return self.read_if_regular()


@asynccontextmanager
async def virtual_cluster(
    *plugins: str,
    late: float = 0.0,
    fault: Callable[[str, str, object], Fault] = lambda _method, _path, _body: Fault.NONE,
    extenders: Extenders | None = None,
    args: Mapping[str, Mapping[str, Any]] | None = None,
    lags: Mapping[type[Any], float] | None = None,
    path: Path | None = None,
    gates: Mapping[str, bool] = DEFAULTS,
) -> AsyncIterator[VirtualCluster]:
    """Runs a scheduler with these plugins besides the default ones; they must be registered. `args`
    are those of plugins by name. The configuration follows the file at `path`, if there is one.
    """
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": name} for name in plugins]}},
                "pluginConfig": [{"name": n, "args": config} for n, config in (args or {}).items()],
            }
        ],
    }
    file = None if path is None else PromptFile(path)
    async with anyio.create_task_group() as group:
        cluster = VirtualCluster(group, late, fault, lags or {})
        group.start_soon(cluster.run_kubelet)
        daemon = Daemon(
            from_mapping(document) if file is None else file.parse(file.read()),
            cluster,
            extenders or Extenders(),
            cluster.clock,
            Random(1),
            Options(feature_gates=gates),
            instruments=cluster.instruments,
            observer=_Decisions(cluster),
            file=file,
        )
        cluster.debug = daemon.debug
        async with anyio.create_task_group() as scheduler:
            started = anyio.Event()

            async def start() -> None:
                await scheduler.start(daemon.run)
                started.set()

            scheduler.start_soon(start)
            while not started.is_set():
                await cluster.clock.advance(1.0)
            for priority in PRIORITIES:
                await cluster.create(priority_class(priority))
            yield cluster
            scheduler.cancel_scope.cancel()
        group.cancel_scope.cancel()


def priority_class(value: int) -> Document:
    metadata = {"name": f"priority-{value}"}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
    }


def node(name: str, cpu: int) -> Document:
    return documents.node(name, cpu, memory="64Gi")


def pod(name: str, cpu: int = 1, priority: int = 0, grace: int = 0) -> Document:
    fields: Document = {
        "priorityClassName": f"priority-{priority}",
        "terminationGracePeriodSeconds": grace,
    }
    return documents.pod(name, cpu, **fields)
