"""Readers for the device claims of pods. Mirrors dynamic-resource-allocation's resourceclaim.

A field that is missing or null reads as empty.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .documents import (
    Document,
    annotations_of,
    controller_of,
    deleting,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
    uid_of,
)

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"


class DeviceClaim(msgspec.Struct, frozen=True):
    """An entry of a pod's spec.resourceClaims.

    `claim` is the name of the ResourceClaim: "" if none has been made from the `template` yet, None
    if none is needed.
    """

    name: str
    template: str
    claim: str | None


def device_claims(pod: Document) -> list[DeviceClaim]:
    made = {
        entry.get("name"): entry.get("resourceClaimName")
        for entry in status_of(pod).get("resourceClaimStatuses") or ()
    }
    found: list[DeviceClaim] = []
    for entry in spec_of(pod).get("resourceClaims") or ():
        name, template = entry.get("name") or "", entry.get("resourceClaimTemplateName") or ""
        claim = made.get(name, "") if template else entry.get("resourceClaimName") or ""
        found.append(DeviceClaim(name, template, claim))
    return found


def claim_names(pod: Document) -> Iterator[str]:
    """The ResourceClaims that a pod uses, that for its extended resources included."""
    yield from (one.claim for one in device_claims(pod) if one.claim)
    extended = status_of(pod).get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        yield extended["resourceClaimName"]


def claim_keys(pod: Document) -> set[str]:
    """Namespace and name of each ResourceClaim that a pod uses."""
    return {f"{namespace_of(pod)}/{name}" for name in claim_names(pod)}


def template_keys(pod: Document) -> set[str]:
    """Namespace and name of each ResourceClaimTemplate that a pod names."""
    return {f"{namespace_of(pod)}/{one.template}" for one in device_claims(pod) if one.template}


def key_of(document: Document) -> str:
    return f"{namespace_of(document)}/{name_of(document)}"


def is_made_for(claim: Document, pod: Document) -> bool:
    """True if the pod is the controller of the claim."""
    return (controller_of(claim) or {}).get("uid") == uid_of(pod)


def entry_of(claim: Document) -> str:
    """The entry of a pod's spec for which the claim was made from a template; "" for none."""
    return annotations_of(claim).get(POD_CLAIM) or ""


def allocation_of(claim: Document) -> Document | None:
    found: Document | None = status_of(claim).get("allocation")
    return found


def reserved_for(claim: Document) -> list[Document]:
    return status_of(claim).get("reservedFor") or []


def is_reserved(claim: Document, pod: Document) -> bool:
    return any(consumer.get("uid") == uid_of(pod) for consumer in reserved_for(claim))


def is_done(pod: Document) -> bool:
    """True if the pod does not run any more, or will never run."""
    return phase_of(pod) in ("Succeeded", "Failed") or (deleting(pod) and not node_of(pod))


def pool_key(found: Document) -> str:
    """Driver and pool, of the spec of a slice or of the result of an allocation."""
    pool = found.get("pool") or ""
    name = pool.get("name") or "" if isinstance(pool, dict) else pool
    return f"{found.get('driver') or ''}/{name}"


def results_of(claim: Document) -> list[Document]:
    """The devices that are allocated to a claim."""
    return ((allocation_of(claim) or {}).get("devices") or {}).get("results") or []


def pools_of(claim: Document) -> set[str]:
    """The pools of the devices that are allocated to a claim, as in `pool_key`."""
    return {pool_key(result) for result in results_of(claim)}
