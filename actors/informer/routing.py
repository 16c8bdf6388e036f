"""The routes of changes: a pending pod to the queue, an assigned pod or a node to the cache, and
every change to the queue as cluster events. Pure.
"""

from __future__ import annotations

from collections.abc import Set

from ..messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    AssignedPodUpdated,
    AssumedPodDeleted,
    CacheMessage,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    ObjectPut,
    ObjectRemoved,
)
from ..messages.queue import (
    ClusterChanged,
    PendingPodAdded,
    PendingPodUpdated,
    PodNoLongerPending,
    QueueMessage,
)
from ..scheduling.framework.changes import node_changes, pod_changes
from ..scheduling.framework.events import Action, ClusterEvent, Resource
from ..scheduling.kube.core import FINISHED, Node, Pod
from ..scheduling.kube.meta import HasMetadata
from ..scheduling.model.stale_node import StaleNode
from .state import Change

# The messages for the cache, and those for the queue.
Routed = tuple[list[CacheMessage], list[QueueMessage]]

_ASSIGNED_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
_ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
_ASSIGNED_POD_CHANGED = {action: ClusterEvent(Resource.ASSIGNED_POD, action) for action in Action}
_NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
_NODE_CHANGED = {action: ClusterEvent(Resource.NODE, action) for action in Action}


def is_pending(pod: Pod) -> bool:
    """True for a pod that waits for a node. A finished pod counts as gone."""
    return not pod.spec.node_name and pod.status.phase not in FINISHED


def route_pod(change: Change[Pod], schedulers: Set[str]) -> Routed:
    """Routes a pod by its places before and after: gone, without a node, or on a node.

    `schedulers` are the names that we answer to. A finished pod counts as gone.
    """
    old = change.old if change.old is not None and change.old.status.phase not in FINISHED else None
    new = change.new if change.new is not None and change.new.status.phase not in FINISHED else None
    if old is None:
        if new is None:
            return [], []
        if not new.spec.node_name:
            return [], _route_added(new, schedulers)
        return [AssignedPodAdded(new)], [ClusterChanged(_ASSIGNED_POD_ADD, None, new)]
    if not old.spec.node_name:
        if new is None:
            gone = _nomination_gone(old, None, schedulers)
            return [AssumedPodDeleted(old)], [PodNoLongerPending(old), *gone]
        if not new.spec.node_name:
            return _route_pending_update(old, new, schedulers)
        event = ClusterChanged(_ASSIGNED_POD_ADD, None, new)
        return [AssignedPodAdded(new)], [PodNoLongerPending(old), event]
    if new is None:
        return [AssignedPodDeleted(old)], [ClusterChanged(_ASSIGNED_POD_DELETE, old, None)]
    if not new.spec.node_name:
        event = ClusterChanged(_ASSIGNED_POD_DELETE, old, None)
        return [AssignedPodDeleted(old)], [*_route_added(new, schedulers), event]
    return [AssignedPodUpdated(old, new)], [
        ClusterChanged(_ASSIGNED_POD_CHANGED[action], old, new) for action in pod_changes(old, new)
    ]


def _route_added(new: Pod, schedulers: Set[str]) -> list[QueueMessage]:
    return [PendingPodAdded(new)] if new.spec.scheduler_name in schedulers else []


def _route_pending_update(old: Pod, new: Pod, schedulers: Set[str]) -> Routed:
    ours = new.spec.scheduler_name in schedulers
    queue: list[QueueMessage] = [PendingPodUpdated(old, new)] if ours else []
    never_bound = new.metadata.deletion_timestamp is not None
    gone = _nomination_gone(old, new, schedulers)
    return [AssumedPodDeleted(old)] if never_bound else [], queue + gone


def _nomination_gone(old: Pod, new: Pod | None, schedulers: Set[str]) -> list[QueueMessage]:
    """Returns the event at the end of a nomination, which helps the pods that left room for it."""
    node = old.status.nominated_node_name
    if not node or (new is not None and new.status.nominated_node_name == node):
        return []
    if old.spec.scheduler_name not in schedulers:
        return []
    return [ClusterChanged(_ASSIGNED_POD_DELETE, old, None, old.spec.priority or 0)]


def route_object(change: Change[HasMetadata], resource: Resource | str | None) -> Routed:
    """Routes an object that plugins look up to the cache, and its change as an event of the
    resource, if there is one.
    """
    item = change.new if change.new is not None else change.old
    if item is None:
        return [], []
    events: list[QueueMessage] = []
    if resource is not None:
        action = (
            Action.ADD
            if change.old is None
            else Action.DELETE
            if change.new is None
            else Action.UPDATE_OTHER
        )
        events.append(ClusterChanged(ClusterEvent(resource, action), change.old, change.new))
    return [ObjectPut(item) if change.new is not None else ObjectRemoved(item)], events


def route_node(change: Change[Node]) -> Routed:
    match change:
        case Change(None, Node() as new):
            return [NodeAdded(new)], [ClusterChanged(_NODE_ADD, None, new)]
        case Change(Node() as old, Node() as new):
            events: list[QueueMessage] = []
            if isinstance(old, StaleNode) and not isinstance(new, StaleNode):
                events.append(ClusterChanged(_NODE_ADD, None, new))  # It takes pods again.
            events += [
                ClusterChanged(_NODE_CHANGED[action], old, new) for action in node_changes(old, new)
            ]
            return [NodeUpdated(old, new)], events
        case Change(Node() as old, None):
            return [NodeDeleted(old)], [
                ClusterChanged(ClusterEvent(Resource.NODE, Action.DELETE), old, None)
            ]
        case _:
            return [], []
