"""The plugins that new packages begin with, one for each extension point.

They are the recipes of docs/plugins.md too. `berth plugin new` writes the source of one of these
classes under the name of the new plugin, so each stands alone: it uses `berth.plugin`, and nothing
of this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from berth.plugin import (
    SKIP,
    SUCCESS,
    Action,
    BindPlugin,
    ClusterEvent,
    Code,
    CycleState,
    FailedAttempt,
    Handle,
    Hint,
    Node,
    NodeFilterPlugin,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    Patch,
    PermitPlugin,
    Plugin,
    PluginScope,
    Pod,
    PodInfo,
    PostBindPlugin,
    PostFiltered,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    Registration,
    ReservePlugin,
    Resource,
    Snapshot,
    StateKey,
    Status,
    error,
    unresolvable,
    unschedulable,
)


class Approved(PreEnqueuePlugin):
    """Keeps a pod out of the queue until somebody approves it by an annotation."""

    name = "Approved"

    def pre_enqueue(self, pod: Pod) -> Status:
        if pod.metadata.annotations.get("example.com/approved") == "true":
            return SUCCESS
        return unresolvable("the pod is not approved")


class SmallFirst(QueueSortPlugin):
    """Tries small pods before large ones of the same priority."""

    name = "SmallFirst"

    def sort_key(self, info: PodInfo, enqueued_at: float) -> tuple[int, int, float]:
        return -info.priority, info.requests.get("cpu", 0), enqueued_at


class Listed(PreFilterPlugin):
    """Restricts a pod to the nodes that its annotation lists."""

    name = "Listed"

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        listed = info.pod.metadata.annotations.get("example.com/nodes")
        return PreFilterResult(frozenset(listed.split(","))) if listed else SKIP


class Few(NodeFilterPlugin):
    """Lets a node run two pods of an application at most."""

    name = "Few"

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        own = info.pod.metadata
        others = [pod.pod.metadata for pod in node.pods.values()]
        same = [
            other
            for other in others
            if other.namespace == own.namespace
            and other.labels.get("app") == own.labels.get("app") is not None
        ]
        return SUCCESS if len(same) < 2 else unschedulable("node(s) had two pods of the app")


class InService(NodeFilterPlugin):
    """Keeps pods off nodes in maintenance; a node that comes out of it wakes them."""

    name = "InService"

    def filter_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> Status:
        if "example.com/maintenance" in node.labels:
            return unresolvable("node(s) were in maintenance")
        return SUCCESS

    def events_to_register(self) -> Sequence[Registration]:
        event = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (Registration(event, self.serves),)

    def serves(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        serves = isinstance(new, Node) and "example.com/maintenance" not in new.metadata.labels
        return Hint.QUEUE if serves else Hint.SKIP


class Asking(PostFilterPlugin):
    """Asks for a node by an annotation of the pod that fits on none."""

    name = "Asking"

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        pod, status = attempt.info.pod.metadata, unschedulable("a node was asked for")
        if "example.com/asks" in pod.annotations:
            return PostFiltered(status)
        changes = {"metadata": {"annotations": {"example.com/asks": "node"}}}
        return PostFiltered(status, patches=(Patch(Pod, pod.name, changes, pod.namespace),))


class Even(PreScorePlugin, NodeScorePlugin):
    """Prefers the zones with few pods: counts them once, for the scores of all nodes."""

    name = "Even"
    counts: StateKey[Counter[str]] = StateKey("Even")

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        counts = Counter[str]()
        for node in filter(None, map(nodes.info, range(nodes.size))):
            counts[node.labels.get("topology.kubernetes.io/zone", "")] += len(node.pods)
        state.write(self.counts, counts)
        return SUCCESS

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        counts = state.read(self.counts)
        zone = node.labels.get("topology.kubernetes.io/zone", "")
        return 100 - 100 * counts[zone] // max(counts.total(), 1)


class Near(NodeScorePlugin):
    """Prefers the nodes of a zone."""

    name = "Near"

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 100 if node.labels.get("topology.kubernetes.io/zone") == "zone-a" else 0


class Quiet(NodeScorePlugin):
    """Prefers nodes with few pods: the fullest one has the score 0."""

    name = "Quiet"

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return len(node.pods)

    def normalize_scores(self, state: CycleState, info: PodInfo, scores: list[int]) -> list[int]:
        return [100 - 100 * score // max(*scores, 1) for score in scores]


class Seats(ReservePlugin):
    """Lets two pods with the label example.com/seat=yes run at a time."""

    name = "Seats"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self.taken: set[str] = set()

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        seat = {"example.com/seat": "yes"}
        if not seat.items() <= info.pod.metadata.labels.items():
            return SUCCESS
        pods = self.handle.objects.select(Pod, labels=seat)
        bound = {pod.metadata.uid for pod in pods if pod.spec.node_name}
        self.taken = bound | self.taken & {pod.metadata.uid for pod in pods}
        if len(self.taken) >= 2:
            return unschedulable("no seat is free")
        self.taken.add(info.pod.metadata.uid)
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.taken.discard(info.pod.metadata.uid)


class Paced(PermitPlugin):
    """Lets one pod a second be bound; the others wait on their nodes."""

    name = "Paced"

    async def start(self, scope: PluginScope) -> None:
        scope.every(1, self.allow_one)

    async def allow_one(self) -> None:
        for waiting in self.handle.waiting.each()[:1]:
            self.handle.allow(waiting.info)

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        return Status(Code.WAIT), 300.0


class Placed(PreBindPlugin):
    """Writes the zone of the chosen node into the pod before it is bound."""

    name = "Placed"

    async def pre_bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        chosen = self.handle.objects.get(Node, node)
        if chosen is None:
            return error(f'node "{node}" not found')
        zone = chosen.metadata.labels.get("topology.kubernetes.io/zone", "")
        changes = {"metadata": {"annotations": {"example.com/zone": zone}}}
        pod = info.pod.metadata
        answer = await self.handle.api.patch(Pod, pod.name, changes, pod.namespace)
        return answer if isinstance(answer, Status) else SUCCESS


class Announced(BindPlugin):
    """Binds pods as the default plugin does, and tells it in an event about the pod."""

    name = "Announced"

    async def bind(self, state: CycleState, info: PodInfo, node: str) -> Status:
        pod = info.pod.metadata
        status = await self.handle.api.bind(pod.namespace, pod.name, pod.uid, node)
        if status.ok:
            self.handle.event(info, "Announced", f"{pod.name} runs on {node}")
        return status


class Counted(PostBindPlugin):
    """Counts the pods that are bound, by namespace, on /metrics."""

    name = "Counted"

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__(args, handle)
        self.bound = handle.metrics.counter("counted_pods_total", "Bound pods.", ["namespace"])

    def post_bind(self, state: CycleState, info: PodInfo, node: str) -> None:
        self.bound.inc(info.pod.metadata.namespace)


KINDS: dict[str, type[Plugin]] = {
    "pre-enqueue": Approved,
    "queue-sort": SmallFirst,
    "pre-filter": Listed,
    "filter": Few,
    "hints": InService,
    "post-filter": Asking,
    "pre-score": Even,
    "score": Near,
    "normalize-score": Quiet,
    "reserve": Seats,
    "permit": Paced,
    "pre-bind": Placed,
    "bind": Announced,
    "post-bind": Counted,
}
