"""What the hollow driver answers, allocates and frees."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.kube.meta import HasMetadata
from berth.tools.cluster.drivers.negotiation_decisions import allocate_immediately, answer, free
from berth.tools.cluster.negotiation.kinds import PodSchedulingContext, ResourceClaim, ResourceClass
from berth.tools.kubernetes.object_index import ObjectIndex
from berth.tools.kubernetes.objects.structs import Node, Pod, read
from berth.tools.kubernetes.objects.writes import Delete, Patch, Write
from tests.kit.documents import Document

FINALIZER = "gpu.example.com/deletion-protection"
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def metadata_of(name: str, **metadata: Any) -> Document:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **metadata}


def claim(
    name: str,
    on: str = "",
    metadata: Document | None = None,
    /,
    mode: str = "",
    resource_class: str = "gpu",
    **status: Any,
) -> ResourceClaim:
    """Returns a claim, allocated on a node if there is one."""
    allocation = {"allocation": {"resourceHandles": [{"data": on}]}} if on else {}
    document = {
        "metadata": metadata_of(name, namespace="n", **(metadata or {})),
        "spec": {
            "resourceClassName": resource_class,
            "allocationMode": mode or "WaitForFirstConsumer",
        },
        "status": {**allocation, **status},
    }
    return read(document, ResourceClaim)


def pod(*claims: str) -> Pod:
    entries = [{"name": name, "resourceClaimName": name} for name in claims]
    document = {
        "metadata": metadata_of("p", namespace="n"),
        "spec": {"resourceClaims": entries},
        "status": {"phase": "Pending"},
    }
    return read(document, Pod)


def context(
    selected: str = "", *potential: str, owner: str = "uid-p", **status: Any
) -> PodSchedulingContext:
    owners = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}]
    document = {
        "metadata": metadata_of("p", namespace="n", ownerReferences=owners, uid="uid-context"),
        "spec": {"selectedNode": selected, "potentialNodes": list(potential)},
        "status": status,
    }
    return read(document, PodSchedulingContext)


def cluster(*objects: HasMetadata, room: str = "1") -> ObjectIndex:
    metadata = metadata_of("gpu", annotations={"berth.dev/claims-per-node": room})
    gpus = read({"metadata": metadata, "driverName": "gpu.example.com"}, ResourceClass)
    full = ObjectIndex()
    for obj in (gpus, *objects):
        full.put(obj)
    return full


def answers(writes: list[Write]) -> dict[str, list[str]]:
    """Returns the unsuitable nodes that are reported for each claim."""
    (patch,) = writes
    assert isinstance(patch, Patch)
    assert (patch.kind, patch.subresource) == ("PodSchedulingContext", "status")
    reported = patch.body["status"]["resourceClaims"]
    return {entry["name"]: entry.get("unsuitableNodes", []) for entry in reported}


def allocated(writes: list[Write]) -> dict[str, str]:
    """Returns the claims that are allocated, with the node."""
    handles = {}
    for protects, allocates in zip(writes[::2], writes[1::2], strict=True):
        assert isinstance(protects, Patch)
        assert isinstance(allocates, Patch)
        assert protects.body["metadata"]["finalizers"] == [FINALIZER]
        status = allocates.body["status"]
        assert status["driverName"] == "gpu.example.com"
        handles[allocates.name] = status["allocation"]["resourceHandles"][0]["data"]
    return handles


def test_claims_are_allocated_for_a_selected_node_with_room() -> None:
    used = (claim("used", "a"), pod("c", "d"), claim("c"), claim("d"))
    writes = answer(cluster(*used, room="2"), context("b", "a", "b"))
    assert allocated(writes) == {"c": "b", "d": "b"}
    (_, first, *_) = writes
    assert isinstance(first, Patch)
    user = {"resource": "pods", "name": "p", "uid": "uid-p"}
    assert first.body["status"]["reservedFor"] == [user]


def test_nodes_without_room_for_all_claims_of_the_pod_are_unsuitable() -> None:
    objects = cluster(claim("used", "a"), pod("c", "d"), claim("c"), claim("d"), room="2")
    assert answers(answer(objects, context("a", "a", "b"))) == {"c": ["a"], "d": ["a"]}
    assert answers(answer(objects, context("", "b"))) == {"c": [], "d": []}
    same = [{"name": name, "unsuitableNodes": ["a"]} for name in ("c", "d")]
    assert answer(objects, context("a", "a", "b", resourceClaims=same)) == []


def test_claims_that_need_no_negotiation_get_no_answer() -> None:
    other = claim("o", resource_class="other")
    claims = (claim("a", "x"), claim("i", mode="Immediate"), claim("g", "", GONE), other)
    objects = cluster(pod("a", "i", "g", "o", "missing"), *claims)
    assert answer(objects, context("b", "b")) == []


@pytest.mark.parametrize("is_known", [True, False])
def test_the_context_of_a_pod_that_is_gone_is_deleted(is_known: bool) -> None:
    objects = cluster(pod("c"), claim("c"))
    if not is_known:
        objects.remove(pod("c"))
    (write,) = answer(objects, context("a", "a", owner="uid-before" if is_known else "uid-p"))
    assert isinstance(write, Delete)
    assert (write.kind, write.name) == ("PodSchedulingContext", "p")


def test_a_pod_that_the_driver_has_not_heard_of_has_to_wait() -> None:
    assert answer(cluster(claim("c")), context("a", "a")) == []


def test_immediate_claims_get_the_first_node_with_room() -> None:
    nodes = [read({"metadata": metadata_of(name)}, Node) for name in ("b", "a", "c")]
    objects = cluster(*nodes, claim("used", "a"))
    assert allocated(allocate_immediately(objects, claim("c", mode="Immediate"))) == {"c": "b"}
    assert allocate_immediately(objects, claim("c")) == []
    assert allocate_immediately(objects, claim("c", "a", mode="Immediate")) == []


def test_claims_without_users_are_freed() -> None:
    protected = {"finalizers": ["other", FINALIZER]}
    user = {"resource": "pods", "name": "p", "uid": "uid-p"}
    assert free(claim("c", "a", protected, reservedFor=[user])) == []
    (freed,) = free(claim("c", "a", protected, driverName="gpu.example.com"))
    assert isinstance(freed, Patch)
    assert freed.body["status"] == {"allocation": None, "driverName": None}
    (unprotected,) = free(claim("c", "", protected))
    assert isinstance(unprotected, Patch)
    assert unprotected.body["metadata"]["finalizers"] == ["other"]
    assert free(claim("c")) == []
    assert free(claim("c", "a", mode="Immediate")) == []
    assert free(claim("c", "a", GONE, mode="Immediate"))
    assert free(claim("c", "a", mode="Immediate", deallocationRequested=True))
