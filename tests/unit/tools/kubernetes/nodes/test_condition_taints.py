"""The taints and labels that follow from a node's state."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.nodes import condition_taints
from berth.tools.kubernetes.nodes.condition_taints import missing_labels
from tests.unit.tools.kubernetes.nodes.objects import START, node, patched, taints_in

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("conditions", "added"),
    [
        ({}, []),
        ({"DiskPressure": "True"}, ["disk-pressure"]),
        ({"DiskPressure": "Unknown"}, []),
        ({"MemoryPressure": "True", "PIDPressure": "True"}, ["memory-pressure", "pid-pressure"]),
        ({"NetworkUnavailable": "True"}, ["network-unavailable"]),
        ({"ready": "False"}, ["not-ready"]),
        ({"ready": "Unknown", "DiskPressure": "True"}, ["unreachable", "disk-pressure"]),
        ({"ready": ""}, []),
    ],
)
def test_each_condition_has_its_taint_and_other_taints_stay(
    conditions: dict[str, Any], added: list[str]
) -> None:
    tainted = node("n1", conditions.pop("ready", "True"), "mine=1:NoSchedule", **conditions)
    writes = patched(condition_taints.reconcile(tainted, START))
    expected = [f"{key}:NoSchedule" for key in added]
    assert [key for write in writes for key in taints_in(write)[1:]] == expected


def test_a_taint_goes_with_its_condition() -> None:
    outdated = [f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute"]
    outdated.append("node.kubernetes.io/disk-pressure:NoSchedule")
    cured = node("n1", "True", "mine:NoSchedule", *outdated, "mine:NoExecute")
    (write,) = patched(condition_taints.reconcile(cured, START))
    assert taints_in(write) == ["mine:NoSchedule", "mine:NoExecute"]
    assert write.body["metadata"] == {"resourceVersion": "1"}, "nobody's taints may be undone"


def test_a_failing_node_is_not_tainted_with_no_execute_here_but_its_taint_is_swapped() -> None:
    (write,) = patched(condition_taints.reconcile(node("n1", "Unknown"), START))
    assert taints_in(write) == ["unreachable:NoSchedule"]
    before = node("n1", "Unknown", f"{NOT_READY}:NoSchedule", f"{NOT_READY}:NoExecute")
    (write,) = patched(condition_taints.reconcile(before, START))
    assert taints_in(write) == ["unreachable:NoSchedule", "unreachable:NoExecute"]
    assert {each["timeAdded"] for each in write.body["spec"]["taints"]} == {"2026-01-01T00:00:00Z"}
    settled = node("n1", "Unknown", f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute")
    assert condition_taints.reconcile(settled, START) == []


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        ({}, {}),
        ({"kubernetes.io/os": "linux"}, {"beta.kubernetes.io/os": "linux"}),
        ({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}, {}),
        (
            {"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "amd64"},
            {"beta.kubernetes.io/arch": "arm64"},
        ),
        ({"beta.kubernetes.io/os": "linux"}, {}),
    ],
)
def test_the_older_labels_repeat_the_newer_ones(
    labels: dict[str, str], missing: dict[str, str]
) -> None:
    assert missing_labels(labels) == missing
    writes = patched(condition_taints.reconcile(node(labels=labels), START))
    assert [write.body["metadata"]["labels"] for write in writes] == ([missing] if missing else [])
