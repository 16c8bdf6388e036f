"""Documents of resource.k8s.io/v1 for tests: classes, slices, claims, and pods that use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.actors.scheduling.model.snapshot import Snapshot
from berth.config.feature_gates import DEFAULTS
from tests.kit.documents import Document, thing
from tests.kit.handle import NoApi
from tests.kit.snapshots import snapshot_of

DRIVER = "gpu.example.com"
GPU = "example.com/gpu"  # an extended resource
API = "resource.k8s.io/v1"


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Document:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    return thing("DeviceClass", name, spec={"selectors": selectors, **spec})


def resource_slice(node: str, *devices: str | Document, name: str = "", **spec: Any) -> Document:
    """Returns a slice with these devices, the only one of the pool that is named after its node."""
    return thing(
        "ResourceSlice",
        name or f"{node}-gpus",
        spec={
            "driver": DRIVER,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            **({"nodeName": node} if "allNodes" not in spec else {}),
            "devices": [{"name": d} if isinstance(d, str) else d for d in devices],
            **spec,
        },
    )


def device_taint_rule(
    name: str, key: str, value: str = "", effect: str = "NoExecute", **selector: str
) -> Document:
    taint = {"key": key, "value": value, "effect": effect}
    spec = {"taint": taint, **({"deviceSelector": selector} if selector else {})}
    return thing("DeviceTaintRule", name, spec=spec)


def request(name: str = "r", count: int = 1, of: str = "gpu", **more: Any) -> Document:
    exactly = {"deviceClassName": of, "allocationMode": "ExactCount", "count": count, **more}
    return {"name": name, "exactly": exactly}


def claim(name: str, *requests: Document, **devices: Any) -> Document:
    return thing(
        "ResourceClaim", name, spec={"devices": {"requests": [*requests] or [request()], **devices}}
    )


def using(pod: Document, *claims: str) -> Document:
    """Returns the pod, with these claims."""
    pod["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in claims]
    return pod


def allocated(name: str, pool: str, *devices: str, **result: Any) -> Document:
    """Returns a claim with devices of a pool; `result` is added to each of its results."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": pool, "device": device, **result}
        for device in devices
    ]
    return {**claim(name), "status": {"allocation": {"devices": {"results": results}}}}


def node(
    name: str = "n", labels: Mapping[str, str] | None = None, /, **allocatable: int | str
) -> Document:
    """Returns a node; the resource `gpu` stands for GPU."""
    amounts = {GPU if name == "gpu" else name: str(amount) for name, amount in allocatable.items()}
    return thing(
        "Node",
        name,
        labels=dict(labels or {}),
        status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", **amounts}},
    )


def pod(requests: Mapping[str, str | int], name: str = "p", on: str = "") -> Document:
    """Returns a pod with one container."""
    container = {"name": "c", "resources": {"requests": dict(requests)}}
    return thing("Pod", name, spec={"containers": [container], "nodeName": on})


def cluster(*objects: Document) -> Snapshot:
    return snapshot_of(objects)


def handle(**gates: bool) -> NoApi:
    """Returns a handle with these feature gates."""
    assert gates.keys() <= DEFAULTS.keys()
    no_api = NoApi()
    no_api.feature_gates = {**DEFAULTS, **gates}
    return no_api
