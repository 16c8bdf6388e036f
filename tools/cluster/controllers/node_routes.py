"""Routes changes to the controllers of nodes and of the pods on them, and collects their input.

A renewed lease and a heartbeat concern no item. Their times are noted, and a node whose kubelet may
have gone silent is looked at when its time has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from berth.actors.scheduling.kube.coordination import Lease

from ...kubernetes.nodes import condition_taints, pod_garbage
from ...kubernetes.nodes.condition_taints import (
    OF_READY,
    is_out_of_service,
    no_execute_taints,
    ready_status,
)
from ...kubernetes.nodes.node_health import LEASES, REPORTER, Health
from ...kubernetes.nodes.pod_garbage import Finished, Orphans
from ...kubernetes.nodes.taint_eviction import TaintEviction
from ...kubernetes.nodes.zones import Zones
from ...kubernetes.object_index import ObjectChange, ObjectIndex
from ...kubernetes.objects.object_events import about
from ...kubernetes.objects.properties import deleting, is_finished
from ...kubernetes.objects.structs import Node, Pod
from ...kubernetes.objects.writes import Create, Write
from ...kubernetes.work_items import Item, item_of

CONTROLLERS = (
    "node-taints",
    "node-health",
    "zones",
    "taint-eviction",
    "orphans",
    "pod-garbage",
    "finished-pods",
)
_ZONES = Item("zones", "Node", "", "")
_FINISHED = Item("finished-pods", "Pod", "", "")


class NodeControllers:
    def __init__(self) -> None:
        self._health = Health()
        self._zones = Zones()
        self._eviction = TaintEviction()
        self._orphans = Orphans()
        self._finished = Finished()
        self._events: list[Write] = []  # about nodes that have come and gone

    def shift(self, step: timedelta) -> None:
        """Moves the kept times by this step, because the time of day was set."""
        for part in (self._health, self._zones, self._eviction, self._orphans, self._finished):
            part.shift(step)

    def observe(self, cluster: ObjectIndex, change: ObjectChange, now: datetime) -> Iterator[Item]:
        """Takes note of a change. Yields the items that it may affect."""
        match change:
            case ObjectChange(before, Lease() as lease) if lease.metadata.namespace == LEASES:
                assert before is None or isinstance(before, Lease)
                if self._health.renewed(before, lease, now):
                    yield Item("node-health", "Node", "", lease.metadata.name)
            case ObjectChange(Node() as node, None):
                name = node.metadata.name
                self._health.forget(name)
                self._zones.observe(name, None)
                self._tell(node, "RemovingNode", f"Removing Node {name} from Controller", now)
                yield _ZONES
                yield Item("orphans", "Node", "", name)
            case ObjectChange(before, Node() as node):
                assert before is None or isinstance(before, Node)
                yield from self._node(cluster, before, node, now)
            case ObjectChange(Pod() as pod, None):
                yield from self._gone(pod)
            case ObjectChange(before, Pod() as pod):
                assert before is None or isinstance(before, Pod)
                yield from self._pod(cluster, before, pod)

    def renewed(self, leases: Iterable[tuple[str, str]], now: datetime) -> list[Item]:
        """Takes note of leases, by namespace and name, that were renewed. Returns the affected
        items.
        """
        names = [name for namespace, name in leases if namespace == LEASES]
        return [Item("node-health", "Node", "", name) for name in self._health.live(names, now)]

    def beaten(self, change: ObjectChange, now: datetime) -> list[Item]:
        """Takes note of the heartbeat of a node. Returns the affected items."""
        before, node = change.before, change.after
        assert isinstance(before, Node)
        assert isinstance(node, Node)
        first = self._health.observe(before, node, now)
        return [item_of("node-health", node)] if first else []

    def _node(
        self, cluster: ObjectIndex, before: Node | None, node: Node, now: datetime
    ) -> Iterator[Item]:
        name = node.metadata.name
        if before is not None and before.metadata.uid != node.metadata.uid:
            self._health.forget(name)
            before = None
        if before is None:
            self._tell(node, "RegisteredNode", f"Registered Node {name} in Controller", now)
            yield _ZONES
            yield Item("orphans", "Node", "", name)
        turned = before is None or ready_status(before) != ready_status(node)
        if self._health.observe(before, node, now) or turned:
            yield item_of("node-health", node)
        if before is None or _state(before) != _state(node):
            yield item_of("node-taints", node)
        if self._zones.observe(name, node):
            yield _ZONES
        if no_execute_taints(before) != no_execute_taints(node):
            for pod in cluster.pods_on(name):
                yield item_of("taint-eviction", pod)
        if is_out_of_service(node) and (before is None or not is_out_of_service(before)):
            for pod in cluster.pods_on(name):
                yield item_of("pod-garbage", pod)

    def _tell(self, node: Node, reason: str, what: str, now: datetime) -> None:
        message = f"Node {node.metadata.name} event: {what}"
        event = about(node, "Normal", reason, message, REPORTER, now)
        self._events.append(Create("Event", event))

    def _pod(self, cluster: ObjectIndex, before: Pod | None, pod: Pod) -> Iterator[Item]:
        if before is not None and before.metadata.uid != pod.metadata.uid:
            yield from self._gone(before)
            before = None
        name = pod.spec.node_name
        bound = bool(name) and (before is None or before.spec.node_name != name)
        node = cluster.find(Node, "", name) if name else None
        if bound and node is None:
            yield Item("orphans", "Node", "", name)
        if bound and node is not None and ready_status(node) in OF_READY:
            self._health.mark(name)
            yield item_of("node-health", node)
        if node is not None and no_execute_taints(node):
            changed = before is None or before.spec.tolerations != pod.spec.tolerations
            if bound or changed:
                yield item_of("taint-eviction", pod)
        ends = deleting(pod) and (before is None or not deleting(before))
        if ends and (not name or (node is not None and is_out_of_service(node))):
            yield item_of("pod-garbage", pod)
        finishes = is_finished(pod) and (before is None or not is_finished(before))
        if finishes and cluster.count(Pod, "finished", "True") > pod_garbage.MOST_FINISHED:
            yield _FINISHED

    def _gone(self, pod: Pod) -> Iterator[Item]:
        if self._eviction.waits(pod.metadata.namespace, pod.metadata.name):
            yield item_of("taint-eviction", pod)

    def postponed(self, item: Item, now: datetime) -> float:
        """Returns the seconds by which the due decision on an item is postponed; 0 to
        decide now.
        """
        is_health = item.controller == "node-health"
        return self._health.postponed(item.name, now) if is_health else 0.0

    def reconcile(self, cluster: ObjectIndex, item: Item, now: datetime) -> list[Write]:
        def find(name: str) -> Node | None:
            return cluster.find(Node, "", name) if name else None

        match item.controller:
            case "zones":
                if self._zones.advance(now):
                    self._health.restart(now)
                events, self._events = self._events, []
                return [*events, *self._zones.reconcile(find, now)]
            case "orphans":
                return self._orphans.reconcile(
                    item.name, find(item.name), cluster.pods_on(item.name), now
                )
            case "taint-eviction":
                pod = cluster.find(Pod, item.namespace, item.name)
                node = find(pod.spec.node_name) if pod else None
                return self._eviction.reconcile(item.namespace, item.name, pod, node, now)
            case "finished-pods":
                count = cluster.count(Pod, "finished", "True")
                return self._finished.reconcile(
                    count, lambda: cluster.by(Pod, "finished", "True"), now
                )
            case "pod-garbage":
                pod = cluster.find(Pod, item.namespace, item.name)
                return pod_garbage.reconcile(pod, find(pod.spec.node_name)) if pod else []
        node = find(item.name)
        if node is None:
            return []
        if item.controller == "node-taints":
            return condition_taints.reconcile(node, now)
        assert item.controller == "node-health"
        return self._health.reconcile(node, lambda: cluster.pods_on(item.name), now)


def _state(node: Node) -> tuple[object, ...]:
    """Returns what a node's own taints and labels depend on."""
    conditions = tuple((each.type, each.status) for each in node.status.conditions)
    return node.spec.unschedulable, node.spec.taints, node.metadata.labels, conditions


def moved(change: ObjectChange) -> bool:
    """False if the change leaves the labels and taints of a node unchanged."""
    before, after = change.before, change.after
    if not isinstance(before, Node) or not isinstance(after, Node):
        return True
    return (
        before.metadata.labels != after.metadata.labels or before.spec.taints != after.spec.taints
    )
