"""A plugin that writes to what it is lent fails, by name, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.kube.labels import Selector
from berth.actors.scheduling.model.pod_counts import pods_selected
from berth.plugin import (
    SUCCESS,
    CycleState,
    FailedAttempt,
    FilterPlugin,
    Ints,
    Namespace,
    NodeFilterPlugin,
    NodeInfo,
    NodeView,
    Plugin,
    Pod,
    PodInfo,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
    Snapshot,
    Status,
    Verdicts,
    unschedulable,
)
from tests.kit import documents
from tests.kit.logs import capture_logs
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of

Write = Callable[..., Any]
KEY = "example.com/k"


def pod_of(name: str, **spec: Any) -> dict[str, Any]:
    container = documents.container("c", "1", requests={"example.com/few": "1"})
    container["ports"] = [{"containerPort": 80, "hostPort": 80 if spec else 0}]
    fields: dict[str, Any] = {"namespace": "ns", "labels": {"app": "a"}, **spec}
    return documents.pod(name, nodeSelector={"zone": "z"}, containers=[container], **fields)


CLUSTER: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": {"a": "b"}}},
    *(
        documents.node(
            name,
            "8",
            pods="9",
            labels={"zone": "z"},
            allocatable={"example.com/few": "8"},
            status={"images": [{"names": ["image"], "sizeBytes": 5}]},
        )
        for name in ("n1", "n2")
    ),
    pod_of("runs", nodeName="n1"),
]


class _Writer(Plugin):
    name = "Writer"
    lookups = (Namespace,)


def at_pre_enqueue(write: Write) -> type[Plugin]:
    class Gate(_Writer, PreEnqueuePlugin):
        def pre_enqueue(self, pod: Pod) -> Status:
            write(pod)
            return SUCCESS

    return Gate


def at_pre_filter(write: Write) -> type[Plugin]:
    class PreFilter(_Writer, PreFilterPlugin):
        def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status:
            write(info, snapshot)
            return SUCCESS

    return PreFilter


def at_filter(write: Write) -> type[Plugin]:
    class Filter(_Writer, FilterPlugin):
        def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
            write(nodes)
            return None

    return Filter


def at_filter_node(write: Write) -> type[Plugin]:
    class FilterNode(_Writer, NodeFilterPlugin):
        def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
            if node.name == "n1":
                write(node)
            return SUCCESS

    return FilterNode


def at_score(write: Write) -> type[Plugin]:
    class Score(_Writer, ScorePlugin):
        def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
            write(nodes)
            return nodes.columns.pods[nodes.rows]

    return Score


def at_post_filter(write: Write) -> type[Plugin]:
    class PostFilter(_Writer, NodeFilterPlugin, PostFilterPlugin):
        def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
            return unschedulable("full")

        def post_filter(self, attempt: FailedAttempt) -> Any:
            write(attempt)

    return PostFilter


def at_reserve(write: Write) -> type[Plugin]:
    class Reserve(_Writer, ReservePlugin):
        def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
            write(info)
            return SUCCESS

        def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None: ...

    return Reserve


def adds(array: Callable[[Any], Any]) -> Write:
    """Returns a write of 1 to an array, in place."""

    def write(lent: Any) -> None:
        view = array(lent)
        view += 1

    return write


def puts(mapping: Callable[..., Any], value: object = 7) -> Write:
    """Returns a write of a new item and of one that is there, to a mapping or a list."""

    def write(*lent: Any) -> None:
        items = mapping(*lent)
        items[0 if isinstance(items, list) else next(iter(items), KEY)] = value

    return write


def sets(name: str, value: object = 7) -> Write:
    return lambda *lent: setattr(lent[0], name, value)


def calls(method: Callable[..., Any]) -> Write:
    return lambda *lent: method(*lent)


def counted(nodes: NodeView) -> Any:
    selector = Selector(nothing=False)
    return nodes.columns.counts.column(pods_selected("ns", selector))


WRITES: list[tuple[Callable[[Write], type[Plugin]], Write]] = [
    (at_pre_enqueue, puts(lambda pod: pod.metadata.labels)),
    (at_pre_enqueue, puts(lambda pod: pod.metadata.annotations)),
    (at_pre_filter, puts(lambda info, _: info.pod.metadata.labels)),
    (at_pre_filter, puts(lambda info, _: info.pod.spec.node_selector)),
    (at_pre_filter, puts(lambda info, _: info.pod.spec.overhead)),
    (at_pre_filter, puts(lambda info, _: info.pod.spec.containers[0].resources.requests)),
    (at_pre_filter, puts(lambda info, _: info.requests)),
    (at_pre_filter, sets("priority")),
    (at_pre_filter, sets("pod")),
    (at_pre_filter, puts(lambda _, shot: shot.objects.get(Namespace, "ns").metadata.labels)),
    (at_pre_filter, puts(lambda _, shot: shot.objects.within(Namespace))),
    (at_pre_filter, puts(lambda _, shot: shot.columns.row_of)),
    (at_pre_filter, puts(lambda _, shot: shot.columns.names)),
    (at_pre_filter, puts(lambda _, shot: shot.columns.nodes)),
    (at_pre_filter, puts(lambda _, shot: shot.columns.infos)),
    (at_pre_filter, calls(lambda _, shot: shot.columns.names.append("n"))),
    (at_pre_filter, calls(lambda _, shot: shot.columns.infos.clear())),
    (at_filter, adds(lambda nodes: nodes.columns.requested("cpu"))),
    (at_filter, adds(lambda nodes: nodes.columns.allocatable("memory"))),
    (at_filter, adds(lambda nodes: nodes.columns.allocatable("example.com/few"))),
    (at_filter, adds(lambda nodes: nodes.columns.allocatable("example.com/nobody"))),
    (at_score, adds(lambda nodes: nodes.columns.pods)),
    (at_score, adds(lambda nodes: nodes.columns.nonzero)),
    (at_score, adds(lambda nodes: nodes.columns.taints)),
    (at_score, adds(lambda nodes: nodes.columns.order)),
    (at_score, adds(lambda nodes: nodes.columns.position)),
    (at_score, adds(lambda nodes: nodes.columns.label("zone").codes)),
    (at_score, adds(lambda nodes: nodes.columns.label("zone").numbers()[0])),
    (at_score, adds(lambda nodes: counted(nodes).by_row)),
    (at_score, adds(lambda nodes: counted(nodes).by_domain(nodes.columns.label("zone")).sums)),
    (at_filter, puts(lambda nodes: nodes.columns.unschedulable)),
    (at_filter, puts(lambda nodes: nodes.columns.label("zone").values)),
    (at_filter, puts(lambda nodes: nodes.columns.taint_classes)),
    (at_filter, puts(lambda nodes: nodes.columns.labels)),
    (at_filter, puts(lambda nodes: nodes.columns.images)),
    (at_filter, puts(lambda nodes: nodes.columns.images["image"].present)),
    (at_filter, puts(lambda nodes: nodes.columns.ports)),
    (at_filter, puts(lambda nodes: nodes.columns.ports["TCP", 80])),
    (at_filter_node, puts(lambda node: node.labels)),
    (at_filter_node, puts(lambda node: node.node.status.allocatable)),
    (at_filter_node, puts(lambda node: node.allocatable)),
    (at_filter_node, puts(lambda node: node.requested)),
    (at_filter_node, puts(lambda node: node.pods)),
    (at_filter_node, puts(lambda node: node.ports)),
    (at_filter_node, puts(lambda node: node.ports["TCP", 80])),
    (at_filter_node, calls(lambda node: node.pods.pop("ns/runs"))),
    (at_filter_node, calls(lambda node: node.requested.update(cpu=1))),
    (at_filter_node, sets("requested")),
    (at_filter_node, sets("nonzero_cpu")),
    (at_filter_node, sets("node", None)),
    (at_post_filter, adds(lambda attempt: attempt.codes)),
    (at_post_filter, puts(lambda attempt: attempt.helped)),
    (at_reserve, puts(lambda info: info.pod.metadata.annotations)),
]
POINTS: dict[Callable[[Write], type[Plugin]], str] = {
    at_pre_enqueue: "PreEnqueue",
    at_pre_filter: "PreFilter",
    at_filter: "Filter",
    at_filter_node: "Filter",
    at_score: "Score",
    at_post_filter: "PostFilter",
    at_reserve: "Reserve",
}


def accounts(snapshot: Snapshot) -> list[object]:
    """Returns what the scheduler counts, in a form that later writes do not change."""
    columns = snapshot.columns
    infos = [info for info in columns.infos if info is not None]
    for info in infos:
        info.validate()
    columns.counts.validate()
    return [
        *(columns.requested(name).tolist() for name in ("cpu", "example.com/few")),
        *(columns.allocatable(name).tolist() for name in ("cpu", "example.com/few")),
        columns.pods.tolist(),
        columns.order.tolist(),
        [*columns.names],
        {**columns.row_of},
        [(info.name, {**info.labels}, {**info.allocatable}, [*info.pods]) for info in infos],
        {**snapshot.objects.within(Namespace)},
    ]


@pytest.mark.parametrize(("point", "write"), WRITES)
def test_a_write_fails_the_attempt_and_nothing_else(
    point: Callable[[Write], type[Plugin]], write: Write
) -> None:
    profile = profile_of(point(write))
    pod = decode(pod_of("p"))
    assert isinstance(pod, Pod)
    info = PodInfo(pod)
    snapshot = snapshot_of(CLUSTER)
    before, whole = accounts(snapshot), msgspec.json.encode(pod)
    message = ""
    with capture_logs() as logs:
        if point is at_pre_enqueue:
            message = profile.pre_enqueue(pod).message
        else:
            match Scheduler(Random(1)).schedule(profile, info, snapshot):
                case DecisionFailure(status):
                    message = status.message
                case Choice(node, state=state):
                    message = profile.reserve(state, info, node).message
                case other:
                    message = getattr(other, "message", "")
    (log,) = logs
    assert (log["event"], log["plugin"], log["pod"]) == ("plugin failed", "Writer", "ns/p")
    assert log["point"] == POINTS[point]
    assert "Writer" in message
    assert accounts(snapshot) == before
    assert msgspec.json.encode(pod) == whole
