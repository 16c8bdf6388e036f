"""The changes that an update makes, among those that plugins can wait for. Mirrors the framework's
SchedulingPropertiesChange.
"""

from __future__ import annotations

from ..kube.core import Node, Pod
from ..kube.requests import pod_requests
from .events import Action


def pod_changes(old: Pod, new: Pod) -> tuple[Action, ...]:
    """Returns the events of an update, in kube-scheduler's order; UPDATE_OTHER if there is none."""
    actions = []
    if old.metadata.labels != new.metadata.labels:
        actions.append(Action.UPDATE_POD_LABEL)
    if _scaled_down(old, new):
        actions.append(Action.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # The API allows tolerations to be added, but never changed or removed.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        actions.append(Action.UPDATE_POD_TOLERATION)
    before, after = old.status, new.status
    if (
        before.resource_claim_statuses != after.resource_claim_statuses
        or before.extended_resource_claim_status != after.extended_resource_claim_status
    ):
        actions.append(Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return tuple(actions) or _OTHER


_OTHER = (Action.UPDATE_OTHER,)


def _scaled_down(old: Pod, new: Pod) -> bool:
    if old.spec == new.spec and old.status == new.status:
        return False
    before, after = pod_requests(old), pod_requests(new)
    return any(name not in after or amount > after[name] for name, amount in before.items())


def node_changes(old: Node, new: Node) -> tuple[Action, ...]:
    """Returns one event for each change, in kube-scheduler's order; none for a heartbeat and for
    other changes that no plugin waits for.
    """
    actions = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(Action.UPDATE_NODE_TAINT)
    if old.status.allocatable != new.status.allocatable:
        actions.append(Action.UPDATE_NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        actions.append(Action.UPDATE_NODE_LABEL)
    if old.spec.taints != new.spec.taints:
        actions.append(Action.UPDATE_NODE_TAINT)
    if {c.type: c.status for c in old.status.conditions} != {
        c.type: c.status for c in new.status.conditions
    }:
        actions.append(Action.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        actions.append(Action.UPDATE_NODE_ANNOTATION)
    if old.status.declared_features != new.status.declared_features:
        actions.append(Action.UPDATE_NODE_DECLARED_FEATURE)
    return tuple(actions)
