"""How many replicas a metric asks for; the facts are those of upstream's replica calculator."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.autoscaling.replicas import (
    Goal,
    NoMetricsError,
    PodMetric,
    Proposal,
    Tolerances,
    propose,
    requests_of,
)
from berth.tools.kubernetes.objects.structs import Pod, read
from tests.kit.cases import texts

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
LONG_AGO, JUST_NOW = "2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z"
SAMPLED = NOW - 5


def pod(name: str, state: str, *containers: dict[str, str], **spec: Any) -> Pod:
    """Returns a pod that is ready, unready, hot (just started), pending, failed, gone (deleted
    while ready) or succeeded.
    """
    started = JUST_NOW if state == "hot" else LONG_AGO
    ready = "False" if state in ("unready", "pending") else "True"
    status = {
        "phase": {"pending": "Pending", "failed": "Failed"}.get(state, "Running"),
        "startTime": started,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": started}],
    }
    metadata = {"name": name} | ({"deletionTimestamp": JUST_NOW} if state == "gone" else {})
    made = [
        {"name": f"c{i}", "resources": {"requests": requests}}
        for i, requests in enumerate(containers or ({"cpu": "1"},))
    ]
    return read({"metadata": metadata, "spec": {"containers": made, **spec}, "status": status}, Pod)


def proposed(
    states: str, levels: str, target: str, current: str, tolerances: Tolerances, resource: str
) -> Proposal:
    """Returns the proposal for pods that each request 1000; a level - is a missing metric."""
    pods = [pod(f"p{i}", state) for i, state in enumerate(states.split())]
    metrics = {
        f"p{i}": PodMetric(int(level), SAMPLED, 60)
        for i, level in enumerate(levels.split())
        if level != "-"
    }
    goal = Goal(int(target.rstrip("%")))
    if target.endswith("%"):
        goal = Goal(goal.amount, requests_of(pods, "", "cpu"))
    return propose(pods, metrics, resource, lambda: goal, int(current), tolerances, NOW)


@pytest.mark.parametrize(
    ("states", "levels", "target", "current", "replicas", "shown"),
    texts("""
