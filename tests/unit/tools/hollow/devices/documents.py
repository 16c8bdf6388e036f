"""Builders of device claims, templates and pods for the tests of their controllers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from berth.tools.hollow.device_claims import FINALIZER, POD_CLAIM

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = "2026-01-01T00:00:00Z"
Document = dict[str, Any]
ALLOCATION = {
    "devices": {"results": [{"request": "gpu", "driver": "d.com", "pool": "n1", "device": "gpu-0"}]}
}


def made(kind: str, name: str, version: str = "v1", **metadata: Any) -> Document:
    given = {"namespace": "n", "name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"apiVersion": version, "kind": kind, "metadata": {**given, **metadata}}


def pod(
    name: str = "p",
    *claims: Document,
    on: str = "",
    phase: str = "Pending",
    made_claims: dict[str, str] | None = None,
    **metadata: Any,
) -> Document:
    """A pod with these entries in spec.resourceClaims; `made_claims` are in its status."""
    status: Document = {"phase": phase}
    if made_claims:
        status["resourceClaimStatuses"] = [
            {"name": entry, "resourceClaimName": claim} for entry, claim in made_claims.items()
        ]
    return {
        **made("Pod", name, **metadata),
        "spec": {"nodeName": on, "resourceClaims": list(claims)},
        "status": status,
    }


def named(entry: str = "gpu", claim: str = "c") -> Document:
    return {"name": entry, "resourceClaimName": claim}


def from_template(entry: str = "gpu", template: str = "t") -> Document:
    return {"name": entry, "resourceClaimTemplateName": template}


def template(name: str = "t", **metadata: Any) -> Document:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {
        **made("ResourceClaimTemplate", name, "resource.k8s.io/v1"),
        "spec": {"metadata": metadata, "spec": {"devices": {"requests": [request]}}},
    }


def consumer(pod: Document) -> Document:
    metadata = pod["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}


def claim(name: str = "c", *pods: Document, allocated: bool = False, **metadata: Any) -> Document:
    """A claim that is reserved for these pods; it has its finalizer if it is allocated."""
    status: Document = {}
    if allocated:
        status["allocation"] = ALLOCATION
        metadata = {"finalizers": [FINALIZER], **metadata}
    if pods:
        status["reservedFor"] = [consumer(pod) for pod in pods]
    return {
        **made("ResourceClaim", name, "resource.k8s.io/v1", **metadata),
        "spec": {},
        "status": status,
    }


def owned(claim: Document, pod: Document, entry: str = "gpu") -> Document:
    owner = {**consumer(pod), "apiVersion": "v1", "kind": "Pod", "controller": True}
    del owner["resource"]
    metadata = {
        **claim["metadata"],
        "ownerReferences": [owner],
        "annotations": {POD_CLAIM: entry},
    }
    return {**claim, "metadata": metadata}
