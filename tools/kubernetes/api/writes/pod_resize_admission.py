"""The admission plugin PodResizeValidator: a pod on a node may not outgrow it."""

from __future__ import annotations

from berth.actors.scheduling.kube.quantity import nano_value

from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND
from .evictions import PODS
from .quota_usage import pod_requests
from .refusals import forbidden

NODES = BY_KIND["v1", "Node"]
_OS = "kubernetes.io/os"
_UNITS = {"cpu": 1_000_000, "memory": 1_000_000_000}  # nano units, of what a refusal counts


def check_resize(store: Store, after: Document, before: Document) -> None:
    """Raises RefusedError with 403 for a resize that the pod's node cannot carry out."""
    spec, name = after["spec"], after["metadata"]["name"]
    place = spec.get("nodeName") or ""
    if not place or spec == before["spec"]:
        return
    node = store.find(NODES, "", place)
    if node is None:
        raise forbidden(PODS, name, f'node "{place}" not found')
    system = (node["metadata"].get("labels") or {}).get(_OS, "linux")
    if system != "linux":
        why = f'pod resize is only supported on linux nodes, node "{place}" is "{system}"'
        raise _refusal(name, why, "UnsupportedPlatform")
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    asked, lacks = pod_requests({"spec": spec}), list[str]()
    for resource, unit in _UNITS.items():
        wanted = asked[resource].nano if resource in asked else 0
        most = nano_value(allocatable.get(resource) or 0)
        if wanted > most:
            amounts = f"requested: {-(-wanted // unit)}, allocatable: {-(-most // unit)}"
            lacks.append(f"{resource}, {amounts}")
    if lacks:
        why = f"node didn't have enough allocatable resources: {'; '.join(lacks)}"
        raise _refusal(name, why, "NodeCapacity")


def _refusal(name: str, why: str, reason: str) -> RefusedError:
    refused = forbidden(PODS, name, why)
    details = {**(refused.details or {}), "causes": [{"reason": reason}]}
    return RefusedError(refused.code, refused.reason, str(refused), details)
