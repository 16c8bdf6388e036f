"""Decisions of a driver of v1alpha2: unsuitable nodes, allocations, and claims to be freed.

It acts for the drivers of all resource classes. The annotation berth.dev/claims-per-node of a class
says how many claims of the class each node can hold, by default one. Mirrors the controller of
k8s.io/dynamic-resource-allocation in Kubernetes 1.27 to 1.30.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from berth.actors.scheduling.kube.claims import controller_uid

from ...kubernetes.devices.device_claims import device_claims, is_done
from ...kubernetes.object_index import ObjectIndex
from ...kubernetes.objects.documents import status_of
from ...kubernetes.objects.properties import deleting
from ...kubernetes.objects.structs import Document, Node, Pod
from ...kubernetes.objects.writes import Patch, Write, delete, patch, status_writes
from ..negotiation.kinds import PodSchedulingContext, ResourceClaim, ResourceClass

IMMEDIATE = "Immediate"
CLAIMS_PER_NODE = "berth.dev/claims-per-node"
PROTECTION = "/deletion-protection"  # the end of the finalizer's name, which begins with the driver
LONGEST = 128  # of lists of nodes


def answer(cluster: ObjectIndex, context: PodSchedulingContext) -> list[Write]:
    """Allocates the claims of a pod for the selected node. If the node is unsuitable, or none is
    selected yet, reports the unsuitable nodes. Deletes the context of a pod that is gone.
    """
    owner, metadata = controller_uid(context), context.metadata
    pod = cluster.find(Pod, metadata.namespace, metadata.name)
    if cluster.is_gone(owner) or (pod is not None and pod.metadata.uid != owner):
        return [delete(context)]
    if pod is None or deleting(context) or is_done(pod):
        return []
    selected, potential = context.spec.selected_node, context.spec.potential_nodes
    pending = dict(_pending(cluster, pod))
    demand = Counter(claim.spec.resource_class_name for claim in pending.values())
    nodes = list(dict.fromkeys(filter(None, (selected, *potential))))[:LONGEST]
    unsuitable = {
        name: [
            node
            for node in nodes
            if not _has_room(cluster, claim.spec.resource_class_name, node, demand)
        ]
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


def allocate_immediately(cluster: ObjectIndex, claim: ResourceClaim) -> list[Write]:
    """Allocates a claim that waits for no pod, on the first node that has room."""
    if claim.spec.allocation_mode != IMMEDIATE or not _is_unallocated(cluster, claim):
        return []
    name = claim.spec.resource_class_name
    for node in sorted(node.metadata.name for node in cluster.all(Node)):
        if _has_room(cluster, name, node, Counter((name,))):
            return _allocate(claim, _driver_of(cluster, claim), node, None)
    return []


def free(claim: ResourceClaim) -> list[Write]:
    """Frees a claim that is being deleted, or that no pod reserves any more."""
    status = claim.status
    if status.reserved_for:
        return []
    if status.allocation is None:
        have = claim.metadata.finalizers
        kept = [name for name in have if not name.endswith(PROTECTION)]
        body = {"metadata": {"finalizers": kept}}
        return [patch(claim, body, guarded=True)] if len(kept) < len(have) else []
    immediate = claim.spec.allocation_mode == IMMEDIATE
    if immediate and not deleting(claim) and not status.deallocation_requested:
        return []
    return status_writes(claim, {})


def _pending(cluster: ObjectIndex, pod: Pod) -> Iterator[tuple[str, ResourceClaim]]:
    """Yields the pod's claims that have to be allocated for it, with the names of their entries."""
    for entry in device_claims(pod):
        claim = cluster.find(ResourceClaim, pod.metadata.namespace, entry.claim or "")
        if claim is None or claim.spec.allocation_mode == IMMEDIATE:
            continue
        if _is_unallocated(cluster, claim):
            yield entry.name, claim


def _is_unallocated(cluster: ObjectIndex, claim: ResourceClaim) -> bool:
    """True if a claim waits for its allocation, and there is a driver for it."""
    has_driver = cluster.find(ResourceClass, "", claim.spec.resource_class_name) is not None
    return has_driver and claim.status.allocation is None and not deleting(claim)


def _driver_of(cluster: ObjectIndex, claim: ResourceClaim) -> str:
    resource_class = cluster.find(ResourceClass, "", claim.spec.resource_class_name)
    return resource_class.driver_name if resource_class else ""


def _has_room(cluster: ObjectIndex, class_name: str, node: str, demand: Counter[str]) -> bool:
    """True if a node can hold this many more claims of a class."""
    used = sum(
        claim.spec.resource_class_name == class_name and _node_of(claim) == node
        for claim in cluster.all(ResourceClaim)
    )
    resource_class = cluster.find(ResourceClass, "", class_name)
    annotations = resource_class.metadata.annotations if resource_class else {}
    text = annotations.get(CLAIMS_PER_NODE, "1")
    return used + demand[class_name] <= (int(text) if text.isdecimal() else 1)


def _node_of(claim: ResourceClaim) -> str:
    """Returns the node of an allocated claim, which the driver keeps in the resource handle."""
    allocation = claim.status.allocation
    return next((handle.data for handle in allocation.resource_handles), "") if allocation else ""


def _allocate(claim: ResourceClaim, driver: str, node: str, pod: Pod | None) -> list[Write]:
    """Allocates a claim on a node, and reserves it for the pod. Only the driver allocates, so the
    second patch need not name the version that follows from the first.
    """
    metadata = claim.metadata
    finalizers = [*dict.fromkeys((*metadata.finalizers, f"{driver}{PROTECTION}"))]
    selector = {"key": "metadata.name", "operator": "In", "values": [node]}
    status: Document = {
        "driverName": driver,
        "allocation": {
            "resourceHandles": [{"driverName": driver, "data": node}],
            "availableOnNodes": {"nodeSelectorTerms": [{"matchFields": [selector]}]},
        },
    }
    if pod is not None:
        user = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        status["reservedFor"] = [user]
    body = {"metadata": {"uid": metadata.uid}, "status": status}
    return [
        patch(claim, {"metadata": {"finalizers": finalizers}}, guarded=True),
        Patch("ResourceClaim", metadata.namespace, metadata.name, body, "status"),
    ]
