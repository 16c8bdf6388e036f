"""The ResourceClaims of a pod, and the pods for which a claim is reserved.

Mirrors k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from berth.plugin import Pod, ResourceClaim, Status, WatchedKind, error, unresolvable

from ...kube.claims import controller_uid
from ...kube.core import PodResourceClaim
from ...kube.devices import (
    EXTENDED_RESOURCE_CLAIM,
    AllocatedDeviceStatus,
    DeviceRequestAllocationResult,
)
from ...kube.meta import HasMetadata, key
from .features import Features
from .requests import ClassByName

T = TypeVar("T", bound=HasMetadata)
# The claims of a pod are looked up in each attempt and for each claim that frees devices.
MOST_CLAIMS = 256


class Lookup(Protocol):
    """The objects of a snapshot, or the objects that the API server last sent."""

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None: ...


class ClaimError(Exception):
    """A claim does not exist, or does not belong to the pod, so the pod has to wait. The message is
    kube-scheduler's.
    """


def claims_of(
    pod: Pod, objects: Lookup, other_kinds: Sequence[WatchedKind] = ()
) -> list[ResourceClaim]:
    """Returns the claims that the pod's spec names or that were made for it, in order. Raises
    ClaimError.

    Entries that need no claim are left out, as are those with a claim of one of the other kinds.
    """
    claims: list[ResourceClaim] = []
    if not pod.spec.resource_claims:
        return claims
    namespace = pod.metadata.namespace
    if len(pod.spec.resource_claims) > MOST_CLAIMS:
        raise ClaimError(f"more than {MOST_CLAIMS} resource claims")
    generated = generated_claims(pod)
    for entry in pod.spec.resource_claims:
        name = claim_name(pod, entry, generated)
        if name is None:
            continue
        claim = objects.get(ResourceClaim, name, namespace)
        if claim is None:
            if any(objects.get(kind.type, name, namespace) is not None for kind in other_kinds):
                continue
            raise ClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if entry.resource_claim_name is None and controller_uid(claim) != pod.metadata.uid:
            raise ClaimError(
                f"ResourceClaim {namespace}/{name} was not created for Pod {key(pod)} "
                "(Pod is not owner)"
            )
        claims.append(claim)
    return claims


def generated_claims(pod: Pod) -> dict[str, str | None]:
    """Returns the names of the claims that were made for a pod, by the names of their entries in
    its spec.
    """
    statuses = reversed(pod.status.resource_claim_statuses)
    return {status.name: status.resource_claim_name for status in statuses}


def claim_name(
    pod: Pod, entry: PodResourceClaim, generated: Mapping[str, str | None]
) -> str | None:
    """Returns the name of the claim of an entry of the spec; None if no claim is needed.

    `generated` are the claims that were made for the pod. Raises ClaimError if the claim is not
    made yet.
    """
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise ClaimError(
            f'pod "{key(pod)}", spec.resourceClaim "{entry.name}": '
            "none of the supported fields are set"
        )
    if entry.name not in generated:
        raise ClaimError(f'pod "{key(pod)}": ResourceClaim not created yet')
    return generated[entry.name]


def uses(pod: Pod, claim: HasMetadata) -> bool:
    """True if the pod names the claim, or a claim of this name was made for it."""
    name, status = claim.metadata.name, pod.status.resource_claim_statuses
    return claim.metadata.namespace == pod.metadata.namespace and (
        any(entry.resource_claim_name == name for entry in pod.spec.resource_claims)
        or any(entry.resource_claim_name == name for entry in status)
    )


def is_reserved_for(pod: Pod, claim: ResourceClaim) -> bool:
    return any(user.uid == pod.metadata.uid for user in claim.status.reserved_for)


def extended_owner(claim: ResourceClaim) -> str:
    """Returns the uid of the pod for whose extended resources the scheduler made the claim; "" for
    all other claims.
    """
    metadata = claim.metadata
    if metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return ""
    return next((owner.uid for owner in metadata.owner_references if owner.controller), "")


def check_requests(claim: ResourceClaim, classes: ClassByName, features: Features) -> Status | None:
    """Returns the reason why no node can be tried for an unallocated claim, or None."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            class_names = [(request.name, request.exactly.device_class_name)]
        elif request.first_available and not features.prioritized_lists:
            return unresolvable(
                f"resource claim {key(claim)}, request {request.name}: has subrequests, but the "
                "DRAPrioritizedList feature is disabled"
            )
        elif request.first_available:
            class_names = [
                (f"{request.name}/{sub.name}", sub.device_class_name)
                for sub in request.first_available
            ]
        else:
            return unresolvable(
                f"resource claim {key(claim)}, request {request.name}: unknown request type"
            )
        for name, class_name in class_names:
            if not class_name:
                return error(f"request {name}: unsupported request type")
            if classes(class_name) is None:
                return unresolvable(f"request {name}: device class {class_name} does not exist")
    return None


class BindingFailedError(Exception):
    """A device reports that it cannot be prepared."""


def is_ready(claim: ResourceClaim) -> bool:
    """True if all binding conditions of all devices are met. Raises BindingFailedError."""
    allocation = claim.status.allocation
    for result in () if allocation is None else allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = status_of(claim, result)
        if status is None:
            return False
        conditions = {condition.type: condition for condition in reversed(status.conditions)}
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                message = json.dumps(failed.message, ensure_ascii=False)
                raise BindingFailedError(
                    f"device binding failed: claim={claim.metadata.name}, "
                    f"reason={failed.reason}, message={message}"
                )
        for name in result.binding_conditions:
            if name not in conditions or conditions[name].status != "True":
                return False
    return allocation is not None


def prepared_by(claim: ResourceClaim, seconds: float) -> datetime | None:
    """Returns the time by which the devices must be prepared: this many seconds after their
    allocation.

    Returns None if nothing has to be prepared.
    """
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return None
    if not has_binding_conditions(claim):
        return None
    try:
        return datetime.fromisoformat(allocation.allocation_timestamp) + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def has_binding_conditions(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.binding_conditions for result in allocation.devices.results
    )


def status_of(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    place = (result.driver, result.pool, result.device)
    return next((s for s in claim.status.devices if (s.driver, s.pool, s.device) == place), None)
