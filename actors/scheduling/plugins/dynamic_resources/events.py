"""The events after which a pod that DynamicResources rejected is tried again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from berth.plugin import (
    Action,
    ClusterEvent,
    Concerns,
    Hint,
    Pod,
    Registration,
    Resource,
    ResourceClaim,
    WatchedKind,
)

from ...kube.claims import controller_uid
from ...kube.devices import DeviceTaintRule
from ...kube.meta import key
from .pod_claims import ClaimError, uses

ClaimsOf = Callable[[Pod], list[ResourceClaim]]


def registrations(
    claims_of: ClaimsOf, other_kinds: Sequence[WatchedKind], *, with_rules: bool = False
) -> tuple[Registration, ...]:
    """Returns the events with their hints. `claims_of` returns the claims of a pod, and raises
    ClaimError. `other_kinds` are the kinds of claims that other plugins handle. `with_rules` tells
    whether DeviceTaintRules taint devices.
    """
    changed = Action.ADD | Action.UPDATE
    nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE

    def has_claims(pod: Pod) -> bool:
        return _claims(pod, claims_of) is not None

    def claim_changed(pod: Pod, old: object | None, new: object | None) -> Hint:
        if new is None:
            return Hint.QUEUE if _is_freed(old, new) and has_claims(pod) else Hint.SKIP
        assert isinstance(new, ResourceClaim)
        return Hint.QUEUE if _helps(pod, old, new, claims_of) else Hint.SKIP

    def pod_changed(pod: Pod, _old: object | None, new: object | None) -> Hint:
        assert isinstance(new, Pod)
        helps = pod.metadata.uid == new.metadata.uid and has_claims(new)
        return Hint.QUEUE if helps else Hint.SKIP

    def released(_pod: Pod, _old: object | None, _new: object | None) -> Hint:
        return Hint.QUEUE

    def if_released(old: object | None, _new: object | None) -> list[str] | None:
        assert isinstance(old, Pod)
        return None if _is_released(old, claims_of) else []

    def other_added(pod: Pod, _old: object | None, new: Any) -> Hint:
        return Hint.QUEUE if uses(pod, new) and has_claims(pod) else Hint.SKIP

    return (
        Registration(ClusterEvent(Resource.NODE, nodes)),
        Registration(
            ClusterEvent(Resource.RESOURCE_CLAIM, changed | Action.DELETE),
            claim_changed,
            Concerns(_claim_keys, _users_of_claim),
        ),
        Registration(
            ClusterEvent(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
            pod_changed,
            Concerns(_claim_keys, _only_this_pod),
        ),
        Registration(
            ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
            released,
            Concerns(_claim_keys, if_released),
        ),
        Registration(ClusterEvent(Resource.DEVICE_CLASS, changed)),
        Registration(ClusterEvent(Resource.RESOURCE_SLICE, changed)),
        *((_RULE_CHANGED,) if with_rules else ()),
        *(
            Registration(ClusterEvent(kind.full_name, Action.ADD), other_added)
            for kind in other_kinds
        ),
    )


def _taints_otherwise(_pod: Pod, old: object | None, new: object | None) -> Hint:
    """Leaves out the changes of a rule's status, which its controller writes again and again."""
    if isinstance(old, DeviceTaintRule) and isinstance(new, DeviceTaintRule):
        return Hint.SKIP if old.spec == new.spec else Hint.QUEUE
    return Hint.QUEUE


# kube-scheduler hears of a rule by an update of the slices that it taints.
_RULE_CHANGED = Registration(
    ClusterEvent(Resource.DEVICE_TAINT_RULE, Action.ADD | Action.UPDATE | Action.DELETE),
    _taints_otherwise,
)


def _claims(pod: Pod, claims_of: ClaimsOf) -> list[ResourceClaim] | None:
    """Returns the claims of a pod; None if one of them is missing."""
    try:
        return claims_of(pod)
    except ClaimError:
        return None


def _helps(pod: Pod, old: object | None, new: ResourceClaim, claims_of: ClaimsOf) -> bool:
    """True if a claim that was added or changed may let the pod be placed."""
    is_freed = _is_freed(old, new)
    if not is_freed and not uses(pod, new):
        return False
    claims = _claims(pod, claims_of)
    if claims is None:
        return False
    if is_freed:
        return True
    if all(claim.metadata.uid != new.metadata.uid for claim in claims):
        return False
    return not isinstance(old, ResourceClaim) or old.status != new.status


def _is_freed(old: object | None, new: ResourceClaim | None) -> bool:
    """True if the change gave back the devices of a claim, or its deletion did: the change before
    it may have been missed.
    """
    return (
        isinstance(old, ResourceClaim)
        and old.status.allocation is not None
        and (new is None or new.status.allocation is None)
    )


def _is_released(pod: Pod, claims_of: ClaimsOf) -> bool:
    """True if a pod was not bound after all, and devices that were in flight for it are free: then
    a claim of the pod has none. No change of a claim says so.
    """
    claims = _claims(pod, claims_of)
    return claims is not None and any(claim.status.allocation is None for claim in claims)


def _claim_keys(pod: Pod) -> list[str]:
    """Returns the claims that the pod names, and its uid, which represents those made for it."""
    named = (entry.resource_claim_name for entry in pod.spec.resource_claims)
    namespace = pod.metadata.namespace
    return [pod.metadata.uid, *(f"{namespace}/{name}" for name in named if name is not None)]


def _users_of_claim(old: object | None, new: object | None) -> list[str] | None:
    assert new is None or isinstance(new, ResourceClaim)
    if _is_freed(old, new):
        return None
    return [] if new is None else [key(new), controller_uid(new)]


def _only_this_pod(_old: object | None, new: object | None) -> list[str]:
    assert isinstance(new, Pod)
    return [new.metadata.uid]
