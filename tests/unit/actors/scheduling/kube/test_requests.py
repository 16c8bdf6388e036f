"""Examples of pod requests."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.requests import (
    exact_limits,
    exact_requests,
    nonzero_requests,
    pod_requests,
)
from berth.actors.scheduling.model.pod_template import PodTemplate


def pod(status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    return msgspec.convert({"spec": spec, "status": status or {}}, Pod)


def container(name: str = "c", restart: str | None = None, **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}, "restartPolicy": restart}


@pytest.mark.parametrize(
    ("subject", "cpu"),
    [
        (pod(containers=[container(cpu="100m"), container(cpu="1")]), 1100),
        (pod(containers=[container(cpu="1")], initContainers=[container(cpu="2")]), 2000),
        (
            pod(
                containers=[container(cpu="1")], initContainers=[container("s", "Always", cpu="2")]
            ),
            3000,
        ),
        (
            pod(
                containers=[container(cpu="1")],
                initContainers=[container("s", "Always", cpu="2"), container("i", cpu="3")],
            ),
            5000,
        ),
        (pod(containers=[container(cpu="1")], overhead={"cpu": "250m"}), 1250),
        (pod(containers=[container(cpu="1")], resources={"requests": {"cpu": "4"}}), 4000),
        (pod(containers=[container(cpu="0.5m"), container(cpu="0.5m")]), 1),
    ],
)
def test_cpu(subject: Pod, cpu: int) -> None:
    assert pod_requests(subject)["cpu"] == cpu


INFEASIBLE = [{"type": "PodResizePending", "reason": "Infeasible"}]


def reported(
    name: str = "c", resources: str | None = None, allocated: str | None = None
) -> dict[str, Any]:
    """Returns a container's status with these amounts of cpu."""
    status: dict[str, Any] = {"name": name}
    if resources is not None:
        status["resources"] = {"requests": {"cpu": resources}}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated}
    return status


ONE_OF_EACH: dict[str, Any] = {
    "containers": [container(cpu="1")],
    "initContainers": [container("sidecar", "Always", cpu="1"), container("init", cpu="1")],
}


@pytest.mark.parametrize(
    ("spec", "status", "cpu"),
    [
        # Allocated amounts do not count until the actual ones are reported.
        (
            {"containers": [container(cpu="1")]},
            {"containerStatuses": [reported(allocated="5")]},
            1000,
        ),
        (
            {"containers": [container(cpu="1")]},
            {"containerStatuses": [reported(resources="3", allocated="5")]},
            5000,
        ),
        (
            {"containers": [container(cpu="6")]},
            {"containerStatuses": [reported(resources="3", allocated="5")]},
            6000,
        ),
        (
            {"containers": [container(cpu="6")]},
            {
                "containerStatuses": [reported(resources="3", allocated="5")],
                "conditions": INFEASIBLE,
            },
            5000,
        ),
        # The first such condition counts.
        (
            {"containers": [container(cpu="6")]},
            {
                "containerStatuses": [reported(resources="3")],
                "conditions": [{"type": "PodResizePending", "reason": "Deferred"}, *INFEASIBLE],
            },
            6000,
        ),
        # A sidecar can be resized; other init containers cannot.
        (ONE_OF_EACH, {}, 2000),
        (ONE_OF_EACH, {"initContainerStatuses": [reported("sidecar", resources="4")]}, 5000),
        (ONE_OF_EACH, {"initContainerStatuses": [reported("init", resources="4")]}, 2000),
        (
            ONE_OF_EACH,
            {"initContainerStatuses": [reported("init", "4")], "conditions": INFEASIBLE},
            2000,
        ),
    ],
)
def test_the_status_of_a_container(spec: dict[str, Any], status: dict[str, Any], cpu: int) -> None:
    assert pod_requests(pod(status, **spec))["cpu"] == cpu


WHOLE: dict[str, Any] = {
    "containers": [container(cpu="1")],
    "resources": {"requests": {"cpu": "2"}},
    "overhead": {"cpu": "500m"},
}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        ({}, 2500),
        ({"resources": {"requests": {"cpu": "3"}}}, 3500),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "4"}}, 4500),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}, 2500),
        ({"resources": {"requests": {"cpu": "1"}}, "conditions": INFEASIBLE}, 1500),
        ({"resources": {"requests": {"memory": "1"}}, "conditions": INFEASIBLE}, 500),
        ({"allocatedResources": {"cpu": "4"}}, 2500),
        ({"allocatedResources": {"cpu": "4"}, "conditions": INFEASIBLE}, 2500),
    ],
)
def test_the_status_of_a_pod_with_requests_of_its_own(status: dict[str, Any], cpu: int) -> None:
    assert pod_requests(pod(status, **WHOLE))["cpu"] == cpu


def test_only_resources_of_the_pods_own_requests_are_taken_from_its_status() -> None:
    status = {"resources": {"requests": {"cpu": "3", "memory": "7"}}}
    assert pod_requests(pod(status, **WHOLE)) == {"cpu": 3500}


def test_the_requests_of_a_pending_pod_come_from_its_spec() -> None:
    status = {
        "containerStatuses": [reported(resources="3")],
        "resources": {"requests": {"cpu": "3"}},
    }
    whole = PodTemplate(pod(status, **WHOLE))
    parts = PodTemplate(pod(status, containers=[container(cpu="1")]))
    assert (whole.requests["cpu"], whole.spec_requests["cpu"]) == (3500, 2500)
    assert (parts.requests["cpu"], parts.spec_requests["cpu"]) == (3000, 1000)
    assert (parts.nonzero[0], parts.scoring_requests[0]) == (3000, 1000)
    assert whole.container_requests["cpu"] == 1500


