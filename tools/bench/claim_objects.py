"""The claims of pods in process: made from templates, and released when their pods are deleted.

Does at once what Kubernetes' controller for resource claims and its garbage collector do later. A
template must exist before its pods. Bound pods never finish here, so no claim is released before
its pod is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import (
    Pod,
    PodResourceClaimStatus,
)
from berth.actors.scheduling.kube.devices import (
    FINALIZER,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from berth.actors.scheduling.kube.meta import (
    ObjectMeta,
    OwnerReference,
)
from berth.actors.scheduling.kube.reading import Reader

from ..kubernetes.devices.device_claims import POD_CLAIM
from .templates import Document

_SPEC = Reader(ResourceClaimSpec)


class ClaimTemplates:
    """A maker of claims; `find` returns a template by namespace and name, or None."""

    def __init__(self, find: Callable[[str, str], Document | None]) -> None:
        self._find = find
        self._read: dict[int, tuple[Document, ResourceClaimSpec]] = {}

    def claims_for(self, pod: Pod) -> list[tuple[str, ResourceClaim]]:
        """Returns the claims for a new pod, by the entries in its spec; they have no name yet."""
        claims = []
        for entry in pod.spec.resource_claims:
            template = None
            if entry.resource_claim_template_name is not None:
                template = self._find(pod.metadata.namespace, entry.resource_claim_template_name)
            if template is not None:
                claims.append((entry.name, self._claim(pod, entry.name, template)))
        return claims

    def _claim(self, pod: Pod, entry: str, template: Document) -> ResourceClaim:
        template_metadata: dict[str, Any] = template["spec"].get("metadata") or {}
        owner = OwnerReference(
            api_version="v1",
            kind="Pod",
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            controller=True,
        )
        metadata = ObjectMeta(
            generate_name=f"{pod.metadata.name}-{entry}-",
            namespace=pod.metadata.namespace,
            labels=template_metadata.get("labels") or {},
            annotations={**(template_metadata.get("annotations") or {}), POD_CLAIM: entry},
            owner_references=(owner,),
        )
        return ResourceClaim(metadata=metadata, spec=self._spec(template))

    def _spec(self, template: Document) -> ResourceClaimSpec:
        """Returns the spec that all claims of a template share."""
        cached = self._read.get(id(template))
        if cached is None:
            cached = self._read[id(template)] = (
                template,
                _SPEC.convert(template["spec"].get("spec") or {}),
            )
        return cached[1]


def with_claims(pod: Pod, names: list[tuple[str, str]]) -> Pod:
    """Returns the pod with the names of its claims in its status, by the entries in its spec."""
    statuses = tuple(
        PodResourceClaimStatus(name=entry, resource_claim_name=name) for entry, name in names
    )
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, resource_claim_statuses=statuses)
    )


def shared_claims(pod: Pod) -> Iterator[str]:
    """Yields the names of the pod's claims that were not made for it."""
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield entry.resource_claim_name


def without_reservation(claim: ResourceClaim, uid: str) -> ResourceClaim | None:
    """Returns the claim without its reservation for a pod; None if it has none.

    Without any reservation, it loses its allocation too.
    """
    status = claim.status
    kept = tuple(each for each in status.reserved_for if each.uid != uid)
    if len(kept) == len(status.reserved_for):
        return None
    if kept or FINALIZER not in claim.metadata.finalizers:
        return msgspec.structs.replace(
            claim, status=msgspec.structs.replace(status, reserved_for=kept)
        )
    finalizers = tuple(each for each in claim.metadata.finalizers if each != FINALIZER)
    return msgspec.structs.replace(
        claim,
        metadata=msgspec.structs.replace(claim.metadata, finalizers=finalizers),
        status=ResourceClaimStatus(),
    )
