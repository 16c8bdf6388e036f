"""Where a change goes: a pending pod to the queue, an assigned pod or a node to the cache, and
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
_ASSIGNED_POD_CHANGED = {action: ClusterEvent(Resource.ASSIGNED_POD, action) for action in Action}
_NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
_NODE_CHANGED = {action: ClusterEvent(Resource.NODE, action) for action in Action}


def is_pending(pod: Pod) -> bool:
    """True for a pod that waits for a node. A finished pod counts as gone."""
    return not pod.spec.node_name and pod.status.phase not in FINISHED


def route_pod(change: Change[Pod], schedulers: Set[str]) -> Routed:
    """Routes a pod; `schedulers` are the names that we answer to. A finished pod counts as gone."""
    cache: list[CacheMessage] = []
    queue: list[QueueMessage] = []
    old = change.old if change.old is not None and change.old.status.phase not in FINISHED else None
    new = change.new if change.new is not None and change.new.status.phase not in FINISHED else None
    old_node, new_node = (
        old is not None and bool(old.spec.node_name),
        new is not None and bool(new.spec.node_name),
    )
    if old is not None and not old_node and (new is None or new_node):
        queue.append(PodNoLongerPending(old))
    if old is not None and not old_node and _will_never_be_bound(new):
        cache.append(AssumedPodDeleted(old))
    if new is not None and not new_node and new.spec.scheduler_name in schedulers:
        queue.append(
            PendingPodUpdated(old, new)
            if old is not None and not old_node
            else PendingPodAdded(new)
        )
    if old is not None and not old_node and not new_node and old.spec.scheduler_name in schedulers:
        queue += _nomination_gone(old, new)
    if old is not None and new is not None and old_node and new_node:
        cache.append(AssignedPodUpdated(old, new))
        queue += [
            ClusterChanged(_ASSIGNED_POD_CHANGED[action], old, new)
            for action in pod_changes(old, new)
        ]
    elif new is not None and new_node:
        cache.append(AssignedPodAdded(new))
        queue.append(ClusterChanged(_ASSIGNED_POD_ADD, None, new))
    elif old is not None and old_node:
        cache.append(AssignedPodDeleted(old))
        queue.append(ClusterChanged(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), old, None))
    return cache, queue


def _will_never_be_bound(pod: Pod | None) -> bool:
    """True if a pod without a node is gone or being deleted."""
    return pod is None or (not pod.spec.node_name and pod.metadata.deletion_timestamp is not None)


def _nomination_gone(old: Pod, new: Pod | None) -> list[QueueMessage]:
    """Returns the event of a nomination's end: it helps pods that made room for it."""
    node = old.status.nominated_node_name
    if not node or (new is not None and new.status.nominated_node_name == node):
        return []
    return [
        ClusterChanged(
            ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), old, None, old.spec.priority or 0
        )
    ]


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
