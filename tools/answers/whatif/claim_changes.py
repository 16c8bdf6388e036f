"""The changes of device claims when pods come and go, as the scheduler and a controller write them.

A placed pod's claims are allocated and reserved for it. Once it is gone, claims that were created
for it are gone too, and a claim that no other pod uses gives its devices back.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.kube.devices import InFlightAllocation
from berth.actors.scheduling.plugins.dynamic_resources.state import CLAIMS

from ...kubernetes.api.types.api_documents import Place
from ...kubernetes.devices.device_claims import claim_names
from ...kubernetes.objects.structs import Pod, read
from ..explain.cluster_source import completed_alone
from ..explain.pod_claims import with_claims
from .tried_documents import Document, Documents

KIND = "ResourceClaim"


def create(documents: Documents, pod: Place) -> None:
    """Creates the claims of a pod that a controller would create from templates."""
    completed, created = with_claims(documents.at(pod), documents.document, completed_alone)
    for claim in created:
        documents.put(claim)
    if created:
        documents.put(completed)


def allocate(documents: Documents, pod: Document, state: CycleState) -> list[InFlightAllocation]:
    """Writes the allocations that Reserve has chosen for a pod, and reserves its claims for it.

    Returns those that stay in flight: of extended resources, whose claim is not written.
    """
    claims = state.get(CLAIMS)
    if claims is None:
        return []
    metadata = pod["metadata"]
    for claim in claims.claims:
        place = KIND, claim.metadata.namespace, claim.metadata.name
        document = documents.at(place)
        status = dict(document.get("status") or {})
        reservation = claims.reservations.pop(claim.metadata.uid, None)
        if reservation is not None:
            status["allocation"] = msgspec.to_builtins(reservation.allocation)
            documents.restore(reservation.in_flight)
        consumer = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
        consumers = [of for of in status.get("reservedFor") or () if of["uid"] != metadata["uid"]]
        documents.put({**document, "status": {**status, "reservedFor": [*consumers, consumer]}})
    return [reservation.in_flight for reservation in claims.reservations.values()]


def release(documents: Documents, pod: Document) -> None:
    """Releases the devices and reservations of the claims of a deleted pod."""
    for place, document in _claims_of(documents, pod):
        metadata, uid = document["metadata"], pod["metadata"].get("uid")
        if any(owner.get("uid") == uid for owner in metadata.get("ownerReferences") or ()):
            documents.remove(place)
            continue
        status = dict(document.get("status") or {})
        consumers = status.pop("reservedFor", None) or []
        left = [of for of in consumers if of.get("uid") != uid]
        if left:
            status["reservedFor"] = left
        elif consumers:
            status.pop("allocation", None)
        if consumers:
            documents.put({**document, "status": status})


def _claims_of(documents: Documents, pod: Document) -> Iterator[tuple[Place, Document]]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    if not (spec.get("resourceClaims") or status.get("extendedResourceClaimStatus")):
        return
    for name in claim_names(read(pod, Pod)):
        namespace = pod["metadata"].get("namespace") or ""
        document = documents.document(KIND, name, namespace)
        if document is not None:
            yield (KIND, namespace, name), document
