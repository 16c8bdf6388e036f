"""The controllers of nodes and of the pods on them: what they watch, and their input.

A renewed lease and a heartbeat concern no item. Their times are noted, and a node whose kubelet may
have gone silent is looked at when its time has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from ...kubernetes.objects.object_events import event_about
from ...kubernetes.objects.properties import deleting, is_finished
from ...kubernetes.objects.structs import Node, Pod
from ...kubernetes.objects.writes import Create, Write
from ...kubernetes.work_items import Item, item_of
from .controller import (
    Controller,
    comes_or_goes,
    condition_begins,
    controller,
    if_changed,
    itself,
    state_changes,
)

Key = tuple[str, str]
_ZONES = ("", "")  # the one item of their controller


class NodeControllers:
    """The controllers of nodes, with the state that they share. `time` returns the time of day."""

    def __init__(self, time: Callable[[], datetime]) -> None:
        self._time = time
        self._health = Health()
        self._zones = Zones()
        self._eviction = TaintEviction()
        self._orphans = Orphans()
        self._finished = Finished()
        self._events: list[Write] = []  # about nodes that have come and gone
        binds = state_changes(_node_name)
        self.rows = (
            controller(
                "node-health",
                Node,
                {
                    Lease: self._lease_changed,
                    Node: self._node_changed,
                    Pod: if_changed(binds, self._failed_node),
                },
                self._check_health,
            ),
            controller(
                "node-taints",
                Node,
                {Node: if_changed(state_changes(_state_of_node), itself)},
                lambda _, node, now: condition_taints.reconcile(node, now),
            ),
            Controller("zones", Node, {Node: self._zone_changed}, self._reconcile_zones),
            Controller(
                "orphans",
                Node,
                {Node: if_changed(comes_or_goes, itself), Pod: if_changed(binds, _missing_node)},
                self._find_orphans,
            ),
            Controller(
                "taint-eviction",
                Pod,
                {
                    Node: if_changed(state_changes(no_execute_taints), _pods_on),
                    Pod: self._tolerating_pods,
                },
                self._evict_tainted,
            ),
            controller(
                "pod-garbage",
                Pod,
                {
                    Node: if_changed(condition_begins(is_out_of_service), _pods_on),
                    Pod: if_changed(condition_begins(deleting), _without_kubelet),
                },
                lambda cluster, pod, _: pod_garbage.reconcile(pod, _node_of(cluster, pod)),
            ),
            Controller(
                "finished-pods",
                Pod,
                {Pod: if_changed(condition_begins(is_finished), _too_many_finished)},
                self._delete_finished,
            ),
        )

    def shift(self, step: timedelta) -> None:
        """Shifts the kept times by this step, after the time of day was set."""
        for part in (self._health, self._zones, self._eviction, self._orphans, self._finished):
            part.shift(step)

    def renewed(self, leases: Iterable[Key], now: datetime) -> list[Item]:
        """Handles renewed leases, given by namespace and name. Returns the affected items."""
        names = [name for namespace, name in leases if namespace == LEASES]
        return [Item("node-health", "Node", "", name) for name in self._health.live(names, now)]

    def heartbeat_of(self, change: ObjectChange, now: datetime) -> list[Item]:
        """Handles the heartbeat of a node. Returns the affected items."""
        before, node = change.before, change.after
        assert isinstance(before, Node)
        assert isinstance(node, Node)
        first = self._health.observe(before, node, now)
        return [item_of("node-health", node)] if first else []

    def postponed(self, item: Item, now: datetime) -> float:
        """Returns the seconds by which the due decision on an item is postponed; 0 to
        decide now.
        """
        is_health = item.controller == "node-health"
        return self._health.postponed(item.name, now) if is_health else 0.0

    def _lease_changed(
        self, _: ObjectIndex, before: Lease | None, lease: Lease | None
    ) -> Iterator[Key]:
        if lease is None or lease.metadata.namespace != LEASES:
            return
        if self._health.renewed(before, lease, self._time()):
            yield "", lease.metadata.name

    def _node_changed(
        self, _: ObjectIndex, before: Node | None, node: Node | None
    ) -> Iterator[Node]:
        if node is None:
            assert before is not None
            self._health.forget(before.metadata.name)
        elif self._health.observe(before, node, self._time()) or (
            before is None or ready_status(before) != ready_status(node)
        ):
            yield node

    def _failed_node(self, cluster: ObjectIndex, pod: Pod) -> Iterator[Node]:
        """Yields the node of a pod that was just bound there, if the node is not ready."""
        node = _node_of(cluster, pod)
        if node is not None and ready_status(node) in OF_READY:
            self._health.mark(node.metadata.name)
            yield node

    def _zone_changed(
        self, _: ObjectIndex, before: Node | None, node: Node | None
    ) -> Iterator[Key]:
        either = node or before
        assert either is not None
        name = either.metadata.name
        if comes_or_goes(before, node):
            reason, verb = (
                ("RegisteredNode", "Registered") if node else ("RemovingNode", "Removing")
            )
            message = f"Node {name} event: {verb} Node {name} {'in' if node else 'from'} Controller"
            event = event_about(either, "Normal", reason, message, REPORTER, self._time())
            self._events.append(Create("Event", event))
        if self._zones.observe(name, node) or comes_or_goes(before, node):
            yield _ZONES

    def _tolerating_pods(
        self, cluster: ObjectIndex, before: Pod | None, pod: Pod | None
    ) -> Iterator[Pod]:
        if pod is None:
            assert before is not None
            if self._eviction.waits(before.metadata.namespace, before.metadata.name):
                yield before
        elif no_execute_taints(_node_of(cluster, pod)) and (
            before is None
            or before.spec.node_name != pod.spec.node_name
            or before.spec.tolerations != pod.spec.tolerations
        ):
            yield pod

    def _check_health(self, cluster: ObjectIndex, node: Node, now: datetime) -> list[Write]:
        return self._health.reconcile(node, lambda: cluster.pods_on(node.metadata.name), now)

    def _reconcile_zones(self, cluster: ObjectIndex, _item: Item, now: datetime) -> list[Write]:
        if self._zones.advance(now):
            self._health.restart(now)
        events, self._events = self._events, []
        return [
            *events,
            *self._zones.reconcile(lambda name: cluster.find(Node, "", name), now),
        ]

    def _find_orphans(self, cluster: ObjectIndex, item: Item, now: datetime) -> list[Write]:
        node = cluster.find(Node, "", item.name)
        return self._orphans.reconcile(item.name, node, cluster.pods_on(item.name), now)

    def _evict_tainted(self, cluster: ObjectIndex, item: Item, now: datetime) -> list[Write]:
        pod = cluster.find(Pod, item.namespace, item.name)
        node = _node_of(cluster, pod)
        return self._eviction.reconcile(item.namespace, item.name, pod, node, now)

    def _delete_finished(self, cluster: ObjectIndex, _item: Item, now: datetime) -> list[Write]:
        count = cluster.count(Pod, "finished", "True")
        return self._finished.reconcile(count, lambda: cluster.by(Pod, "finished", "True"), now)


def _node_name(pod: Pod | None) -> str:
    return pod.spec.node_name if pod else ""


def _node_of(cluster: ObjectIndex, pod: Pod | None) -> Node | None:
    return cluster.find(Node, "", _node_name(pod)) if _node_name(pod) else None


def _missing_node(cluster: ObjectIndex, pod: Pod) -> Iterator[Key]:
    if pod.spec.node_name and _node_of(cluster, pod) is None:
        yield "", pod.spec.node_name


def _pods_on(cluster: ObjectIndex, node: Node) -> list[Pod]:
    return cluster.pods_on(node.metadata.name)


def _without_kubelet(cluster: ObjectIndex, pod: Pod) -> Iterator[Pod]:
    """Yields a pod that no kubelet would end."""
    node = _node_of(cluster, pod)
    if not pod.spec.node_name or (node is not None and is_out_of_service(node)):
        yield pod


def _too_many_finished(cluster: ObjectIndex, _pod: Pod) -> Iterator[Key]:
    if cluster.count(Pod, "finished", "True") > pod_garbage.MOST_FINISHED:
        yield "", ""


def _state_of_node(node: Node | None) -> tuple[object, ...]:
    """Returns what a node's own taints and labels depend on."""
    if node is None:
        return ()
    conditions = tuple((each.type, each.status) for each in node.status.conditions)
    return node.spec.unschedulable, node.spec.taints, node.metadata.labels, conditions
