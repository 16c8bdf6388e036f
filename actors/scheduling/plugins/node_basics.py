"""The small plugins: SchedulingGates, PrioritySort, NodeUnschedulable, NodeName and NodePorts.

They mirror kube-scheduler's plugins of the same names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.plugin import (
    SKIP,
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Hint,
    Node,
    NodeView,
    Pod,
    PodInfo,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    QueueSortPlugin,
    Registration,
    Resource,
    Snapshot,
    StateKey,
    Status,
    Verdicts,
    unresolvable,
)

from ..kube.core import Taint
from ..kube.taints import tolerates_any
from ..model.pod_info import LatestPodInfos
from ..model.pod_template import WILDCARD_IP, HostPort

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class SchedulingGates(PreEnqueuePlugin):
    """Keeps a pod with scheduling gates out of the active queue."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status:
        if not pod.spec.scheduling_gates:
            return SUCCESS
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return unresolvable(f"waiting for scheduling gates: [{gates}]")

    def events_to_register(self) -> Sequence[Registration]:
        def gates_gone(pod: Pod, _old: object | None, new: object | None) -> Hint:
            assert isinstance(new, Pod)
            if new.metadata.uid != pod.metadata.uid:
                return Hint.SKIP
            return Hint.SKIP if new.spec.scheduling_gates else Hint.QUEUE

        event = ClusterEvent(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (Registration(event, gates_gone),)


class PrioritySort(QueueSortPlugin):
    """Sorts pods by priority, higher first, then by the time they entered the queue."""

    name = "PrioritySort"

    def sort_key(self, info: PodInfo, enqueued_at: float) -> tuple[float, ...]:
        return (-info.priority, enqueued_at)


class NodeUnschedulable(FilterPlugin):
    """Rejects cordoned nodes, unless the pod tolerates the taint of cordoned nodes."""

    name = "NodeUnschedulable"
    depends_on = DependsOn.NODE

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        cordoned = nodes.columns.unschedulable[nodes.rows]
        if not cordoned.any() or info.template.tolerations.tolerate(UNSCHEDULABLE_TAINT):
            return None
        return Verdicts.rejecting(
            cordoned, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) were unschedulable"
        )

    def events_to_register(self) -> Sequence[Registration]:
        def uncordoned(_pod: Pod, old: object | None, new: object | None) -> Hint:
            assert isinstance(new, Node)
            if new.spec.unschedulable:
                return Hint.SKIP
            was = old.spec.unschedulable if isinstance(old, Node) else True
            return Hint.QUEUE if was else Hint.SKIP

        def tolerated(pod: Pod, _old: object | None, new: object | None) -> Hint:
            assert isinstance(new, Pod)
            if new.metadata.uid != pod.metadata.uid:
                return Hint.SKIP
            return (
                Hint.QUEUE
                if tolerates_any(new.spec.tolerations, UNSCHEDULABLE_TAINT)
                else Hint.SKIP
            )

        return (
            Registration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), uncordoned
            ),
            Registration(ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION), tolerated),
        )


class NodeName(FilterPlugin):
    """Rejects every node except the one that the pod's spec names, if it names one."""

    name = "NodeName"
    depends_on = DependsOn.NODE

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        node_name = info.pod.spec.node_name
        if not node_name:
            return None
        row = nodes.columns.row_of.get(node_name, -1)
        elsewhere = np.arange(nodes.columns.size)[nodes.rows] != row
        return Verdicts.rejecting(
            elsewhere,
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "node(s) didn't match the requested node name",
        )

    def events_to_register(self) -> Sequence[Registration]:
        def named(pod: Pod, _old: object | None, new: object | None) -> Hint:
            node_name = pod.spec.node_name
            assert isinstance(new, Node)
            return Hint.QUEUE if node_name in ("", new.metadata.name) else Hint.SKIP

        return (Registration(ClusterEvent(Resource.NODE, Action.ADD), named),)


_PORTS: StateKey[tuple[HostPort, ...]] = StateKey("PreFilterNodePorts")


class NodePorts(PreFilterPlugin, FilterPlugin):
    """Rejects nodes on which another pod uses a host port that the pod requests."""

    name = "NodePorts"
    depends_on = DependsOn.NODE_AND_PODS
    only_own_values = True

    def pre_filter(
        self,
        state: CycleState,
        info: PodInfo,
        snapshot: Snapshot,
    ) -> Status | PreFilterResult:
        if not info.template.host_ports:
            return SKIP
        state.write(_PORTS, info.template.host_ports)
        return SUCCESS

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Verdicts | None:
        in_use = np.zeros(len(nodes.columns.pods), dtype=np.bool_)
        for port in state.read(_PORTS):
            for ip, users in nodes.columns.ports.get((port.protocol, port.port), {}).items():
                if _conflicts(port, ip):
                    users.mark(in_use)
        return Verdicts.rejecting(
            in_use[nodes.rows],
            Code.UNSCHEDULABLE,
            "node(s) didn't have free ports for the requested pod ports",
        )

    def events_to_register(self) -> Sequence[Registration]:
        infos = LatestPodInfos()

        def freed(pod: Pod, old: object | None, _new: object | None) -> Hint:
            assert isinstance(old, Pod)
            if not old.spec.node_name and not old.status.nominated_node_name:
                return Hint.SKIP
            requested: dict[tuple[str, int], list[HostPort]] = {}
            for port in infos.of(pod).template.host_ports:
                requested.setdefault((port.protocol, port.port), []).append(port)
            conflicted = any(
                _conflicts(port, released.ip)
                for released in infos.of(old).template.host_ports
                for port in requested.get((released.protocol, released.port), ())
            )
            return Hint.QUEUE if conflicted else Hint.SKIP

        return (
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), freed),
            Registration(ClusterEvent(Resource.NODE, Action.ADD)),
        )


def _conflicts(port: HostPort, ip: str) -> bool:
    return port.ip == ip or WILDCARD_IP in (port.ip, ip)
