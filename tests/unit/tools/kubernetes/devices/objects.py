"""Builders of device claims, templates and pods for the tests of their controllers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from berth.actors.scheduling.kube.devices import FINALIZER, ResourceClaim
from berth.actors.scheduling.kube.meta import OwnerReference
from berth.tools.kubernetes.devices.device_claims import POD_CLAIM
from berth.tools.kubernetes.objects.structs import Pod, ResourceClaimTemplate, read
from tests.kit.documents import Document

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = "2026-01-01T00:00:00Z"
ALLOCATION = {
    "devices": {"results": [{"request": "gpu", "driver": "d.com", "pool": "n1", "device": "gpu-0"}]}
}


def metadata_of(name: str, **metadata: Any) -> Document:
    named = {"namespace": "n", "name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    return {**named, **metadata}


def pod(
    name: str = "p",
    *claims: Document,
    on: str = "",
    phase: str = "Pending",
    made_claims: dict[str, str | None] | None = None,
    **metadata: Any,
) -> Pod:
    """Returns a pod with these entries in spec.resourceClaims; `made_claims` are in its status."""
    status: Document = {"phase": phase}
    if made_claims:
        status["resourceClaimStatuses"] = [
            {"name": entry, "resourceClaimName": claim} for entry, claim in made_claims.items()
        ]
    document = {
        "metadata": metadata_of(name, **metadata),
        "spec": {"nodeName": on, "resourceClaims": list(claims)},
        "status": status,
    }
    return read(document, Pod)


def named(entry: str = "gpu", claim: str = "c") -> Document:
    return {"name": entry, "resourceClaimName": claim}


def from_template(entry: str = "gpu", template: str = "t") -> Document:
    return {"name": entry, "resourceClaimTemplateName": template}


def template(name: str = "t", **metadata: Any) -> ResourceClaimTemplate:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    document = {
        "metadata": metadata_of(name),
        "spec": {"metadata": metadata, "spec": {"devices": {"requests": [request]}}},
    }
    return read(document, ResourceClaimTemplate)


def consumer(pod: Pod) -> Document:
    return {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}


def claim(
    name: str = "c",
    *pods: Pod,
    allocated: bool = False,
    others: tuple[Document, ...] = (),
    allocation: Document = ALLOCATION,
    **metadata: Any,
) -> ResourceClaim:
    """Returns a claim reserved for these pods and `others`, with a finalizer if allocated."""
    status: Document = {"reservedFor": [*map(consumer, pods), *others]}
    if allocated:
        status["allocation"] = allocation
        metadata = {"finalizers": [FINALIZER], **metadata}
    return read({"metadata": metadata_of(name, **metadata), "status": status}, ResourceClaim)


def owned(claim: ResourceClaim, pod: Pod, entry: str = "gpu") -> ResourceClaim:
    owner = OwnerReference(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
    )
    metadata = replace(claim.metadata, owner_references=(owner,), annotations={POD_CLAIM: entry})
    return replace(claim, metadata=metadata)
