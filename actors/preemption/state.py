"""The victims that a preemption has to evict, and the requests that evict them. Pure.

Mirrors the preemption executor of kube-scheduler's framework.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..messages.preemption import Preempt
from ..scheduling.kube.core import Pod
from ..scheduling.kube.times import rfc3339
from ..scheduling.model.pod_info import PodInfo

CONDITION = "DisruptionTarget"
REASON = "PreemptionByScheduler"


def victims_to_evict(order: Preempt) -> tuple[PodInfo, ...]:
    """Returns the victims that are not being deleted already."""
    return tuple(info for info in order.victims if info.pod.metadata.deletion_timestamp is None)


def disruption_patch(victim: Pod, scheduler_name: str, wall: datetime) -> dict[str, Any] | None:
    """Returns a strategic merge patch of the victim's status; None if the condition is set."""
    metadata = victim.metadata
    message = f"{scheduler_name}: preempting to accommodate a higher priority pod"
    content = (CONDITION, "True", REASON, message)
    if any((c.type, c.status, c.reason, c.message) == content for c in victim.status.conditions):
        return None
    condition: dict[str, Any] = {
        "type": CONDITION,
        "status": "True",
        "reason": REASON,
        "message": message,
        "lastTransitionTime": rfc3339(wall),
    }
    if metadata.generation:
        condition["observedGeneration"] = metadata.generation
    return {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}}


def deletion(victim: Pod) -> dict[str, Any]:
    """Returns the options of a deletion of this very pod, not of a later one of its name."""
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": victim.metadata.uid},
    }
