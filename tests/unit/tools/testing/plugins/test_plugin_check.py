"""The check of plugins finds each contract that a plugin breaks, and no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any

import msgspec
import numpy as np
import pytest

from berth.plugin import (
    PAUSE,
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    FailedAttempt,
    FilterPlugin,
    Handle,
    Ints,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    ObjectMeta,
    PermitPlugin,
    Plugin,
    PodInfo,
    PostBindPlugin,
    PostFilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    Registration,
    ReservePlugin,
    Resource,
    ScorePlugin,
    Snapshot,
    StateKey,
    Status,
    Verdicts,
    WatchedKind,
    milli,
    unresolvable,
    unschedulable,
)
from berth.testing import Cluster, PluginCheckError, check_plugin, node, pod, run_virtually

PRICE = "example.com/price"
NODES = [node("n", cpu=4, labels={PRICE: price}) for price in ("10", "40")]


class Good(NodeFilterPlugin, NodeScorePlugin):
    name = "Good"

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS if PRICE in node.labels else unschedulable("node(s) had no price")

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return int(node.labels[PRICE])


class GoodVector(FilterPlugin, ScorePlugin):
    name = "GoodVector"
    depends_on = DependsOn.NODE_AND_PODS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        full = nodes.columns.pods[nodes.rows] > 2
        return Verdicts.rejecting(full, Code.UNSCHEDULABLE, "node(s) had enough pods")

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        return np.asarray(100 // (1 + nodes.columns.pods[nodes.rows]), dtype=np.int64)

    def events_to_register(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(Resource.NODE, Action.ADD)),
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)),
        )


class Reserving(PreFilterPlugin, ReservePlugin):
    """Reserves only where it let the pod pass, with what it noted there."""

    name = "Reserving"
    noted: StateKey[str] = StateKey("ReservingNoted")

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        if info.pod.metadata.labels.get("app") == "x":
            return unresolvable("not for x")
        state.write(self.noted, snapshot.columns.names[snapshot.columns.order[-1]])
        return PreFilterResult(frozenset((state.read(self.noted),)))

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        assert node == state.read(self.noted)
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass


@pytest.mark.parametrize("kind", [Good, GoodVector, Reserving])
def test_a_plugin_that_keeps_its_contracts_passes(kind: type[Plugin]) -> None:
    check_plugin(kind, nodes=NODES, examples=8)


class Aged(NodeFilterPlugin):
    """Reads what each object of a cluster has."""

    name = "Aged"

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        assert node.node is not None
        for each in (info.pod, node.node, *(other.pod for other in node.pods.values())):
            datetime.fromisoformat(each.metadata.creation_timestamp or "")
        return SUCCESS


def test_the_objects_of_the_clusters_have_been_created() -> None:
    check_plugin(Aged, examples=3)


class Usage(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    usage: Mapping[str, str] = {}


class Idle(NodeFilterPlugin):
    """Keeps pods off nodes where more than two CPUs are used."""

    name = "Idle"
    path = "/apis/metrics.k8s.io/v1beta1/nodes"
    lookups = (WatchedKind("metrics.k8s.io/v1beta1", "NodeMetrics", path, Usage, every=15),)

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        metrics = self.handle.objects.get(Usage, node.name)
        used = milli(metrics.usage["cpu"]) if metrics else 0
        return SUCCESS if used <= 2000 else unschedulable("node(s) were busy")


def test_metrics_are_objects_of_a_check() -> None:
    kind = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics"}
    check_plugin(
        Idle, others=[{**kind, "metadata": {"name": "n"}, "usage": {"cpu": "3"}}], examples=1
    )


def test_a_cluster_has_the_metrics_of_its_pods() -> None:
    async def story() -> None:
        async with Cluster(node("n"), plugins=[Idle]) as cluster:
            await cluster.add(pod("busy", annotations={"berth.dev/usage": "cpu=3"}))
            await cluster.run_for(60)
            await cluster.add(pod("late"), node("m"))
            await cluster.settled()
            assert cluster.pod("late").placed_on("m")

    run_virtually(story)


class Raising(NodeFilterPlugin):
    name = "Raising"

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return int(node.labels[PRICE])  # type: ignore[return-value]


class Fickle(NodeScorePlugin):
    name = "Fickle"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self.turns = count()

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return next(self.turns) % 100


class Nosy(GoodVector):
    """A plugin that looks at more than it declares."""

    name = "Nosy"
    depends_on = DependsOn.NODE


class Two(FilterPlugin, NodeFilterPlugin):
    name = "Two"

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        return None

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return unschedulable("never")


class Deaf(Good):
    """A plugin that waits for nothing."""

    name = "Deaf"

    def events_to_register(self) -> Sequence[Registration]:
        return ()


class Choosy(PreFilterPlugin):
    """Leaves nodes that are not there yet, and waits for nothing."""

    name = "Choosy"

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        return PreFilterResult(frozenset({"large"}))

    def events_to_register(self) -> Sequence[Registration]:
        return ()


class Leaking(ReservePlugin, NodeFilterPlugin):
    name = "Leaking"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self.taken: set[str] = set()

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return unschedulable("taken") if node.name in self.taken else SUCCESS

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.taken.add(node)
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass


class Strict(Leaking):
    name = "Strict"

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.taken.remove(node)


class Hinting(Good):
    """Answers hints in a way that wakes pods all the same."""

    name = "Hinting"

    def events_to_register(self) -> Sequence[Registration]:
        def hint(*_: object) -> Any:
            raise ValueError("no hint")

        return (Registration(ClusterEvent(Resource.NODE, Action.ALL), hint),)


class Permitting(PermitPlugin):
    name = "Permitting"

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), float("nan")


class Told(PostBindPlugin):
    name = "Told"

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        raise ValueError("too late")


class Pausing(NodeFilterPlugin, PostFilterPlugin):
    name = "Pausing"

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        return unschedulable("no")

    def post_filter(self, attempt: FailedAttempt) -> Any:
        while True:
            yield PAUSE


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Raising, "an answer is not valid: running "),
        (Fickle, "the answers differ for the same input: scores: "),
        (Nosy, "depends_on is NODE, but the "),
        (Two, "filter differs from filter_node: "),
        (Deaf, "no hint wakes a pod that fits after a "),
        (Choosy, "no hint wakes a pod that fits after a large node is added: NodeAdd"),
        (Leaking, "unreserve does not undo reserve: codes: "),
        (Strict, "unreserve without reserve raises: KeyError: "),
        (Hinting, "an answer is not valid: QueueingHint: ValueError: no hint"),
        (Permitting, "an answer is not valid: Permit: expected seconds to wait, from 0, got nan"),
        (Told, "an answer is not valid: PostBind: ValueError: too late"),
        (Pausing, "an answer is not valid: PostFilter: PluginOverrunError: no answer after 10,001"),
    ],
)
def test_what_is_wrong_is_told(kind: type[Plugin], what: str) -> None:
    with pytest.raises(PluginCheckError) as told:
        check_plugin(kind, nodes=[] if kind is Raising else NODES)
    assert [problem for problem in told.value.problems if problem.startswith(what)], told.value


def test_the_same_seed_gives_the_same_answer() -> None:
    def problems() -> list[str]:
        with pytest.raises(PluginCheckError) as told:
            check_plugin(Nosy, nodes=NODES, pods=[pod("p", cpu="50m")], examples=5, seed=3)
        return told.value.problems

    assert problems() == problems()
