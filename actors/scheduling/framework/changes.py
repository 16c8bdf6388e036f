"""The changes that an update makes, among those that plugins can wait for. Mirrors the framework's
SchedulingPropertiesChange.
"""

from __future__ import annotations

from ..kube.core import Node, Pod
from ..kube.requests import pod_requests, resize_of
from .events import Action


def pod_changes(old: Pod, new: Pod) -> tuple[Action, ...]:
    """Returns the events of a pod's update, in kube-scheduler's order; UPDATE_OTHER if no plugin
    can wait for it.
    """
    # The API allows tolerations to be added, but never changed or removed.
    more_tolerations = len(old.spec.tolerations) != len(new.spec.tolerations)
    ungated = bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates
    before, after = old.status, new.status
    other_claims = (
        before.resource_claim_statuses != after.resource_claim_statuses
        or before.extended_resource_claim_status != after.extended_resource_claim_status
    )
    changes = (
        (Action.UPDATE_POD_LABEL, old.metadata.labels != new.metadata.labels),
        (Action.UPDATE_POD_SCALE_DOWN, _is_scaled_down(old, new)),
        (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, ungated),
        (Action.UPDATE_POD_TOLERATION, more_tolerations),
        (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, other_claims),
    )
    return tuple([action for action, happened in changes if happened]) or _OTHER


_OTHER = (Action.UPDATE_OTHER,)


def _is_scaled_down(old: Pod, new: Pod) -> bool:
    if old.spec == new.spec and resize_of(old) == resize_of(new):
        return False
    before, after = pod_requests(old), pod_requests(new)
    return any(name not in after or amount > after[name] for name, amount in before.items())


def node_changes(old: Node, new: Node) -> tuple[Action, ...]:
    """Returns an event for each change, in kube-scheduler's order.

    Heartbeats, and other changes for which no plugin waits, have no event.
    """
    before, after = old.status, new.status
    uncordoned = old.spec.unschedulable and not new.spec.unschedulable
    conditions = [{c.type: c.status for c in status.conditions} for status in (before, after)]
    changes = (
        (Action.UPDATE_NODE_TAINT, uncordoned),
        (Action.UPDATE_NODE_ALLOCATABLE, before.allocatable != after.allocatable),
        (Action.UPDATE_NODE_LABEL, old.metadata.labels != new.metadata.labels),
        (Action.UPDATE_NODE_TAINT, old.spec.taints != new.spec.taints),
        (Action.UPDATE_NODE_CONDITION, conditions[0] != conditions[1]),
        (Action.UPDATE_NODE_ANNOTATION, old.metadata.annotations != new.metadata.annotations),
        (Action.UPDATE_NODE_DECLARED_FEATURE, before.declared_features != after.declared_features),
    )
    return tuple([action for action, happened in changes if happened])
