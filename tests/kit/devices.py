"""Documents of resource.k8s.io/v1 for tests: classes, slices, claims, and pods that use them."""

from __future__ import annotations

from typing import Any

DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"
Document = dict[str, Any]


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Document:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def resource_slice(node: str, *devices: str | Document, name: str = "", **spec: Any) -> Document:
    """A slice with these devices, the only one of the pool that is named after its node."""
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            **({"nodeName": node} if "allNodes" not in spec else {}),
            "devices": [{"name": d} if isinstance(d, str) else d for d in devices],
            **spec,
        },
    }


def request(name: str = "r", count: int = 1, of: str = "gpu", **more: Any) -> Document:
    exactly = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **more}
    return {"name": name, "exactly": exactly}


def claim(name: str, *requests: Document, **devices: Any) -> Document:
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [*requests] or [request()], **devices}},
    }


def using(pod: Document, *claims: str) -> Document:
    """The pod, with these claims."""
    pod["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in claims]
    return pod
