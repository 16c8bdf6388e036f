"""The health of nodes: the conditions of one with a silent kubelet become Unknown, its pods
unready.

Mirrors the health monitor of Kubernetes' node lifecycle controller. The signs of life of a node are
renewals of its lease in LEASES, and heartbeats in its condition Ready. A node that has never given
one is not monitored, for example a node from a file in a cluster without kubelets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from math import ceil

from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.times import rfc3339

from ..objects.documents import documents_of, status_of, with_condition
from ..objects.object_events import Reporter, event_about
from ..objects.properties import condition_of
from ..objects.structs import Document, Node, NodeCondition, Pod
from ..objects.writes import Again, Create, Write, patch, status_writes
from .condition_taints import OF_READY, ready_status

LEASES = "kube-node-lease"
GRACE_SECONDS = 50.0
STARTUP_SECONDS = 60.0
MONITOR_SECONDS = 5.0  # nodes are looked at this often, all at the same times
REPORTER = Reporter("node-controller")
# The conditions that kubelets write. The network's is written by others.
_KUBELETS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class Health:
    """The times at which the nodes last gave a sign of life, by the clock of this controller."""

    def __init__(self) -> None:
        self._seen: dict[str, datetime] = {}
        self._silenced: set[str] = set()  # nodes that were ready before they became Unknown
        self._unmarked: set[str] = set()  # nodes whose pods are to be marked unready

    def renewed(self, before: Lease | None, lease: Lease, now: datetime) -> bool:
        """Handles a renewed lease. Returns True if it is the first sign of life of its node."""
        name, time = lease.metadata.name, lease.spec.renew_time or ""
        if before is not None and time == (before.spec.renew_time or ""):
            return False
        first = name not in self._seen
        self._seen[name] = now
        return first

    def live(self, names: Sequence[str], now: datetime) -> list[str]:
        """Handles signs of life of nodes. Returns the nodes for which it was the first."""
        first = [name for name in names if name not in self._seen]
        self._seen.update(dict.fromkeys(names, now))
        return first

    def observe(self, before: Node | None, after: Node, now: datetime) -> bool:
        """Handles a version of a node. Returns True if it is the node's first sign of life.

        The first heartbeat may come from a file; a different heartbeat comes from a kubelet.
        """
        name, earlier = after.metadata.name, _heartbeat(before) if before else ""
        first = name not in self._seen
        if earlier == _heartbeat(after) or (first and not earlier):
            return False
        self._seen[name] = now
        return first

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)
        self._silenced.discard(name)
        self._unmarked.discard(name)

    def shift(self, step: timedelta) -> None:
        self._seen = {name: seen + step for name, seen in self._seen.items()}

    def restart(self, now: datetime) -> None:
        """Gives all nodes a new period of grace."""
        self._seen = dict.fromkeys(self._seen, now)

    def mark(self, name: str) -> None:
        """Marks a node whose pods have to be made unready if it is unready."""
        self._unmarked.add(name)

    def postponed(self, name: str, now: datetime) -> float:
        """Returns the seconds by which the decision on a node is postponed; 0 to decide now.

        A sign of life since the last decision postpones it.
        """
        seen = self._seen.get(name)
        if seen is None or name in self._silenced or name in self._unmarked:
            return 0.0
        left = GRACE_SECONDS - (now - seen).total_seconds()
        return _until_monitored(left, now) if left > 0 else 0.0

    def reconcile(
        self, node: Node, pods: Callable[[], Sequence[Pod]], now: datetime
    ) -> list[Write]:
        """Decides on a node. `pods` returns the pods on it, and is called only if the node is
        silent.
        """
        name, status = node.metadata.name, ready_status(node)
        writes = self._writes_for_pods(node, pods, now)
        seen = self._seen.get(name)
        if seen is None:
            return writes
        left = (GRACE_SECONDS if status else STARTUP_SECONDS) - (now - seen).total_seconds()
        if left > 0:
            return [*writes, Again(_until_monitored(left, now))]
        if status == "Unknown":
            return writes
        if status == "True":
            self._silenced.add(name)
        conditions = {"conditions": unknown_conditions(node, now)}
        return [patch(node, {"status": conditions}, "status", guarded=True)]

    def _writes_for_pods(
        self, node: Node, pods: Callable[[], Sequence[Pod]], now: datetime
    ) -> list[Write]:
        """Returns the writes for the pods of a node that became Unknown or not ready."""
        name, status = node.metadata.name, ready_status(node)
        events: list[Write] = []
        if name in self._silenced and status == "Unknown":
            self._silenced.discard(name)
            self._unmarked.add(name)
            message = f"Node {name} status is now: NodeNotReady"
            event = event_about(node, "Normal", "NodeNotReady", message, REPORTER, now)
            events.append(Create("Event", event))
        if name not in self._unmarked:
            return events
        ready = [pod for pod in pods() if _may_be_ready(pod)] if status in OF_READY else []
        if not ready:
            self._unmarked.discard(name)
        for pod in ready:
            event = event_about(pod, "Warning", "NodeNotReady", "Node is not ready", REPORTER, now)
            events.append(Create("Event", event))
        return [*(write for pod in ready for write in unready_condition(pod, now)), *events]


def _until_monitored(left: float, now: datetime) -> float:
    """Returns the seconds until the next look at nodes that is at least `left` seconds away."""
    seconds = now.timestamp()
    return ceil((seconds + left) / MONITOR_SECONDS) * MONITOR_SECONDS - seconds


def unknown_conditions(node: Node, now: datetime) -> list[Document]:
    """Returns the conditions of a node whose kubelet is silent."""
    conditions = [
        condition if condition.type not in _KUBELETS else _lost_heartbeat(condition, now)
        for condition in node.status.conditions
    ]
    present = {condition.type for condition in conditions}
    return documents_of(
        [
            *conditions,
            *(
                NodeCondition(
                    type=kind,
                    status="Unknown",
                    reason="NodeStatusNeverUpdated",
                    message="Kubelet never posted node status.",
                    last_heartbeat_time=node.metadata.creation_timestamp,
                    last_transition_time=rfc3339(now),
                )
                for kind in _KUBELETS
                if kind not in present
            ),
        ]
    )


def _lost_heartbeat(condition: NodeCondition, now: datetime) -> NodeCondition:
    if condition.status == "Unknown":
        return condition
    return NodeCondition(
        type=condition.type,
        status="Unknown",
        reason="NodeStatusUnknown",
        message="Kubelet stopped posting node status.",
        last_heartbeat_time=condition.last_heartbeat_time,
        last_transition_time=rfc3339(now),
    )


def unready_condition(pod: Pod, now: datetime) -> list[Write]:
    """Sets the condition Ready of a pod to False. Its reason stays."""
    ready = condition_of(pod.status.conditions, "Ready")
    assert ready is not None
    conditions = with_condition(
        pod.status.conditions, "Ready", False, ready.reason, ready.message, now
    )
    return status_writes(pod, {**status_of(pod), "conditions": conditions})


def _may_be_ready(pod: Pod) -> bool:
    ready = condition_of(pod.status.conditions, "Ready")
    return ready is not None and ready.status != "False"


def _heartbeat(node: Node) -> str:
    ready = condition_of(node.status.conditions, "Ready")
    return (ready and ready.last_heartbeat_time) or ""
