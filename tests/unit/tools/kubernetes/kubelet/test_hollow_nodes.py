"""What a kubelet adds to the status of its node."""

from __future__ import annotations

from typing import Any

from berth.tools.kubernetes.kubelet.hollow_nodes import NodeSteps, hollow_node, missing_status
from berth.tools.kubernetes.kubelet.stages.actions import RecordEvent

TIME = "2026-01-01T00:00:00Z"


def posted(*conditions: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Returns status, reason and last transition of the conditions that a kubelet posts."""
    node = {**hollow_node(1), "status": {"conditions": list(conditions)}}
    return {
        each["type"]: (each["status"], each["reason"], each["lastTransitionTime"])
        for each in missing_status(node, "10.0.0.1", TIME, "v1.37.0").get("conditions", ())
        if each["lastHeartbeatTime"] == TIME
    }


def test_a_kubelet_posts_four_conditions() -> None:
    assert posted() == {
        "Ready": ("True", "KubeletReady", TIME),
        "MemoryPressure": ("False", "KubeletHasSufficientMemory", TIME),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure", TIME),
        "PIDPressure": ("False", "KubeletHasSufficientPID", TIME),
    }


def test_conditions_of_a_file_stay_as_they_are() -> None:
    since = "2025-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "False", "reason": "Broken", "lastTransitionTime": since}
    disk = {"type": "DiskPressure", "status": "True", "lastHeartbeatTime": since}
    conditions = posted(ready, disk)
    assert conditions["Ready"] == ("False", "Broken", since)
    assert conditions.keys() == {"Ready", "MemoryPressure", "PIDPressure"}


def told_by_registration(node: dict[str, Any]) -> list[str]:
    actions = NodeSteps(lambda _: "10.0.0.1", TIME, "v1.37.0").run("register", node, 0.0)
    return [action.reason for action in actions if isinstance(action, RecordEvent)]


def test_a_kubelet_tells_that_it_starts_and_what_it_posts() -> None:
    healthy = ["NodeReady", "NodeHasSufficientMemory", "NodeHasNoDiskPressure"]
    assert told_by_registration(hollow_node(1)) == ["Starting", *healthy, "NodeHasSufficientPID"]


def test_a_kubelet_does_not_tell_what_a_file_says() -> None:
    node = hollow_node(1)
    node["status"] |= {
        "nodeInfo": {"kubeletVersion": "v1"},
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Broken"},
            {"type": "DiskPressure", "status": "False"},
        ],
    }
    assert told_by_registration(node) == ["NodeHasSufficientMemory", "NodeHasSufficientPID"]