ready ready ready => 300 500 700 => 30% => 3 => 5 => 50%
unready ready ready => 300 500 700 => 30% => 3 => 4 => 60%
hot ready ready => 300 500 700 => 30% => 3 => 4 => 60%
ready unready unready => 400 500 700 => 30% => 3 => 3 => 40%
ready hot hot => 400 500 700 => 30% => 3 => 3 => 40%
ready ready failed failed => 500 700 - - => 30% => 2 => 4 => 60%
ready ready gone gone => 500 700 - - => 30% => 2 => 4 => 60%
ready ready gone gone => 500 700 900 900 => 30% => 2 => 4 => 60%
ready ready ready ready ready => 100 300 500 250 250 => 50% => 5 => 3 => 28%
ready ready ready unready unready => 100 300 500 250 250 => 50% => 5 => 2 => 30%
ready pending pending pending pending => 100 - - - - => 50% => 5 => 1 => 10%
ready ready ready unready => 475 475 475 475 => 50% => 4 => 4 => 47%
ready => 600 => 50% => 5 => 2 => 60%
ready ready ready hot hot => 100 300 500 250 250 => 50% => 5 => 2 => 30%
ready ready ready ready ready failed failed => 100 300 500 250 250 - - => 50% => 5 => 3 => 28%
ready ready ready => 1010 1030 1020 => 100% => 3 => 3 => 102%
ready ready ready ready => 400 95 - - => 100% => 4 => 3 => 24%
ready ready => 1000 - => 100% => 2 => 2 => 100%
ready ready => 1900 - => 100% => 2 => 2 => 190%
ready ready => 600 - => 100% => 2 => 2 => 60%
unready ready ready => 100 450 - => 50% => 3 => 3 => 45%
hot ready ready => 100 450 - => 50% => 3 => 3 => 45%
unready ready ready => 100 2000 - => 50% => 3 => 4 => 200%
unready ready ready ready => 100 100 100 - => 50% => 4 => 3 => 10%
unready ready ready ready => 200 100 - - => 300% => 4 => 3 => 10%
ready ready ready => 100 100 - => 50% => 2 => 2 => 10%
ready ready ready => 20000 10000 30000 => 15000 => 3 => 4 => 20000
ready ready ready ready ready => 12000 12000 12000 12000 12000 => 20000 => 5 => 3 => 12000
ready ready ready => 20000 21000 21000 => 20000 => 3 => 3 => 20666
ready ready ready ready ready => 20000 19000 21000 - - => 20000 => 5 => 5 => 20000
ready ready ready => 10000 10000 - => 17000 => 2 => 2 => 10000
"""),
)
def test_replicas(
    states: str, levels: str, target: str, current: str, replicas: str, shown: str
) -> None:
    proposal = proposed(states, levels, target, current, Tolerances(), "cpu")
    average = proposal.average if proposal.utilization is None else f"{proposal.utilization}%"
    assert (str(proposal.replicas), str(average)) == (replicas, shown)


@pytest.mark.parametrize(
    ("levels", "down", "up", "replicas"),
    [
        ("1010 1010 1010", 0.0, 0.0, 4),
        ("1900 1900 1900", 0.1, 2.0, 3),
        ("1090 1090 1090", 2.0, 0.08, 4),
        ("650 650 650", 0.4, 0.1, 3),
        ("650 650 650", 0.3, 2.0, 2),
    ],
)
def test_tolerances_by_direction(levels: str, down: float, up: float, replicas: int) -> None:
    tolerances = Tolerances(down, up)
    assert (
        proposed("ready ready ready", levels, "100%", "3", tolerances, "cpu").replicas == replicas
    )


def test_memory_of_pods_that_are_not_ready_counts() -> None:
    assert proposed("unready hot ready", "4000 4000 1000", "1000", "3", Tolerances(), "memory") == (
        Proposal(9, 3000)
    )


def test_a_sample_counts_once_its_window_lies_after_the_pod_became_ready() -> None:
    started = "2025-12-31T23:58:00Z"
    status = {"phase": "Running", "startTime": started}

    def replicas(ready_since: str) -> int:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": ready_since}
        young = read(
            {"metadata": {"name": "young"}, "status": {**status, "conditions": [ready]}}, Pod
        )
        metrics = {name: PodMetric(2000, SAMPLED, 15) for name in ("old", "young")}
        pods = [pod("old", "ready"), young]
        return propose(pods, metrics, "cpu", lambda: Goal(1000), 2, Tolerances(), NOW).replicas

    assert replicas("2025-12-31T23:59:40Z") == 4
    assert replicas("2025-12-31T23:59:41Z") == 2  # as much as if it used nothing


@pytest.mark.parametrize(
    ("states", "levels", "problem"),
    [
        ("", "", "no pods returned by selector while calculating replica count"),
        ("pending", "-", "did not receive metrics for targeted pods (pods might be unready)"),
    ],
)
def test_without_metrics(states: str, levels: str, problem: str) -> None:
    with pytest.raises(NoMetricsError) as raised:
        proposed(states, levels, "50%", "1", Tolerances(), "cpu")
    assert str(raised.value) == problem


def test_requests_are_those_of_the_pod_or_of_its_containers() -> None:
    two = pod("p", "ready", {"cpu": "500m", "memory": "1Ki"}, {"cpu": "1"})
    assert requests_of([two], "", "cpu") == {"p": 1500}
    assert requests_of([two], "c1", "cpu") == {"p": 1000}
    assert requests_of([two], "c0", "memory") == {"p": 1024_000}
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": 2}}}
    setup = {"name": "i", "resources": {"requests": {"cpu": 9}}}
    beside = pod("p", "ready", initContainers=[sidecar, setup])
    assert requests_of([beside], "", "cpu") == {"p": 3000}
    whole = pod("p", "ready", resources={"requests": {"cpu": "4", "memory": "1Ki"}})
    assert requests_of([whole], "", "cpu") == {"p": 4000}
    assert requests_of([whole], "", "memory") == {"p": 1024_000}
    assert requests_of([whole], "c0", "cpu") == {"p": 1000}
    for container, resource, problem in (
        ("", "memory", "missing request for memory in container c1 of Pod p"),
        ("x", "cpu", "container x not found in Pod p"),
    ):
        with pytest.raises(NoMetricsError, match=problem):
            requests_of([two], container, resource)
