"""What a driver of v1alpha2 decides: unsuitable nodes, allocations, and claims to be freed.

It acts for the drivers of all resource classes. Each node can hold as many claims of a class as the
class's annotation berth.dev/claims-per-node says, by default one. Mirrors the controller of
k8s.io/dynamic-resource-allocation in Kubernetes 1.27 to 1.30.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..cluster import Cluster
from ..device_claims import allocation_of, device_claims, is_done, reserved_for
from ..documents import (
    Document,
    annotations_of,
    controller_of,
    deleting,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from ..writes import Patch, Write, delete, patch, status_writes

CLAIMS_PER_NODE = "berth.dev/claims-per-node"
IMMEDIATE = "Immediate"
PROTECTION = "/deletion-protection"  # the end of the finalizer's name, which begins with the driver
LONGEST = 128  # of lists of nodes


def answer(cluster: Cluster, context: Document) -> list[Write]:
    """Allocates the claims of a pod for the selected node. If that is unsuitable, or none is
    selected yet, reports the unsuitable nodes. Deletes the context of a pod that is gone.
    """
    owner = (controller_of(context) or {}).get("uid") or ""
    pod = cluster.find("Pod", namespace_of(context), name_of(context))
    if cluster.is_gone(owner) or (pod is not None and uid_of(pod) != owner):
        return [delete(context)]
    if pod is None or deleting(context) or is_done(pod):
        return []
    selected = spec_of(context).get("selectedNode") or ""
    potential = spec_of(context).get("potentialNodes") or []
    pending = dict(_pending(cluster, pod))
    wanted = Counter(_class_of(claim) for claim in pending.values())
    nodes = list(dict.fromkeys(filter(None, (selected, *potential))))[:LONGEST]
    unsuitable = {
        name: [node for node in nodes if not _has_room(cluster, _class_of(claim), node, wanted)]
        for name, claim in pending.items()
    }
    if selected and all(selected not in nodes for nodes in unsuitable.values()):
        return [
            write
            for claim in pending.values()
            for write in _allocate(claim, _driver_of(cluster, claim), selected, pod)
        ]
    answers = [
        {"name": name, **({"unsuitableNodes": nodes} if nodes else {})}
        for name, nodes in unsuitable.items()
    ]
    status = {**status_of(context), "resourceClaims": answers}
    return status_writes(context, status) if nodes and answers else []


def allocate_immediately(cluster: Cluster, claim: Document) -> list[Write]:
    """Allocates a claim that waits for no pod, on the first node that has room."""
    if spec_of(claim).get("allocationMode") != IMMEDIATE or not _is_unallocated(cluster, claim):
        return []
    name = _class_of(claim)
    for node in sorted(name_of(node) for node in cluster.all("Node")):
        if _has_room(cluster, name, node, Counter((name,))):
            return _allocate(claim, _driver_of(cluster, claim), node, None)
    return []


def free(claim: Document) -> list[Write]:
    """Frees a claim that is being deleted, or that no pod reserves any more."""
    if reserved_for(claim):
        return []
    if allocation_of(claim) is None:
        have = _finalizers(claim)
        kept = [one for one in have if not one.endswith(PROTECTION)]
        body = {"metadata": {"finalizers": kept}}
        return [patch(claim, body, guarded=True)] if kept != have else []
    immediate = spec_of(claim).get("allocationMode") == IMMEDIATE
    if immediate and not deleting(claim) and not status_of(claim).get("deallocationRequested"):
        return []
    return status_writes(claim, {})


def _pending(cluster: Cluster, pod: Document) -> Iterator[tuple[str, Document]]:
    """The pod's claims that have to be allocated for it, by the names of their entries."""
    for entry in device_claims(pod):
        claim = cluster.find("ResourceClaim", namespace_of(pod), entry.claim or "")
        if claim is None or spec_of(claim).get("allocationMode") == IMMEDIATE:
            continue
        if _is_unallocated(cluster, claim):
            yield entry.name, claim


def _is_unallocated(cluster: Cluster, claim: Document) -> bool:
    """True if a claim waits for its allocation, and there is a driver for it."""
    is_known = cluster.find("ResourceClass", "", _class_of(claim)) is not None
    return is_known and allocation_of(claim) is None and not deleting(claim)


def _driver_of(cluster: Cluster, claim: Document) -> str:
    found = cluster.find("ResourceClass", "", _class_of(claim)) or {}
    return str(found.get("driverName") or "")


def _finalizers(claim: Document) -> list[str]:
    return claim["metadata"].get("finalizers") or []


def _class_of(claim: Document) -> str:
    return spec_of(claim).get("resourceClassName") or ""


def _has_room(cluster: Cluster, class_name: str, node: str, wanted: Counter[str]) -> bool:
    """True if a node can hold these many more claims of a class."""
    used = sum(
        _class_of(claim) == class_name and _node_of(claim) == node
        for claim in cluster.all("ResourceClaim")
    )
    found = cluster.find("ResourceClass", "", class_name)
    text = "1" if found is None else annotations_of(found).get(CLAIMS_PER_NODE, "1")
    return used + wanted[class_name] <= (int(text) if text.isdecimal() else 1)


def _node_of(claim: Document) -> str:
    """The node that a claim is allocated on, which the driver keeps in its resource handle."""
    handles = (allocation_of(claim) or {}).get("resourceHandles") or [{}]
    return handles[0].get("data") or ""


def _allocate(claim: Document, driver: str, node: str, pod: Document | None) -> list[Write]:
    """Allocates a claim on a node, and reserves it for the pod. Only the driver allocates, so the
    second patch need not name the version that follows from the first.
    """
    finalizers = [*dict.fromkeys((*_finalizers(claim), f"{driver}{PROTECTION}"))]
    selector = {"key": "metadata.name", "operator": "In", "values": [node]}
    status: Document = {
        "driverName": driver,
        "allocation": {
            "resourceHandles": [{"driverName": driver, "data": node}],
            "availableOnNodes": {"nodeSelectorTerms": [{"matchFields": [selector]}]},
        },
    }
    if pod is not None:
        user = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
        status["reservedFor"] = [user]
    body = {"metadata": {"uid": uid_of(claim)}, "status": status}
    return [
        patch(claim, {"metadata": {"finalizers": finalizers}}, guarded=True),
        Patch("ResourceClaim", namespace_of(claim), name_of(claim), body, "status"),
    ]
