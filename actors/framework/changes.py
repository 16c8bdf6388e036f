"""What an update changed, of all that a plugin may wait for. Mirrors the framework's SchedulingPropertiesChange."""

from __future__ import annotations

from actors.framework.events import Action
from actors.kube.core import Node, Pod
from actors.model.pod_info import PodInfo


def pod_changes(old: Pod, new: Pod) -> Action:
    """UPDATE_OTHER if nothing changed that has a name of its own."""
    action = Action(0)
    if old.metadata.labels != new.metadata.labels:
        action |= Action.UPDATE_POD_LABEL
    # The API lets tolerations be added, never changed or taken away.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        action |= Action.UPDATE_POD_TOLERATION
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        action |= Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if _scaled_down(old, new):
        action |= Action.UPDATE_POD_SCALE_DOWN
    return action or Action.UPDATE_OTHER


def _scaled_down(old: Pod, new: Pod) -> bool:
    if old.spec == new.spec and old.status == new.status:
        return False
    before, after = PodInfo(old).requests, PodInfo(new).requests
    return any(name not in after or amount > after[name] for name, amount in before.items())


def node_changes(old: Node, new: Node) -> Action:
    """Nothing for a heartbeat and whatever else no plugin waits for."""
    action = Action(0)
    if old.status.allocatable != new.status.allocatable:
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        action |= Action.UPDATE_NODE_LABEL
    if old.spec.taints != new.spec.taints or (old.spec.unschedulable and not new.spec.unschedulable):
        action |= Action.UPDATE_NODE_TAINT
    if {c.type: c.status for c in old.status.conditions} != {c.type: c.status for c in new.status.conditions}:
        action |= Action.UPDATE_NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        action |= Action.UPDATE_NODE_ANNOTATION
    if old.status.declared_features != new.status.declared_features:
        action |= Action.UPDATE_NODE_DECLARED_FEATURE
    return action
