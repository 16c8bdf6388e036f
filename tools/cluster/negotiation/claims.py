"""The negotiated claims of a pod, and the pods for which a claim is reserved.

A pod names claims of both APIs in spec.resourceClaims. A claim of resource.k8s.io/v1 takes
precedence over a claim of v1alpha2 with the same name.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from berth.plugin import ObjectMeta, Pod
from berth.plugin import ResourceClaim as ClaimOfV1

from .kinds import PodSchedulingContext, ResourceClaim
from .state import NegotiatedClaim


class HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=HasMetadata)


class Lookup(Protocol):
    """A source of objects: a snapshot, or the latest state from the API server."""

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None: ...


class ClaimError(Exception):
    """A claim does not exist, or does not belong to the pod, so the pod has to wait."""


def entries_of(pod: Pod, objects: Lookup) -> tuple[NegotiatedClaim, ...]:
    """Returns the pod's entries for claims of v1alpha2, with the claims. Raises ClaimError."""
    entries = []
    for name, claim_name, generated in _claim_names(pod):
        claim = _claim(pod, claim_name, objects)
        if claim is None:
            continue
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{claim_name}" is being deleted')
        if generated and controller_uid(claim.metadata) != pod.metadata.uid:
            raise ClaimError(
                f"ResourceClaim {key(claim.metadata)} was not created for Pod {key(pod.metadata)} "
                "(Pod is not owner)"
            )
        entries.append(NegotiatedClaim(name, claim))
    return tuple(entries)


def _claim(pod: Pod, name: str, objects: Lookup) -> ResourceClaim | None:
    """Returns the claim of v1alpha2; None if v1 has one of this name. Raises ClaimError."""
    namespace = pod.metadata.namespace
    if objects.get(ClaimOfV1, name, namespace) is not None:
        return None
    claim = objects.get(ResourceClaim, name, namespace)
    if claim is None:
        raise ClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
    return claim


def _claim_names(pod: Pod) -> list[tuple[str, str, bool]]:
    """Returns, for each entry that has a claim, the names of the entry and of the claim, and True
    if the claim was made for the pod. Raises ClaimError.
    """
    generated = {status.name: status for status in pod.status.resource_claim_statuses}
    names: list[tuple[str, str, bool]] = []
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            names.append((entry.name, entry.resource_claim_name, False))
        elif entry.name not in generated:
            raise ClaimError(f'pod "{key(pod.metadata)}": ResourceClaim not created yet')
        else:
            name = generated[entry.name].resource_claim_name
            if name is not None:
                names.append((entry.name, name, True))
    return names


def uses(pod: Pod, claim: ResourceClaim) -> bool:
    """True if the pod names the claim, or a claim of this name was made for it."""
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    names += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    return claim.metadata.namespace == pod.metadata.namespace and claim.metadata.name in names


def is_reserved_for(pod: Pod, claim: ResourceClaim) -> bool:
    return any(user.uid == pod.metadata.uid for user in claim.status.reserved_for)


def may_reserve(claim: ResourceClaim) -> bool:
    """True if one more pod may use an allocated claim."""
    allocation = claim.status.allocation
    return allocation is not None and (allocation.shareable or not claim.status.reserved_for)


def is_owned_by(context: PodSchedulingContext, pod: Pod) -> bool:
    return controller_uid(context.metadata) == pod.metadata.uid


def controller_uid(metadata: ObjectMeta) -> str:
    """Returns the uid of the owner that manages an object; "" if there is none."""
    return next((owner.uid for owner in metadata.owner_references if owner.controller), "")


def key(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}"
