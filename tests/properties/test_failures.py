"""Plugins, extenders and an API server fail anywhere, with any status: no pod is lost, and nothing
floods.

The whole scheduler runs in virtual time. At the end there is room for every pod, and nothing fails
any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from berth.actors.client.extender.calls import Extenders
from berth.actors.client.extender.merging import RemainingNodes
from berth.actors.scheduling.decision.outcome import DecisionFailure
from berth.actors.scheduling.framework.questions import FilteredNodes
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.telemetry.logs import configure_logs
from berth.plugin import (
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    FailedAttempt,
    FilterPlugin,
    Ints,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    PermitPlugin,
    Pod,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Registration,
    ReservePlugin,
    Resource,
    Snapshot,
    Status,
    Verdicts,
    Victims,
    error,
)
from tests.kit.examples import examples
from tests.kit.virtual_cluster import Fault, VirtualCluster, node, pod, virtual_cluster

SHORTEST_BACKOFF = 1.0
CALM_SECONDS = 700.0  # longer than the flush of parked pods (300 s) and the longest backoff (10 s)
POINTS = (
    "pre_filter",
    "filter",
    "post_filter",
    "pre_score",
    "score",
    "reserve",
    "permit",
    "flight",
    "pre_bind",
    "bind",
)
EXTENDER_CALLS = ("extender filter", "extender preempt", "extender bind")
REJECTIONS = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)


# A failure at these points always ends the attempt with an error; earlier ones may not.
CHOSEN = ("reserve", "permit", "flight", "pre_bind", "extender bind")


class Whim(msgspec.Struct, frozen=True):
    """The result of one call: a status with this code, or an exception."""

    code: Code = Code.SUCCESS
    raises: bool = False

    def status(self) -> Status:
        if self.raises:
            raise RuntimeError("a whim")
        return SUCCESS if self.code is Code.SUCCESS else Status(self.code, ("a whim",))


CALM = Whim()


class Script:
    """The results of the calls at each point, in order; later calls succeed. Records the errors."""

    def __init__(self, whims: dict[str, list[Whim]]) -> None:
        self._whims = {point: list(calls) for point, calls in whims.items()}
        self.errors: dict[str, list[float]] = {}
        self.cluster: VirtualCluster | None = None

    @property
    def now(self) -> float:
        assert self.cluster is not None
        return self.cluster.clock.now()

    def draw(self, point: str, uid: str) -> Whim:
        waiting = self._whims.get(point)
        whim = waiting.pop(0) if waiting else CALM
        after_done = point in ("flight", "pre_bind", "extender bind") and whim.code in REJECTIONS
        if point in CHOSEN and (whim.raises or whim.code is Code.ERROR or after_done):
            self.failed(uid)
        return whim

    def failed(self, uid: str) -> None:
        """Records that an attempt ended with an error."""
        self.errors.setdefault(uid, []).append(self.now)

    def end(self) -> None:
        self._whims.clear()


class Moody(
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    NodeScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
):
    """A plugin that follows the script at every extension point."""

    name = "Moody"
    script: ClassVar[Script]

    def events_to_register(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(Resource.NODE, Action.ADD)),
            Registration(ClusterEvent(Resource.POD, Action.DELETE)),
        )

    def _status(self, point: str, info: PodInfo) -> Status:
        return self.script.draw(point, info.uid).status()

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
        return self._status("pre_filter", info)

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        status = self._status("filter", info)
        if status.ok or not status.rejected:
            return None
        codes = np.full(nodes.size, status.code, dtype=np.int8)
        return Verdicts(codes, np.zeros(nodes.size, dtype=np.int64), lambda key: ("a whim",))

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        status = self._status("post_filter", attempt.info)
        return PostFiltered(Status(Code.UNSCHEDULABLE) if status.ok else status)

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        return self._status("pre_score", info)

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        self._status("score", info)
        return 0

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return self._status("reserve", info)

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return self._status("permit", info), 3.0

    def pre_bind_pre_flight(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return self._status("flight", info)

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        assert self.script.cluster is not None
        await self.script.cluster.clock.sleep(0.2)
        return self._status("pre_bind", info)


class MoodyExtenders(Extenders):
    """Extenders that take part in every decision and follow the script."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    def decide_on(self, pod: Pod) -> bool:
        return True

    async def filter(self, pod: Pod, nodes: NodeView) -> FilteredNodes | Status:
        failed = _failed(self._script.draw("extender filter", pod.metadata.uid))
        return RemainingNodes(nodes).result() if failed is None else failed

    async def prioritize(self, pod: Pod, nodes: NodeView) -> Ints:
        return np.zeros(nodes.size, dtype=np.int64)

    async def preempt(
        self, pod: Pod, candidates: dict[str, Victims], snapshot: Snapshot
    ) -> dict[str, Victims] | Status:
        failed = _failed(self._script.draw("extender preempt", pod.metadata.uid))
        return candidates if failed is None else failed

    async def bind(self, pod: Pod, node: str) -> Status | None:
        return _failed(self._script.draw("extender bind", pod.metadata.uid))


def _failed(whim: Whim) -> Status | None:
    return None if whim == CALM else error("an extender's whim")


