"""Preemption over HTTP: controllers, hollow kubelets and the scheduler on a full cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit import documents
from tests.kit.cluster import Cluster, cluster, configured
from tests.kit.documents import Document, thing
from tests.kit.virtual_cluster import priority_class
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time


def pod(name: str, priority: int, cpu: str, labels: dict[str, str] | None = None) -> Document:
    fields: Document = {
        "priorityClassName": f"priority-{priority}",
        "terminationGracePeriodSeconds": 0,
    }
    return documents.pod(name, cpu, labels=labels, **fields)


def budget(name: str, least: int) -> Document:
    return thing(
        "PodDisruptionBudget",
        name,
        spec={"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
    )


def large_node(number: int) -> Document:
    """Returns a hollow node with 4 cores."""
    document = hollow_node(number)
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    document["status"]["allocatable"] = document["status"]["capacity"] = room
    return document


@asynccontextmanager
async def full_cluster(nodes: int, *priorities: int) -> AsyncIterator[Cluster]:
    async with cluster() as running:
        for value in priorities:
            await running.create("PriorityClass", priority_class(value))
        await running.start_hollow(map(large_node, range(1, nodes + 1)))
        await running.schedule(configured(podMaxBackoffSeconds=1))
        yield running


def running(name: str, pods: list[Document]) -> list[Document]:
    """Returns the running pods with this prefix."""
    return [
        p
        for p in pods
        if p["metadata"]["name"].startswith(name) and p["status"].get("phase") == "Running"
    ]


def by_name(items: list[Document]) -> dict[str, Document]:
    return {item["metadata"]["name"]: item for item in items}


@in_long_virtual_time
async def test_each_preemptor_gets_its_room_and_no_pod_goes_in_vain() -> None:
    async with full_cluster(40, 0, 10, 100) as full:
        # Five low pods fill a node; on every other node they have a budget that allows no
        # eviction.
        for number in range(1, 41):
            app = "kept" if number % 2 else "loose"
            place = {"nodeName": f"node-{number}"}
            low = [pod(f"low-{number}-{i}", 0, "800m", {"app": app}) for i in range(5)]
            await full.create_all("Pod", [{**p, "spec": {**p["spec"], **place}} for p in low])
        await full.create("PodDisruptionBudget", budget("kept", 100))
        await full.until_all("Pod", lambda pods: len(running("low", pods)) == 200)
        await full.status(
            "PodDisruptionBudget", "kept", lambda status: status.get("currentHealthy") == 100
        )

        await full.create_all("Pod", [pod(f"high-{i}", 100, "800m") for i in range(40)])
        pods = await full.until_all("Pod", lambda pods: len(running("high", pods)) == 40)
        left = Counter(p["metadata"]["labels"]["app"] for p in running("low", pods))
        assert left == {"kept": 100, "loose": 60}
        events = [e for e in await full.all("Event") if e["reason"] == "Preempted"]
        gone = {f"low-{n}-{i}" for n in range(1, 41) for i in range(5)} - by_name(pods).keys()
        assert {e["involvedObject"]["name"] for e in events} == gone
        assert len(gone) == 40


@in_virtual_time
async def test_equal_priorities_are_not_preempted_and_policy_never_is_respected() -> None:
    async with full_cluster(1, 10) as full:
        await full.create("Pod", pod("first", 10, "3"))
        await full.until_all("Pod", lambda pods: len(running("first", pods)) == 1)
        await full.create("Pod", pod("second", 10, "3"))
        await full.create("PriorityClass", {**priority_class(100), "preemptionPolicy": "Never"})
        await full.create("Pod", pod("polite", 100, "3"))

        def told(pods: list[Document]) -> bool:
            items = by_name(pods)
            return all("conditions" in items[name]["status"] for name in ("second", "polite"))

        pods = await full.until_all("Pod", told)
        items = by_name(pods)
        messages = {
            name: items[name]["status"]["conditions"][0]["message"] for name in ("second", "polite")
        }
        assert messages["second"].endswith("1 No preemption victims found for incoming pod.")
        assert messages["polite"].endswith(
            "preemption: not eligible due to preemptionPolicy=Never."
        )
        assert len(running("first", pods)) == 1


@in_virtual_time
async def test_a_victim_gets_an_event_and_the_preemptor_a_nomination() -> None:
    async with full_cluster(1, 0, 100) as full:
        slow = pod("slow", 0, "3")
        slow["metadata"]["annotations"] = {"berth.dev/stop-seconds": "20"}
        slow["spec"]["terminationGracePeriodSeconds"] = 30
        await full.create("Pod", slow)
        await full.until_all("Pod", lambda pods: len(running("slow", pods)) == 1)
        await full.create("Pod", pod("urgent", 100, "3"))

        await full.status(
            "Pod", "urgent", lambda status: status.get("nominatedNodeName") == "node-1"
        )
        victim = await full.until("Pod", "slow", lambda p: "deletionTimestamp" in p["metadata"])
        conditions = {c["type"]: c for c in victim["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        assert conditions["DisruptionTarget"]["message"].startswith("default-scheduler: preempting")
        # The nomination is kept: a pod of lower priority that would fit beside the victim gets no
        # room.
        await full.create("Pod", pod("small", 0, "100m"))
        small = await full.status("Pod", "small", lambda status: "conditions" in status)
        assert not running("urgent", await full.all("Pod"))
        assert not small["spec"].get("nodeName")

        pods = await full.until_all(
            "Pod", lambda pods: bool(running("urgent", pods) and running("small", pods))
        )
        items = by_name(pods)
        assert "slow" not in items
        assert not items["urgent"]["status"].get("nominatedNodeName")
