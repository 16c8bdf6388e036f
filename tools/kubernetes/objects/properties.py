"""Properties of objects that several controllers read: conditions, owner, phase and ages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol, TypeVar

from berth.actors.scheduling.kube import core
from berth.actors.scheduling.kube.core import FINISHED, PodCondition
from berth.actors.scheduling.kube.meta import HasMetadata, OwnerReference
from berth.actors.scheduling.kube.storage import PersistentVolume, PersistentVolumeClaim

from .structs import Condition, Replicated


class _HasType(Protocol):
    @property
    def type(self) -> str: ...


C = TypeVar("C", bound=_HasType)


def condition_of(conditions: Iterable[C], kind: str) -> C | None:
    for condition in conditions:
        if condition.type == kind:
            return condition
    return None


def holds(conditions: Iterable[Condition | PodCondition | core.NodeCondition], kind: str) -> bool:
    """True if the object has a condition of this type with the status True."""
    condition = condition_of(conditions, kind)
    return condition is not None and condition.status == "True"


def deleting(obj: HasMetadata) -> bool:
    return bool(obj.metadata.deletion_timestamp)


def controller_of(obj: HasMetadata) -> OwnerReference | None:
    """Returns the reference to the owner that controls this object; None if no owner does."""
    for owner in obj.metadata.owner_references:
        if owner.controller:
            return owner
    return None


def controls(owner: HasMetadata, obj: HasMetadata) -> bool:
    """True if the owner is the controller of an object."""
    controller = controller_of(obj)
    return controller is not None and controller.uid == owner.metadata.uid


def replicas_of(owner: Replicated) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas


def phase_of(obj: core.Pod | PersistentVolume | PersistentVolumeClaim) -> str:
    return obj.status.phase or "Pending"


def is_finished(pod: core.Pod) -> bool:
    return pod.status.phase in FINISHED


def is_active(pod: core.Pod) -> bool:
    """True if the pod is neither finished nor being deleted."""
    return not deleting(pod) and not is_finished(pod)


def is_ready(pod: core.Pod) -> bool:
    return holds(pod.status.conditions, "Ready")


def seconds_since(text: str | None, now: datetime) -> float:
    """Returns the seconds since a time of RFC 3339; 0 if the text is empty."""
    return (now - datetime.fromisoformat(text)).total_seconds() if text else 0.0


def seconds_to_available(pod: core.Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """Returns the seconds until the pod counts as available; None while it is not ready."""
    condition = condition_of(pod.status.conditions, "Ready")
    if condition is None or condition.status != "True":
        return None
    if not min_ready_seconds:
        return 0.0
    return min_ready_seconds - seconds_since(condition.last_transition_time, now)


def int_or_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """Returns the number, or the percentage of `total`."""
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * total
        return -(-share // 100) if round_up else share // 100
    return int(value)