class Case(msgspec.Struct, frozen=True):
    """The cores of each node, the (cores, priority) of each pod, which pod is deleted at which
    second, and what fails.
    """

    nodes: tuple[int, ...]
    pods: tuple[tuple[int, int], ...]
    deleted: tuple[tuple[int, float], ...]
    whims: dict[str, list[Whim]]
    faults: tuple[Fault, ...]
    late: float
    extended: bool


WHIMS = st.builds(Whim, st.sampled_from([*Code]), st.booleans())
CASES = st.builds(
    Case,
    st.lists(st.integers(1, 3), min_size=0, max_size=3).map(tuple),
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from([0, 5, 10])), min_size=1, max_size=7).map(
        tuple
    ),
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.0, 1.5, 7.0, 40.0])), max_size=2).map(
        tuple
    ),
    st.dictionaries(
        st.sampled_from([*POINTS, *EXTENDER_CALLS]), st.lists(WHIMS, max_size=5), max_size=6
    ),
    st.lists(st.sampled_from([*Fault]), max_size=8).map(tuple),
    st.sampled_from([0.0, 0.0, 0.5, 38.0]),
    st.booleans(),
)


async def play(case: Case) -> None:
    script = Moody.script = Script(case.whims)
    faults = list(case.faults)

    def fault(method: str, path: str, body: object) -> Fault:
        return faults.pop(0) if faults else Fault.NONE

    extenders = MoodyExtenders(script) if case.extended else None
    async with virtual_cluster(
        "Moody", late=case.late, fault=fault, extenders=extenders
    ) as cluster:
        script.cluster = cluster
        for i, cores in enumerate(case.nodes):
            await cluster.create(node(f"n{i}", cores))
        for i, (cores, priority) in enumerate(case.pods):
            await cluster.create(pod(f"p{i}", cores, priority))
            await cluster.clock.advance(0.3)
        began = cluster.clock.now()
        for i, at in sorted(case.deleted, key=lambda deletion: deletion[1]):
            await cluster.clock.advance(max(began + at - cluster.clock.now(), 0.0))
            await cluster.delete_pod(f"p{i}")
        await cluster.clock.advance(100.0)
        nothing_is_flooded(script, cluster)
        if not case.late and not case.faults:
            nominations_are_those_of_the_statuses(cluster)
        script.end()
        faults.clear()
        await cluster.create(node("room", 100))
        await cluster.clock.advance(CALM_SECONDS)
        nothing_is_flooded(script, cluster)
        everybody_is_placed(cluster)


def everybody_is_placed(cluster: VirtualCluster) -> None:
    pods = cluster.pods()
    waiting = {
        name: [c.message for c in pod.status.conditions]
        for name, pod in pods.items()
        if not pod.spec.node_name
    }
    assert not waiting
    assert not [name for name, pod in pods.items() if pod.status.nominated_node_name]
    assert cluster.snapshot is None or not cluster.snapshot.nominations, (
        "the queue keeps pods that are placed or gone"
    )
    bound = [
        write.path
        for write in cluster.writes
        if write.path.endswith("/binding") and write.fault in DONE
    ]
    assert len({pod.metadata.uid for pod in pods.values()}) <= len(bound)


def nominations_are_those_of_the_statuses(cluster: VirtualCluster) -> None:
    """After all writes, the cache's nominations are those in the pods' statuses."""
    pending = {name: pod for name, pod in cluster.pods().items() if not pod.spec.node_name}
    told = {
        name: pod.status.nominated_node_name
        for name, pod in pending.items()
        if pod.status.nominated_node_name
    }
    counted: dict[str, str] = {}
    if cluster.snapshot is not None:
        nominations = cluster.snapshot.nominations
        counted = {
            info.pod.metadata.name: node
            for node in nominations.nodes()
            for info in nominations.on(node)
        }
    assert counted == told


# A delayed binding may be refused when it arrives.
DONE = (Fault.NONE, Fault.UNANSWERED, Fault.DELAYED)


def nothing_is_flooded(script: Script, cluster: VirtualCluster) -> None:
    """After an error, no pod is tried again before the shortest backoff is over."""
    errors = {uid: list(times) for uid, times in script.errors.items()}
    for decision in cluster.decisions:
        if isinstance(decision.outcome, DecisionFailure):
            errors.setdefault(decision.pod.metadata.uid, []).append(decision.at)
    for uid, failed in errors.items():
        times = [decision.at for decision in cluster.decisions if decision.pod.metadata.uid == uid]
        for at in failed:
            later = [time for time in times if time > at]
            assert all(time - at >= SHORTEST_BACKOFF for time in later), (uid, at, later)


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IN_TREE, "Moody", Moody)
    configure_logs(quiet=True)


# The last pod is bound by a write that arrives after its connection was lost.
ARRIVES_LATE = Case(
    (1,), ((2, 0), (1, 0), (1, 0)), (), {}, (*4 * (Fault.NONE,), Fault.DELAYED), 0.0, False
)


@pytest.mark.usefixtures("moody")
@examples(0.1)
@example(case=ARRIVES_LATE)
@given(case=CASES)
def test_in_the_end_every_pod_is_placed(case: Case) -> None:
    asyncio.run(play(case))
