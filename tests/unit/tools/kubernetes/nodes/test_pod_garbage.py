"""Pods that no kubelet will remove."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.nodes import pod_garbage
from berth.tools.kubernetes.nodes.pod_garbage import (
    PERIOD_SECONDS,
    QUARANTINE_SECONDS,
    Finished,
    Orphans,
)
from berth.tools.kubernetes.objects.structs import Document, Node, Pod
from berth.tools.kubernetes.objects.writes import Again, Delete
from tests.unit.tools.kubernetes.nodes.objects import START, at, deleted, node, patched, pod

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
ENDING: Document = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}


def test_the_pods_of_a_missing_node_are_deleted_after_a_quarantine() -> None:
    orphans = Orphans()
    pods = [pod("run"), pod("end", phase="Succeeded"), pod("fail", phase="Failed")]
    assert orphans.reconcile("n1", None, pods, START) == [Again(QUARANTINE_SECONDS)]
    writes = orphans.reconcile("n1", None, pods, at(QUARANTINE_SECONDS))
    (mark,) = patched(writes)
    assert (mark.name, mark.body["status"]["phase"]) == ("run", "Failed"), "others have ended"
    condition = mark.body["status"]["conditions"][-1]
    assert [condition[field] for field in ("type", "reason", "message")] == [
        "DisruptionTarget",
        "DeletionByPodGC",
        "PodGC: node no longer exists",
    ]
    assert [write.grace for write in writes if isinstance(write, Delete)] == [0, 0, 0]
    assert orphans.reconcile("n1", node(), pods, at(50)) == []
    assert orphans.reconcile("n1", None, pods, at(60)) == [Again(QUARANTINE_SECONDS)], (
        "the quarantine must start again"
    )


def test_the_reason_of_an_earlier_disruption_is_replaced() -> None:
    before = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    each = pod(conditions=(before,))
    orphans = Orphans()
    orphans.reconcile("n1", None, [each], START)
    (mark,) = patched(orphans.reconcile("n1", None, [each], at(QUARANTINE_SECONDS)))
    conditions = mark.body["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["Ready", "DisruptionTarget"]
    assert conditions[-1]["reason"] == "DeletionByPodGC"


@pytest.mark.parametrize(
    ("each", "where", "outcome"),
    [
        (pod(on="", phase="Pending", **ENDING), None, "fails and is deleted"),
        (pod(on="", phase="Succeeded", **ENDING), None, "is deleted"),
        (pod(on="", phase="Failed"), None, "stays"),
        (pod(on="gone", **ENDING), None, "stays"),
        (pod(**ENDING), node("n1", "False"), "stays"),
        (pod(**ENDING), node("n1", "True", f"{OUT_OF_SERVICE}:NoExecute"), "stays"),
        (pod(), node("n1", "False", f"{OUT_OF_SERVICE}:NoExecute"), "stays"),
        (pod(**ENDING), node("n1", "False", f"{OUT_OF_SERVICE}:NoExecute"), "fails and is deleted"),
        (pod(**ENDING), node("n1", "Unknown", f"{OUT_OF_SERVICE}:NoSchedule"),
         "fails and is deleted"),
        (pod(**ENDING), node("n1", "False", f"{OUT_OF_SERVICE}=any:PreferNoSchedule"),
         "fails and is deleted"),
        (pod(phase="Failed", **ENDING), node("n1", "False", f"{OUT_OF_SERVICE}:NoExecute"),
         "is deleted"),
        (pod(phase="Failed", **{**ENDING, "deletionGracePeriodSeconds": 0}),
         node("n1", "False", f"{OUT_OF_SERVICE}:NoExecute"), "stays"),
    ],
)  # fmt: skip
def test_a_pod_that_is_being_deleted_ends_without_a_node_or_on_one_out_of_service(
    each: Pod, where: Node | None, outcome: str
) -> None:
    writes = pod_garbage.reconcile(each, where)
    assert bool(deleted(writes)) == ("deleted" in outcome)
    assert [mark.body["status"]["phase"] for mark in patched(writes)] == (
        ["Failed"] if "fails" in outcome else []
    )
    assert "DisruptionTarget" not in str(writes)


@pytest.mark.parametrize(
    ("most", "phases", "gone"),
    [
        (1, "Failed Succeeded Failed", "ab"),
        (5, "Failed Succeeded", ""),
        (1, "Failed Succeeded", "a"),
        (1, "Failed Succeeded Evicted", "ca"),
        (2, "Failed Succeeded Evicted", "c"),
    ],
)
def test_the_oldest_finished_pods_go_evicted_ones_first(
    most: int, phases: str, gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_garbage, "MOST_FINISHED", most)
    pods = [
        pod(
            "abc"[number],
            phase="Failed" if phase == "Evicted" else phase,
            reason="Evicted" if phase == "Evicted" else "",
            creationTimestamp=f"2026-01-01T0{number}:00:00Z",
        )
        for number, phase in enumerate(phases.split())
    ]
    writes = Finished().reconcile(len(pods), lambda: pods, START)
    assert "".join(deleted(writes)) == gone
    assert patched(writes) == []


def test_finished_pods_are_sorted_once_in_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_garbage, "MOST_FINISHED", 0)
    finished, pods = Finished(), [pod(phase="Failed")]
    assert deleted(finished.reconcile(1, lambda: pods, START)) == ["p"]
    assert finished.reconcile(1, lambda: pods, at(5)) == [Again(PERIOD_SECONDS - 5)]
    assert deleted(finished.reconcile(1, lambda: pods, at(PERIOD_SECONDS))) == ["p"]
    assert finished.reconcile(0, lambda: pods, at(100)) == []
