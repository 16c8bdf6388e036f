"""What a pod asks for, by example."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.kube.core import Pod
from actors.kube.requests import nonzero_requests, pod_requests


def pod(status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    return msgspec.convert({"spec": spec, "status": status or {}}, Pod)


def container(name: str = "c", restart: str | None = None, **requests: str) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}, "restartPolicy": restart}


@pytest.mark.parametrize(
    ("given", "cpu"),
    [
        (pod(containers=[container(cpu="100m"), container(cpu="1")]), 1100),
        (pod(containers=[container(cpu="1")], initContainers=[container(cpu="2")]), 2000),
        (pod(containers=[container(cpu="1")], initContainers=[container("s", "Always", cpu="2")]), 3000),
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
def test_cpu(given: Pod, cpu: int) -> None:
    assert pod_requests(given)["cpu"] == cpu


def test_a_resize_counts_the_largest_until_it_is_infeasible() -> None:
    status = {
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "1"}},
        ]
    }
    resized = pod(status, containers=[container(cpu="8")])
    assert pod_requests(resized)["cpu"] == 8000
    given_up = {**status, "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}]}
    assert pod_requests(pod(given_up, containers=[container(cpu="8")]))["cpu"] == 2000


def test_a_container_without_requests_stands_for_the_default() -> None:
    assert nonzero_requests(pod(containers=[container(), container(cpu="1")])) == (1100, 400 * 1024 * 1024)
