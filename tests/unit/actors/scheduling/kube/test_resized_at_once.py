"""What a pod requests while it is resized, as Kubernetes 1.37 counts it.

The rows of upstream_requests.jsonl have the pods and sums of Kubernetes 1.37's
component-helpers/resource/helpers_test.go: TestPodResourceRequests, TestPodLevelResourceRequests,
TestAggregateContainerRequestsAndLimits and TestPodRequestsAndLimitsVerticalScalingWrappers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.framework.changes import pod_changes
from berth.actors.scheduling.framework.events import Action
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.gated_fields import GatedFields
from berth.actors.scheduling.kube.quantity import nano_value
from berth.actors.scheduling.kube.requests import pod_requests
from berth.actors.scheduling.model.pod_info import PodInfos
from berth.config.feature_gates import defaults_of
from berth.config.versions import VERSIONS

GATES = {minor: defaults_of(VERSIONS[minor]) for minor in (36, 37)}
ROWS = [
    msgspec.json.decode(line)
    for line in Path(__file__).with_name("upstream_requests.jsonl").read_text().splitlines()
]
# Amounts that 1.36 counted differently.
BEFORE = {
    "TestAggregateContainerRequestsAndLimits 10": {},
    "TestAggregateContainerRequestsAndLimits 13": {"cpu": 1000},
}


def read(minor: int, document: Any, **gates: bool) -> Pod:
    return GatedFields({**GATES[minor], **gates}).drop(msgspec.convert(document, Pod))


def amounts(row: Any) -> dict[str, int]:
    return {
        name: -(-nano_value(text) // 10 ** (6 if name == "cpu" else 9))
        for name, text in row["requests"].items()
    }


@pytest.mark.parametrize("minor", [36, 37])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["from"])
def test_the_rows_of_upstream(row: Any, minor: int) -> None:
    options = {name: name in row["options"] for name in ("status", "podLevel", "podLevelStatus")}
    gates = {"InPlacePodLevelResourcesVerticalScaling": options["podLevelStatus"]}
    pod = read(minor, row["pod"], **gates)
    requests = pod_requests(pod, pod_level=options["podLevel"], status=options["status"])
    expected = BEFORE.get(row["from"]) if minor == 36 else None
    assert requests == (amounts(row) if expected is None else expected)


def sized(name: str, cpu: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}}


def swapped(first: str, second: str, **status: Any) -> dict[str, Any]:
    """Returns a pod that requests 5 and 1 cpu, of which its node reports these amounts."""
    reported = [
        {**sized(name, cpu), "allocatedResources": {"cpu": cpu}}
        for name, cpu in (("a", first), ("b", second))
    ]
    return {
        "spec": {"nodeName": "n", "containers": [sized("a", "5"), sized("b", "1")]},
        "status": {"containerStatuses": reported, **status},
    }


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
INIT = {"name": "i", "resources": {"requests": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("pod", "before", "cpu"),
    [
        (swapped("1", "5"), 10_000, 6000),
        (swapped("1", "1"), 6000, 6000),
        (swapped("7", "1"), 8000, 8000),
        (swapped("1", "2", **INFEASIBLE), 3000, 3000),
        # The status of an init container that is no sidecar counts.
        (
            {
                "spec": {"initContainers": [INIT]},
                "status": {"initContainerStatuses": [sized("i", "4")]},
            },
            1000,
            4000,
        ),
        # What is allocated counts before the amounts in effect are reported.
        (
            {
                "spec": {"containers": [sized("a", "1")]},
                "status": {
                    "containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "2"}}]
                },
            },
            1000,
            2000,
        ),
        # Of an infeasible resize nothing counts before the node reports amounts.
        ({"spec": {"containers": [sized("a", "1")]}, "status": INFEASIBLE}, 1000, 0),
        # A request of the pod that the status lacks is left to the containers.
        (
            {
                "spec": {
                    "containers": [sized("a", "1")],
                    "resources": {"requests": {"cpu": "3"}},
                },
                "status": {
                    "containerStatuses": [sized("a", "1")],
                    "resources": {"requests": {"memory": "1"}},
                    **INFEASIBLE,
                },
            },
            0,
            1000,
        ),
    ],
)
def test_the_largest_sum_counts(pod: Any, before: int, cpu: int) -> None:
    assert pod_requests(read(36, pod))["cpu"] == before
    assert pod_requests(read(37, pod)).get("cpu", 0) == cpu
    assert PodInfos().of(read(37, pod)).requests.get("cpu", 0) == cpu


def test_a_pod_counts_so_on_its_node_and_in_hints() -> None:
    resized, done = read(37, swapped("1", "5")), read(37, swapped("5", "1"))
    infos = PodInfos()
    assert infos.of(resized).requests == {"cpu": 6000}
    assert pod_changes(resized, done) == (Action.UPDATE_OTHER,)
    before = [read(36, swapped(*amounts)) for amounts in (("1", "5"), ("5", "1"))]
    assert pod_changes(*before) == (Action.UPDATE_POD_SCALE_DOWN,)
