"""Budgets and evictions in a toy cluster, in virtual time: what expires, and what recovers."""

from __future__ import annotations

from typing import Any

import aiohttp
import anyio

from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit.cluster import Cluster, cluster, toy_cluster
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

LABELS = {"app": "x"}
SPEC: Document = {"containers": [{"name": "c", "image": "i"}]}
BEGIN = "2026-01-01T00:00:00Z"  # of virtual time
NODES = 2


async def budget(running: Cluster, **spec: Any) -> None:
    selected = {"selector": {"matchLabels": LABELS}, **spec}
    await running.create("PodDisruptionBudget", {"metadata": {"name": "b"}, "spec": selected})


async def pods(running: Cluster, count: int) -> list[str]:
    """Creates pods, and waits until they are ready."""
    names = [f"p{number}" for number in range(count)]
    for name in names:
        await running.create("Pod", {"metadata": {"name": name, "labels": LABELS}, "spec": SPEC})
    for name in names:
        await running.status("Pod", name, is_ready)
    return names


def is_ready(status: Document) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))


async def allows(running: Cluster, disruptions: int, seconds: float = 30.0) -> Document:
    return await running.status(
        "PodDisruptionBudget",
        "b",
        lambda status: (
            status.get("currentHealthy", 0) > 0
            and status.get("disruptionsAllowed", 0) == disruptions
        ),
        seconds,
    )


async def reasons(running: Cluster) -> list[str]:
    return [event["reason"] for event in await running.all("Event")]


@in_long_virtual_time
async def test_a_granted_eviction_without_a_deletion_is_forgotten_after_two_minutes() -> None:
    async with toy_cluster(NODES) as running:
        await pods(running, 2)
        await budget(running, minAvailable=1)
        await allows(running, 1)
        granted = {"status": {"disruptedPods": {"p0": BEGIN}}}
        await running.patch("PodDisruptionBudget", "b", granted, "/status")
        await allows(running, 0)
        assert anyio.current_time() < 60
        stored = await allows(running, 1, seconds=300)
        assert 120 <= anyio.current_time() < 130
        assert not stored["status"].get("disruptedPods")
        assert (await reasons(running)).count("NotDeleted") == 1


@in_long_virtual_time
async def test_a_disruption_target_without_a_deletion_is_taken_back_after_two_minutes() -> None:
    async with toy_cluster(NODES) as running:
        await pods(running, 1)
        ready = (await running.get("Pod", "p0"))["status"]["conditions"]
        target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        told = [*ready, {**target, "lastTransitionTime": BEGIN}]
        await running.patch("Pod", "p0", {"status": {"conditions": told}}, "/status")

        def taken_back(status: Document) -> bool:
            conditions = {c["type"]: c["status"] for c in status["conditions"]}
            return bool(conditions["DisruptionTarget"] == "False")

        stored = await running.status("Pod", "p0", taken_back, 300)
        assert 120 <= anyio.current_time() < 130
        assert is_ready(stored["status"])


@in_virtual_time
async def test_a_budget_recovers_once_its_pods_can_be_counted() -> None:
    async with toy_cluster(NODES) as running:
        template = {"metadata": {"labels": LABELS}, "spec": SPEC}
        spec = {"selector": {"matchLabels": LABELS}, "template": template}
        await running.create("DaemonSet", {"metadata": {"name": "d"}, "spec": spec})
        await budget(running, maxUnavailable=1)

        def failed(status: Document) -> bool:
            conditions = status.get("conditions") or [{}]
            return bool(conditions[0].get("reason") == "SyncFailed")

        stored = await running.status("PodDisruptionBudget", "b", failed)
        problem = "daemonsets.apps does not implement the scale subresource"
        assert stored["status"]["conditions"][0]["message"] == problem
        assert "CalculateExpectedPodCountFailed" in await reasons(running)
        await running.patch(
            "PodDisruptionBudget",
            "b",
            {
                "metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
                "spec": {"maxUnavailable": None, "minAvailable": 1},
            },
        )
        stored = await allows(running, NODES - 1)
        assert stored["status"]["conditions"][0]["reason"] == "SufficientPods"
        assert stored["status"]["observedGeneration"] == 2


@in_virtual_time
async def test_a_new_scale_changes_what_a_budget_expects() -> None:
    async with toy_cluster(NODES) as running:
        template = {"metadata": {"labels": LABELS}, "spec": SPEC}
        spec = {"selector": {"matchLabels": LABELS}, "template": template, "replicas": 4}
        await running.create("Deployment", {"metadata": {"name": "d"}, "spec": spec})
        await budget(running, maxUnavailable="25%")
        await allows(running, 1)
        await running.create("Node", hollow_node(NODES + 1))
        await running.patch("Deployment", "d", {"spec": {"replicas": 8}})
        stored = await allows(running, 2)
        assert stored["status"]["expectedPods"] == 8


@in_virtual_time
async def test_clients_that_evict_at_once_share_the_permissions() -> None:
    async with toy_cluster(NODES) as running, aiohttp.ClientSession() as session:
        names = await pods(running, 6)
        await budget(running, minAvailable=4)
        await allows(running, 2)
        answers: list[tuple[int, str | None]] = []

        async def ask(name: str) -> None:
            answers.append(await evict(session, running, name))

        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(ask, name)
        assert sorted(answers, key=str) == [(201, None)] * 2 + [(429, None)] * 4


@in_virtual_time
async def test_a_budget_that_no_controller_has_seen_asks_clients_to_wait() -> None:
    async with cluster() as running, aiohttp.ClientSession() as session:
        await running.create("Pod", {"metadata": {"name": "p", "labels": LABELS}, "spec": SPEC})
        ready = [{"type": "Ready", "status": "True"}]
        status = {"status": {"phase": "Running", "conditions": ready}}
        await running.patch("Pod", "p", status, "/status")
        await budget(running, minAvailable=0)
        assert await evict(session, running, "p") == (429, "10")


async def evict(
    session: aiohttp.ClientSession, running: Cluster, name: str
) -> tuple[int, str | None]:
    """Returns the code of the answer, and its header Retry-After."""
    url = f"{running.url}/api/v1/namespaces/default/pods/{name}/eviction"
    async with session.post(url, json={"metadata": {"name": name}}) as answer:
        return answer.status, answer.headers.get("Retry-After")
