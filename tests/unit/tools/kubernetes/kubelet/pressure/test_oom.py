"""Which container is killed for want of memory, and when it is started again."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.kube.quantity import value
from berth.tools.kubernetes.kubelet.pressure.oom import (
    Victim,
    next_backoff,
    next_victim,
    restarts,
    score_adjust,
)
from berth.tools.kubernetes.kubelet.usage_models import ContainerUsage, PodUsage
from tests.kit.documents import Document

from .objects import NODE_CRITICAL, NORMAL, SYSTEM_CRITICAL, container, pod, resources

GB = 10**9


def adjusted(
    containers: list[Document],
    qos: str,
    capacity: int,
    priority: int = NORMAL,
    **spec: Any,
) -> dict[str, int]:
    """Returns the oom_score_adj of each container."""
    scored = pod("p", priority, qos=qos, containers=containers, **spec)
    every = (*scored.spec.containers, *scored.spec.init_containers)
    return {c.name: score_adjust(scored, c, qos, capacity) for c in every}


@pytest.mark.parametrize(
    ("requests", "qos", "capacity", "adjust"),
    [
        ({}, "BestEffort", 4 * GB, 1000),
        ({"cpu": "1"}, "Burstable", 4 * GB, 999),
        ({"memory": "1G"}, "Guaranteed", 123_456_789, -997),
        ({"memory": "4G"}, "Burstable", 8 * GB, 500),
        ({"memory": "8G"}, "Burstable", 8 * GB, 3),
        ({"memory": "1G"}, "Burstable", 8 * GB, 875),
    ],
)
def test_containers_that_request_more_of_the_node_are_safer(
    requests: dict[str, str], qos: str, capacity: int, adjust: int
) -> None:
    assert adjusted([container("c", requests)], qos, capacity) == {"c": adjust}


def test_only_pods_critical_to_the_node_are_as_safe_as_guaranteed_ones() -> None:
    node = {"priorityClassName": "system-node-critical"}
    plain = [container("c")]
    assert adjusted(plain, "BestEffort", 4 * GB, NODE_CRITICAL, **node) == {"c": -997}
    assert adjusted(plain, "BestEffort", 4 * GB, SYSTEM_CRITICAL) == {"c": 1000}


def test_a_sidecar_is_at_least_as_safe_as_the_main_containers() -> None:
    main = [container("main", resources(memory="1G"))]

    def sidecar(request: str) -> Document:
        return {**container("side", resources(memory=request)), "restartPolicy": "Always"}

    capacity = 8 * GB
    small = adjusted(main, "Burstable", capacity, initContainers=[sidecar("1M")])
    large = adjusted(main, "Burstable", capacity, initContainers=[sidecar("4G")])
    assert (small, large) == ({"main": 875, "side": 875}, {"main": 875, "side": 500})


def test_what_a_pod_requests_beyond_its_containers_is_shared_among_them() -> None:
    own = {"requests": {"memory": "2G"}}
    both = [container("asks", resources(memory="1G")), container("other")]
    assert adjusted(both, "Burstable", 4 * GB, resources=own) == {"asks": 625, "other": 875}


def used(name: str, qos: str, memory: str, limit: str = "", **spec: Any) -> tuple[Any, ...]:
    requests = resources(memory="1Gi") if qos == "Burstable" else {}
    limited = pod(name, requests=requests, limits=resources(memory=limit), qos=qos, **spec)
    return limited, PodUsage((ContainerUsage(name, memory=value(memory)),)), qos


def victim(*rows: tuple[Any, ...], memory: str = "8Gi") -> tuple[str, bool] | None:
    killed = next_victim(
        [(limited, usage) for limited, usage, _ in rows],
        {limited.metadata.uid: qos for limited, _, qos in rows},
        value(memory),
    )
    return None if killed is None else (killed.container, killed.of_node)


def test_nobody_is_killed_while_the_memory_suffices() -> None:
    assert victim(used("a", "BestEffort", "5Gi"), used("b", "Burstable", "3Gi")) is None
    assert victim() is None
    assert victim(used("a", "BestEffort", "5Gi"), memory="0") is None


def test_the_highest_score_is_killed_when_the_node_is_exhausted() -> None:
    best_effort = used("a", "BestEffort", "1Gi")
    burstable = used("b", "Burstable", "3Gi")
    guaranteed = used("c", "Guaranteed", "7Gi")
    assert victim(best_effort, burstable, guaranteed) == ("b", True)
    assert victim(best_effort, guaranteed, memory="7Gi") == ("a", True)
    assert victim(guaranteed, memory="6Gi") == ("c", True)


def test_a_container_is_killed_for_its_own_limit_first() -> None:
    limited = used("limited", "Burstable", "1025Mi", limit="1Gi")
    assert victim(used("a", "BestEffort", "9Gi"), limited) == ("limited", False)
    assert victim(used("limited", "Burstable", "1Gi", limit="1Gi")) is None


def test_the_limit_of_a_pod_kills_one_of_its_containers() -> None:
    own = {"limits": {"memory": "2Gi"}}
    both = pod("p", containers=[container("small"), container("large")], resources=own)
    usage = PodUsage(
        (ContainerUsage("small", memory=value("1Gi")), ContainerUsage("large", memory=value("2Gi")))
    )
    killed = next_victim([(both, usage)], {"p": "Burstable"}, value("8Gi"))
    assert killed == Victim(both, "large")


@pytest.mark.parametrize(
    ("policy", "own", "restarted"),
    [
        ("Always", None, True),
        ("Never", None, False),
        ("Never", "OnFailure", True),
        ("Always", "Never", False),
    ],
)
def test_the_policy_of_a_killed_container_comes_before_that_of_its_pod(
    policy: str, own: str | None, restarted: bool
) -> None:
    killed = [{**container("c"), "restartPolicy": own}]
    assert restarts(pod("p", restartPolicy=policy, containers=killed), "c") is restarted
    assert restarts(pod("p", restartPolicy=policy, initContainers=killed), "c") is restarted


def test_restarts_wait_longer_and_longer_until_a_container_has_run_for_a_while() -> None:
    waits, now, before = [], 0.0, None
    for _ in range(8):
        before = next_backoff(before, now)
        waits.append(before[0])
        now = before[1] + 1.0
    assert waits == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert next_backoff(before, now + 598)[0] == 300.0
    assert next_backoff(before, now + 600)[0] == 0.0
