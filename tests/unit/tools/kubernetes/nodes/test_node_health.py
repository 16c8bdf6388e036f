"""Nodes whose kubelets fall silent."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.nodes.node_health import GRACE_SECONDS, STARTUP_SECONDS, Health
from berth.tools.kubernetes.objects.structs import Document, Node, Pod
from berth.tools.kubernetes.objects.writes import Again, Write
from tests.unit.tools.kubernetes.nodes.objects import EARLIER, at, events, lease, node, patched, pod


def decide(health: Health, each: Node, seconds: float, *pods: Pod) -> list[Write]:
    return health.reconcile(each, lambda: pods, at(seconds))


def conditions_in(writes: list[Write]) -> dict[str, Document]:
    (write,) = patched(writes)
    assert (write.kind, write.subresource) == ("Node", "status")
    return {each["type"]: each for each in write.body["status"]["conditions"]}


def leased() -> Health:
    """Returns the health of nodes of which n1 renewed its lease at 0 seconds."""
    health = Health()
    assert health.renewed(None, lease(), at(0))
    return health


def test_a_node_without_a_sign_of_life_is_not_monitored() -> None:
    assert decide(Health(), node(), 10_000) == []
    assert decide(Health(), node("n1", ""), 10_000) == []


def test_a_silent_node_becomes_unknown_after_the_period_of_grace() -> None:
    health, silent = leased(), node(DiskPressure="False", NetworkUnavailable="False")
    assert decide(health, silent, 20) == [Again(GRACE_SECONDS - 20)]
    writes = decide(health, silent, GRACE_SECONDS)
    conditions = conditions_in(writes)
    assert {kind: each["status"] for kind, each in conditions.items()} == {
        "Ready": "Unknown",
        "DiskPressure": "Unknown",
        "NetworkUnavailable": "False",
        "MemoryPressure": "Unknown",
        "PIDPressure": "Unknown",
    }
    assert conditions["Ready"] == {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastHeartbeatTime": EARLIER,
        "lastTransitionTime": "2026-01-01T00:00:50Z",
    }
    assert conditions["PIDPressure"] == {
        "type": "PIDPressure",
        "status": "Unknown",
        "reason": "NodeStatusNeverUpdated",
        "message": "Kubelet never posted node status.",
        "lastHeartbeatTime": EARLIER,
        "lastTransitionTime": "2026-01-01T00:00:50Z",
    }


def test_a_renewed_lease_and_a_new_heartbeat_are_signs_of_life() -> None:
    health = leased()
    assert not health.renewed(lease(), lease(renewed=10), at(10))
    assert decide(health, node(), GRACE_SECONDS) == [Again(10.0)]
    assert not health.renewed(lease(renewed=10), lease(renewed=10), at(20)), "not a renewal"
    assert not health.observe(node(), node(heartbeat="2026-01-01T00:00:30Z"), at(30))
    assert decide(health, node(), GRACE_SECONDS) == [Again(30.0)]
    assert not health.observe(node("n1", ""), node(), at(60)), "its first status"
    assert decide(health, node(), 60) == [Again(GRACE_SECONDS)]


def test_a_sign_of_life_postpones_the_look_at_a_node() -> None:
    health = leased()
    assert health.postponed("n1", at(20)) == GRACE_SECONDS - 20
    assert health.postponed("n1", at(GRACE_SECONDS)) == 0
    assert health.postponed("n2", at(0)) == 0, "no sign yet"
    health.mark("n1")
    assert health.postponed("n1", at(20)) == 0, "its pods are to be marked"


def test_the_first_heartbeat_may_come_from_a_file_and_the_second_may_not() -> None:
    health = Health()
    assert not health.observe(None, node(), at(0))
    assert not health.observe(node("n1", ""), node(), at(0))
    assert decide(health, node(), 1_000) == []
    assert health.observe(node(), node(heartbeat="2026-01-01T00:00:00Z"), at(1_000))
    assert decide(health, node(), 1_000) == [Again(GRACE_SECONDS)]


@pytest.mark.parametrize("seconds", [GRACE_SECONDS, STARTUP_SECONDS])
def test_a_node_that_never_had_a_status_has_more_time(seconds: float) -> None:
    health, bare = leased(), node("n1", "")
    writes = decide(health, bare, seconds)
    if seconds < STARTUP_SECONDS:
        assert writes == [Again(STARTUP_SECONDS - seconds)]
    else:
        reasons = {each["reason"] for each in conditions_in(writes).values()}
        assert reasons == {"NodeStatusNeverUpdated"}
        assert events(decide(health, node("n1", "Unknown"), seconds, pod())) == [], "was not ready"


def test_the_pods_of_a_node_that_was_ready_become_unready_once_it_is_unknown() -> None:
    health, pods = leased(), [pod("a"), pod("b", ready="False"), pod("c", ready="Unknown")]
    assert len(patched(decide(health, node(), 50, *pods))) == 1, "only the node at first"
    assert decide(health, node(), 49, *pods) == [Again(1.0)], "the node may yet give a sign"
    writes = decide(health, node("n1", "Unknown"), 51, *pods)
    assert [write.name for write in patched(writes)] == ["a", "c"]
    (condition,) = patched(writes)[0].body["status"]["conditions"]
    assert condition == {
        "type": "Ready", "status": "False", "reason": "Mine", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:51Z",
    }  # fmt: skip
    assert events(writes) == [
        ("NodeNotReady", "Node n1 status is now: NodeNotReady"),
        ("NodeNotReady", "Node is not ready"),
        ("NodeNotReady", "Node is not ready"),
    ]
    again = decide(health, node("n1", "Unknown"), 52, *pods)
    assert [write.name for write in patched(again)] == ["a", "c"], "until they are unready"
    assert decide(health, node("n1", "Unknown"), 53, pod(ready="False")) == []
    assert decide(health, node("n1", "Unknown"), 54, pod("new")) == [], "it has been done"


def test_a_kubelet_that_reports_its_node_as_not_ready_marks_its_pods_itself() -> None:
    assert decide(leased(), node("n1", "False"), 10, pod()) == [Again(40.0)]


def test_after_a_fault_of_the_control_plane_every_node_has_new_grace() -> None:
    health = leased()
    health.restart(at(100))
    assert decide(health, node(), 110) == [Again(GRACE_SECONDS - 10)]
    health.forget("n1")
    assert decide(health, node(), 1_000) == []
