"""Budgets and evictions in a cluster, in virtual time: what expires, and what recovers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from berth.actors.client.rest import ApiError
from berth.testing import Cluster, budget, deployment, node, pod
from berth.tools.testing.pods import condition, reason_of
from tests.kit.documents import Document

pytestmark = pytest.mark.cluster(nodes=2)

LABELS = {"app": "x"}
SPEC: Document = {"containers": [{"name": "c", "image": "i"}]}
BEGIN = "2026-01-01T00:00:00Z"  # of virtual time


async def pods(cluster: Cluster, count: int) -> list[str]:
    """Creates pods, and waits until they are ready."""
    names = [f"p{number}" for number in range(count)]
    await cluster.add(*(pod(name, labels=LABELS) for name in names))
    await cluster.until(cluster.pods(**LABELS).running)
    return names


async def allows(cluster: Cluster, disruptions: int, limit: float = 30.0) -> Document:
    """Waits until the budget b allows so many disruptions; returns its status."""

    def allowed() -> bool:
        status = cluster.get("PodDisruptionBudget", "b").get("status") or {}
        healthy = status.get("currentHealthy", 0) > 0
        return bool(healthy and status.get("disruptionsAllowed", 0) == disruptions)

    await cluster.until(allowed, limit)
    status: Document = cluster.get("PodDisruptionBudget", "b")["status"]
    return status


@pytest.mark.full("long")
async def test_a_granted_eviction_without_a_deletion_is_forgotten_after_two_minutes(
    cluster: Cluster,
) -> None:
    await pods(cluster, 2)
    await cluster.add(budget("b", app="x", min_available=1))
    await allows(cluster, 1)
    granted = {"status": {"disruptedPods": {"p0": BEGIN}}}
    await cluster.patch("PodDisruptionBudget", "b", granted, subresource="status")
    await allows(cluster, 0)
    assert cluster.now < 60
    assert not (await allows(cluster, 1, 300)).get("disruptedPods")
    assert 120 <= cluster.now < 130
    assert len(cluster.events("NotDeleted")) == 1


@pytest.mark.full("long")
async def test_a_disruption_target_without_a_deletion_is_taken_back_after_two_minutes(
    cluster: Cluster,
) -> None:
    await pods(cluster, 1)
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    told = {"status": {"conditions": [{**target, "lastTransitionTime": BEGIN}]}}
    await cluster.patch("Pod", "p0", told, subresource="status")

    def taken_back() -> bool:
        return condition(cluster.get("Pod", "p0"), "DisruptionTarget") == "False"

    await cluster.until(taken_back, 300)
    assert 120 <= cluster.now < 130
    assert cluster.pod("p0").running()


async def test_a_budget_recovers_once_its_pods_can_be_counted(cluster: Cluster) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": SPEC}
    spec = {"selector": {"matchLabels": LABELS}, "template": template}
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}}
    await cluster.add({**daemons, "spec": spec}, budget("b", app="x", max_unavailable=1))
    stored = cluster.get("PodDisruptionBudget", "b")

    def failed() -> bool:
        nonlocal stored
        stored = cluster.get("PodDisruptionBudget", "b")
        return reason_of(stored, "DisruptionAllowed") == "SyncFailed"

    await cluster.until(failed)
    problem = "daemonsets.apps does not implement the scale subresource"
    assert stored["status"]["conditions"][0]["message"] == problem
    assert cluster.events("CalculateExpectedPodCountFailed")
    change: dict[str, Any] = {
        "metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
        "spec": {"maxUnavailable": None, "minAvailable": 1},
    }
    await cluster.patch("PodDisruptionBudget", "b", change)
    status = await allows(cluster, 1)
    assert status["conditions"][0]["reason"] == "SufficientPods"
    assert status["observedGeneration"] == 2


async def test_a_new_scale_changes_what_a_budget_expects(cluster: Cluster) -> None:
    await cluster.add(deployment("x", replicas=4), budget("b", app="x", max_unavailable="25%"))
    await allows(cluster, 1)
    await cluster.add(node("node-3"))
    await cluster.scale("Deployment", "x", 8)
    assert (await allows(cluster, 2))["expectedPods"] == 8


async def test_clients_that_evict_at_once_share_the_permissions(cluster: Cluster) -> None:
    names = await pods(cluster, 6)
    await cluster.add(budget("b", app="x", min_available=4))
    await allows(cluster, 2)
    answers: list[tuple[int, float | None]] = []

    async def ask(name: str) -> None:
        answers.append(await evicted(cluster, name))

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(ask, name)
    assert sorted(answers, key=str) == [(201, None)] * 2 + [(429, None)] * 4


@pytest.mark.cluster(controllers=False, kubelets=False, scheduler=False)
async def test_a_budget_that_no_controller_has_seen_asks_clients_to_wait(cluster: Cluster) -> None:
    await cluster.add(pod("p", labels=LABELS), budget("b", app="x", min_available=0))
    ready = [{"type": "Ready", "status": "True"}]
    status = {"status": {"phase": "Running", "conditions": ready}}
    await cluster.patch("Pod", "p", status, subresource="status")
    assert await evicted(cluster, "p") == (429, 10.0)


async def evicted(cluster: Cluster, name: str) -> tuple[int, float | None]:
    """Returns the code of the answer, and after how many seconds to ask again."""
    try:
        await cluster.evict(name)
    except ApiError as refused:
        return refused.code, refused.retry_after
    return 201, None