def test_during_a_resize_the_largest_amount_counts_unless_it_is_infeasible() -> None:
    status = {
        "containerStatuses": [
            {
                "name": "c",
                "resources": {"requests": {"cpu": "2"}},
                "allocatedResources": {"cpu": "1"},
            },
        ]
    }
    resized = pod(status, containers=[container(cpu="8")])
    assert pod_requests(resized)["cpu"] == 8000
    given_up = {**status, "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
    assert pod_requests(pod(given_up, containers=[container(cpu="8")]))["cpu"] == 2000


def test_a_container_without_requests_counts_with_the_default() -> None:
    assert nonzero_requests(pod(containers=[container(), container(cpu="1")])) == (
        1100,
        400 * 1024 * 1024,
    )


MILLI = 10**6  # a thousandth, in billionths


def limited(name: str = "c", restart: str | None = None, **limits: str) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": limits}, "restartPolicy": restart}


def test_exact_requests_are_those_of_the_spec_whatever_the_status() -> None:
    subject = pod(
        {"containerStatuses": [reported(resources="9", allocated="9")]},
        containers=[container(cpu="0.5m", memory="1Mi"), container("d", cpu="0.1m")],
        resources={"requests": {"memory": "3Mi", "nvidia.com/gpu": "7"}},
        overhead={"memory": "1Mi", "cpu": "1m"},
    )
    assert exact_requests(subject.spec) == {"cpu": 1_600_000, "memory": (4 << 20) * 10**9}


@pytest.mark.parametrize(
    ("subject", "cpu"),
    [
        (pod(containers=[limited(cpu="100m"), limited("d", cpu="1")]), 1100),
        (pod(containers=[limited(cpu="1")], initContainers=[limited("i", cpu="2")]), 2000),
        (
            pod(containers=[limited(cpu="1")], initContainers=[limited("s", "Always", cpu="2")]),
            3000,
        ),
        (pod(containers=[limited(cpu="1")], resources={"limits": {"cpu": "4"}}), 4000),
        (pod(containers=[limited(cpu="1")], resources={"requests": {"cpu": "4"}}), 1000),
        (pod(containers=[limited(cpu="1")], overhead={"cpu": "250m"}), 1250),
        (pod(containers=[limited(cpu="0")], overhead={"cpu": "250m"}), 0),
    ],
)
def test_exact_limits_add_overhead_only_where_there_is_a_limit(subject: Pod, cpu: int) -> None:
    assert exact_limits(subject.spec) == {"cpu": cpu * MILLI}


def test_a_pod_without_limits_has_none() -> None:
    assert exact_limits(pod(containers=[container(cpu="1")], overhead={"cpu": "1"}).spec) == {}


INIT = st.tuples(st.booleans(), st.dictionaries(st.sampled_from("abc"), st.integers(0, 4)))


@given(st.lists(INIT, max_size=6), st.dictionaries(st.sampled_from("abc"), st.integers(0, 4)))
def test_an_init_container_runs_beside_the_sidecars_so_far(
    inits: list[tuple[bool, dict[str, int]]], requests: dict[str, int]
) -> None:
    sidecars: Counter[str] = Counter()
    steps = []
    for is_sidecar, amounts in inits:
        steps.append(Counter(sidecars) + Counter(amounts))
        if is_sidecar:
            sidecars += Counter(amounts)
    steps.append(sidecars + Counter(requests))
    expected = {name: max(step[name] for step in steps) for name in "abc"}

    def named(amounts: dict[str, int]) -> dict[str, str]:
        return {f"example.com/{name}": str(amount) for name, amount in amounts.items()}

    init_containers = [
        container("i", "Always" if is_sidecar else None, **named(amounts))
        for is_sidecar, amounts in inits
    ]
    total = pod_requests(
        pod(containers=[container(**named(requests))], initContainers=init_containers)
    )
    assert {name: total.get(f"example.com/{name}", 0) for name in "abc"} == expected


def test_many_init_containers_are_not_compared_with_each_other() -> None:
    def lines(number: int) -> int:
        """Returns how many lines of code run for so many init containers."""
        init_containers = [
            container(f"c{i}", "Always" if i % 2 else None, **{f"example.com/r{i}": "1"})
            for i in range(number)
        ]
        huge, ran = pod(containers=[container()], initContainers=init_containers), 0

        def count(_frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal ran
            ran += event == "line"
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            pod_requests(huge)
        finally:
            sys.settrace(before)
        return ran

    assert lines(400) < 3 * lines(200)


@pytest.mark.parametrize(
    ("resources", "are_set"),
    [
        (None, False),
        ({}, False),
        ({"requests": {}}, False),
        ({"limits": {}}, False),
        ({"requests": {"ephemeral-storage": "1Mi"}}, False),
        ({"requests": {"ephemeral-storage": "1Mi", "cpu": "1m"}}, True),
        ({"requests": {"hugepages-2Mi": "2Mi"}}, True),
    ],
)
def test_empty_resources_of_a_pod_count_as_absent(resources: Any, are_set: bool) -> None:
    """Rows of TestIsPodLevelResourcesSet in Kubernetes 1.37's component-helpers/resource/
    helpers_test.go, and the cases of kubernetes#137150.
    """
    subject = pod(containers=[container(cpu="3")], resources=resources)
    own = (resources or {}).get("requests", {})
    assert pod_requests(subject)["cpu"] == (1 if are_set and "cpu" in own else 3000)
    assert "ephemeral-storage" not in pod_requests(subject)
    # The default of a container without memory holds, as if the pod had no resources of its own.
    assert nonzero_requests(subject)[1] == 200 * 1024 * 1024
    assert PodTemplate(subject).container_requests == {"cpu": 3000}
