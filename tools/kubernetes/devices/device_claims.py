"""Readers for the device claims of pods. Mirrors dynamic-resource-allocation's resourceclaim."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import (
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceSlice,
)
from berth.actors.scheduling.kube.meta import HasMetadata

from ..objects.properties import deleting, is_finished

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"


class DeviceClaim(msgspec.Struct, frozen=True):
    """An entry of a pod's spec.resourceClaims.

    `claim` is the name of the ResourceClaim: "" while none has been created from the `template`,
    None if none is needed.
    """

    name: str
    template: str
    claim: str | None


def device_claims(pod: Pod) -> list[DeviceClaim]:
    if not pod.spec.resource_claims:
        return []
    generated = {
        entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses
    }
    claims: list[DeviceClaim] = []
    for entry in pod.spec.resource_claims:
        template = entry.resource_claim_template_name or ""
        claim = generated.get(entry.name, "") if template else entry.resource_claim_name or ""
        claims.append(DeviceClaim(entry.name, template, claim))
    return claims


def claim_names(pod: Pod) -> Iterator[str]:
    """Yields the ResourceClaims of a pod, including the one for its extended resources."""
    yield from (entry.claim for entry in device_claims(pod) if entry.claim)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        yield extended.resource_claim_name


def claim_keys(pod: Pod) -> set[str]:
    """Returns namespace and name of each ResourceClaim that a pod uses."""
    return {f"{pod.metadata.namespace}/{name}" for name in claim_names(pod)}


def template_keys(pod: Pod) -> set[str]:
    """Returns namespace and name of each ResourceClaimTemplate that a pod names."""
    return {
        f"{pod.metadata.namespace}/{entry.template}"
        for entry in device_claims(pod)
        if entry.template
    }


def entry_of(claim: HasMetadata) -> str:
    """Returns the entry of a pod's spec for which the claim was generated; "" for none."""
    return claim.metadata.annotations.get(POD_CLAIM, "")


def is_reserved(claim: ResourceClaim, pod: Pod) -> bool:
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def is_done(pod: Pod) -> bool:
    """True if the pod has stopped running, or will never run."""
    return is_finished(pod) or (deleting(pod) and not pod.spec.node_name)


def pool_of(slice_: ResourceSlice) -> str:
    """Returns driver and pool of a slice, a key for look-ups in an index."""
    return f"{slice_.spec.driver}/{slice_.spec.pool.name}"


def pool_with(result: DeviceRequestAllocationResult) -> str:
    """Returns driver and pool of an allocated device, a key for look-ups in an index."""
    return f"{result.driver}/{result.pool}"


def results_of(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    """Returns the devices that are allocated to a claim."""
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results


def pools_of(claim: ResourceClaim) -> set[str]:
    """Returns driver and pool of each device that is allocated to a claim."""
    return {pool_with(result) for result in results_of(claim)}
