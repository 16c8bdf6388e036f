"""What a demo shows of its cluster."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.placements import NodeUse, Placements
from tests.kit import documents
from tests.kit.documents import Document


def pod(name: str, node: str = "", phase: str = "Pending", why: str = "", **spec: Any) -> Document:
    condition = {"type": "PodScheduled", "status": "False", "message": why}
    status = {"phase": phase, "conditions": [condition] if why else []}
    return documents.pod(name, "2", node, requests={"memory": "8Gi"}, status=status, **spec)


def workload(replicas: int, observed: int) -> Document:
    metadata = {"name": "web", "namespace": "default", "uid": "web", "generation": 1}
    status = {"observedGeneration": observed}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}


@pytest.fixture
def placements() -> Placements:
    shown = Placements()
    for number in (1, 2):
        shown.put("Node", hollow_node(number), 0.0)
    return shown


def test_a_demo_is_decided_once_all_pods_run_or_do_not_fit(placements: Placements) -> None:
    decided = []
    for kind, document, at in (
        ("Deployment", workload(2, observed=0), 0.0),
        ("Deployment", workload(2, observed=1), 0.0),
        ("Pod", pod("a"), 1.0),
        ("Pod", pod("b", "node-1"), 1.0),
        ("Pod", pod("a", why="no room"), 2.0),
        ("Pod", pod("b", "node-1", "Running"), 3.0),
    ):
        placements.put(kind, document, at)
        decided.append(placements.is_decided)
    assert decided == [False, True, False, False, False, True]
    assert (placements.placed, placements.unschedulable, placements.changed) == (1, 1, 3.0)
    placements.put("Pod", pod("b", "node-1", "Running"), 4.0)
    assert placements.changed == 3.0
    placements.remove("Pod", pod("b"), 5.0)
    assert (len(placements), placements.changed) == (1, 5.0)


def test_workloads_say_how_many_pods_there_will_be(placements: Placements) -> None:
    placements.put("Deployment", workload(50, observed=1), 0.0)
    owned = pod("web-1")
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet"}]
    placements.put("Pod", owned, 0.0)
    placements.put("Pod", pod("alone"), 0.0)
    assert placements.total == 51


def test_the_rate_is_that_of_the_last_two_seconds(placements: Placements) -> None:
    assert placements.rate(0.0) == 0.0
    for number in range(30):
        placements.put("Pod", pod(f"p{number}", "node-1"), 1.0)
    assert placements.rate(1.0) == 30.0
    assert placements.rate(2.0) == 15.0
    assert placements.rate(3.5) == 0.0


def test_pods_with_claims_lack_them_until_they_exist(placements: Placements) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "lost"}]
    placements.put("Pod", pod("a", resourceClaims=claims), 0.0)
    (row,) = placements.rows()
    assert row.message == 'could not find ResourceClaim "default/lost"'
    claim = {"metadata": {"name": "lost", "namespace": "default", "uid": "1"}}
    placements.put("ResourceClaim", claim, 1.0)
    (row,) = placements.rows()
    assert (row.message, placements.is_decided) == ("", False)


def test_the_summary_has_zones_the_fullest_nodes_and_the_use(placements: Placements) -> None:
    placements.put("Pod", pod("a", "node-1", "Running"), 1.0)
    placements.put("Pod", pod("b", "node-2", "Running"), 1.0)
    placements.put("Pod", pod("c", "node-2", "Running"), 1.0)
    placements.put("Pod", pod("d", "node-2", "Succeeded"), 1.0)
    placements.put("Pod", pod("e", why="no room"), 2.0)
    summary = placements.summary()
    assert next(row.name for row in summary.pods) == "e"
    assert (summary.placed, summary.pending, summary.seconds) == (4, 1, 2.0)
    assert summary.zones == {"zone-a": 1, "zone-b": 2}
    assert summary.fullest == [
        NodeUse("node-2", 2, {"cpu": 50.0, "memory": 50.0}),
        NodeUse("node-1", 1, {"cpu": 25.0, "memory": 25.0}),
    ]
    assert summary.percent == {"cpu": 37.5, "memory": 37.5}


def test_a_pod_of_another_scheduler_is_left_alone(placements: Placements) -> None:
    placements.put("Pod", pod("a", schedulerName="volcano"), 1.0)
    (row,) = placements.rows()
    assert row.message == "left alone: it is for the scheduler volcano"
    assert placements.is_decided


def test_a_pod_that_failed_is_not_placed_and_says_why(placements: Placements) -> None:
    refused = pod("a", "node-1", "Failed")
    refused["status"] |= {"reason": "PodOSNotSupported", "message": "not for this OS"}
    crashed = pod("b", "node-1", "Failed")
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    crashed["status"]["containerStatuses"] = [
        {"name": "done", "state": {"terminated": {"exitCode": 0}}},
        {"name": "c", "state": ended},
    ]
    gone = pod("d", phase="Failed")
    for document in (pod("e", "node-1", "Running"), refused, crashed, gone):
        placements.put("Pod", document, 1.0)
    summary = placements.summary()
    assert (summary.placed, summary.pending, summary.failed) == (1, 0, 3)
    assert (placements.is_decided, placements.unschedulable) == (True, 0)
    assert [(row.name, row.why) for row in summary.pods] == [
        ("a", "PodOSNotSupported: not for this OS"),
        ("b", "container c: Error, exit code 3"),
        ("d", ""),
        ("e", ""),
    ]
    placements.remove("Pod", refused, 2.0)
    placements.put("Pod", pod("b", "node-1", "Running"), 2.0)
    assert (placements.placed, placements.failed) == (2, 1)
