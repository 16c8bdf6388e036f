"""Who is told of a change: pending pods go to the queue, assigned ones and nodes to the cache, all as events. Pure."""

from __future__ import annotations

from collections.abc import Set

from actors.framework.events import Action, ClusterEvent, Resource
from actors.informer.state import Change
from actors.kube.core import Node, Pod
from actors.kube.meta import HasMetadata, key
from actors.messages import (
    AssignedPodAdded,
    AssignedPodDeleted,
    AssignedPodUpdated,
    CacheMessage,
    ClusterChanged,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Nominate,
    ObjectPut,
    ObjectRemoved,
    PendingPodAdded,
    PendingPodDeleted,
    PendingPodUpdated,
    QueueMessage,
    Unnominate,
)
from actors.model.pod_info import PodInfo

Told = tuple[list[CacheMessage], list[QueueMessage]]
OVER = ("Succeeded", "Failed")


def route_pod(change: Change[Pod], schedulers: Set[str]) -> Told:
    """`schedulers` are the names that we answer to. A pod that is over is gone to the scheduler."""
    cache: list[CacheMessage] = []
    queue: list[QueueMessage] = []
    nominated = _nomination(change.new, schedulers)
    if nominated is not None:
        cache.append(nominated)
    elif _nomination(change.old, schedulers) is not None and change.old is not None:
        cache.append(Unnominate(key(change.old)))
    old = change.old if change.old is not None and change.old.status.phase not in OVER else None
    new = change.new if change.new is not None and change.new.status.phase not in OVER else None
    old_node, new_node = old is not None and bool(old.spec.node_name), new is not None and bool(new.spec.node_name)
    if old is not None and not old_node and (new is None or new_node):
        queue.append(PendingPodDeleted(old))
    if new is not None and not new_node and new.spec.scheduler_name in schedulers:
        queue.append(PendingPodUpdated(old, new) if old is not None and not old_node else PendingPodAdded(new))
    if old is not None and new is not None and old_node and new_node:
        cache.append(AssignedPodUpdated(old, new))
        queue.append(ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, _pod_update(old, new)), old, new))
    elif new is not None and new_node:
        cache.append(AssignedPodAdded(new))
        queue.append(ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, Action.ADD), None, new))
    elif old is not None and old_node:
        cache.append(AssignedPodDeleted(old))
        queue.append(ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), old, None))
    return cache, queue


def _nomination(pod: Pod | None, schedulers: Set[str]) -> Nominate | None:
    """What the pod's status says of the node that it is promised, while it is pending and ours."""
    if pod is None or pod.spec.node_name or pod.status.phase in OVER or pod.spec.scheduler_name not in schedulers:
        return None
    node = pod.status.nominated_node_name
    return Nominate(PodInfo(pod), node) if node else None


def route_object(change: Change[HasMetadata]) -> Told:
    """What plugins look up goes to the cache; no parked pod waits for it."""
    if change.new is not None:
        return [ObjectPut(change.new)], []
    return ([ObjectRemoved(change.old)] if change.old is not None else []), []


def route_node(change: Change[Node]) -> Told:
    match change:
        case Change(None, Node() as new):
            return [NodeAdded(new)], [ClusterChanged(ClusterEvent(Resource.NODE, Action.ADD), None, new)]
        case Change(Node() as old, Node() as new):
            action = _node_update(old, new)
            happened = [ClusterChanged(ClusterEvent(Resource.NODE, action), old, new)] if action else []
            return [NodeUpdated(old, new)], list[QueueMessage](happened)
        case Change(Node() as old, None):
            return [NodeDeleted(old)], [ClusterChanged(ClusterEvent(Resource.NODE, Action.DELETE), old, None)]
        case _:
            return [], []


def _node_update(old: Node, new: Node) -> Action:
    action = Action(0)
    if old.status.allocatable != new.status.allocatable:
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        action |= Action.UPDATE_NODE_LABEL
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        action |= Action.UPDATE_NODE_TAINT
    if {(c.type, c.status) for c in old.status.conditions} != {(c.type, c.status) for c in new.status.conditions}:
        action |= Action.UPDATE_NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        action |= Action.UPDATE_NODE_ANNOTATION
    if old.status.declared_features != new.status.declared_features:
        action |= Action.UPDATE_NODE_DECLARED_FEATURE
    return action


def _pod_update(old: Pod, new: Pod) -> Action:
    action = Action(0)
    if old.metadata.labels != new.metadata.labels:
        action |= Action.UPDATE_POD_LABEL
    before, after = PodInfo(old).requests, PodInfo(new).requests
    if any(amount > after.get(name, 0) for name, amount in before.items()):
        action |= Action.UPDATE_POD_SCALE_DOWN
    return action or Action.UPDATE_OTHER
