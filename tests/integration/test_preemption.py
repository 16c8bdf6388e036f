"""Preemption over HTTP: controllers, hollow kubelets and the scheduler on a full cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio

from berth.actors.client.rest import Client, Connection
from berth.actors.runtime.clock import SystemClock
from berth.actors.system import run_scheduler
from berth.config.load import from_mapping
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.apiserver.app import serve
from berth.tools.hollow.controllers import run_controllers
from berth.tools.hollow.kubelet import hollow_node, run_kubelets

Document = dict[str, Any]
ONE_SECOND_AT_MOST = from_mapping(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 5000, "burst": 5000},
        "podMaxBackoffSeconds": 1,
    }
)


def pod(name: str, priority: int, cpu: str, labels: dict[str, str] | None = None) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "registry.example/app",
                    "resources": {"requests": {"cpu": cpu}},
                }
            ],
            "terminationGracePeriodSeconds": 0,
            "priorityClassName": f"priority-{priority}",
        },
    }


def priority_class(value: int) -> Document:
    metadata = {"name": f"priority-{value}"}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
    }


def budget(name: str, least: int) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
    }


PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "Event": "/api/v1/namespaces/default/events",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
}


class Cluster:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, document: Document) -> None:
        await self.client.call("POST", PATHS[document["kind"]], dict, document)

    async def create_all(self, documents: list[Document]) -> None:
        async with anyio.create_task_group() as group:
            for document in documents:
                group.start_soon(self.create, document)

    async def all(self, kind: str) -> dict[str, Document]:
        listed = await self.client.call("GET", PATHS[kind], dict)
        return {item["metadata"]["name"]: item for item in listed["items"]}

    async def until(
        self, kind: str, holds: Callable[[dict[str, Document]], bool], seconds: float = 30
    ) -> Any:
        with anyio.fail_after(seconds):
            while not holds(found := await self.all(kind)):
                await anyio.sleep(0.05)
        return found


@asynccontextmanager
async def cluster(
    nodes: int, *priorities: int, configuration: KubeSchedulerConfiguration = ONE_SECOND_AT_MOST
) -> AsyncIterator[Cluster]:
    """Runs a cluster with nodes of 4 cores each."""
    clock, rng = SystemClock(), Random(1)
    async with (
        serve() as url,
        Client(Connection(url)) as client,
        anyio.create_task_group() as group,
    ):
        await group.start(run_controllers, client, clock, rng)
        await group.start(run_kubelets, client, clock, rng)
        running = Cluster(client)
        await running.create_all([priority_class(value) for value in priorities])
        for number in range(1, nodes + 1):
            document = hollow_node(number)
            document["status"]["allocatable"] = document["status"]["capacity"] = {
                "cpu": "4",
                "memory": "32Gi",
                "pods": "110",
            }
            await running.create(document)
        await group.start(run_scheduler, configuration, Connection(url), clock, rng)
        yield running
        group.cancel_scope.cancel()


def running(name: str, pods: dict[str, Document]) -> list[Document]:
    """The running pods with this prefix."""
    return [
        p for n, p in pods.items() if n.startswith(name) and p["status"].get("phase") == "Running"
    ]


async def test_each_preemptor_gets_its_room_and_no_pod_goes_in_vain() -> None:
    async with cluster(100, 0, 10, 100) as full:
        # Five low pods fill a node; on every other node they have a budget that allows no
        # eviction.
        for number in range(1, 101):
            app = "kept" if number % 2 else "loose"
            place = {"nodeName": f"node-{number}"}
            low = [pod(f"low-{number}-{i}", 0, "800m", {"app": app}) for i in range(5)]
            await full.create_all([{**p, "spec": {**p["spec"], **place}} for p in low])
        await full.create(budget("kept", 250))
        await full.until("Pod", lambda pods: len(running("low", pods)) == 500)
        await full.until(
            "PodDisruptionBudget",
            lambda found: found["kept"]["status"].get("currentHealthy") == 250,
        )

        await full.create_all([pod(f"high-{i}", 100, "800m") for i in range(100)])
        pods = await full.until("Pod", lambda pods: len(running("high", pods)) == 100)
        left = Counter(p["metadata"]["labels"]["app"] for p in running("low", pods))
        assert left == {"kept": 250, "loose": 150}
        events = [e for e in (await full.all("Event")).values() if e["reason"] == "Preempted"]
        gone = {f"low-{n}-{i}" for n in range(1, 101) for i in range(5)} - pods.keys()
        assert {e["involvedObject"]["name"] for e in events} == gone
        assert len(gone) == 100


async def test_equal_priorities_are_not_preempted_and_policy_never_is_respected() -> None:
    async with cluster(1, 10) as full:
        await full.create(pod("first", 10, "3"))
        await full.until("Pod", lambda pods: len(running("first", pods)) == 1)
        await full.create(pod("second", 10, "3"))
        await full.create({**priority_class(100), "preemptionPolicy": "Never"})
        await full.create(pod("polite", 100, "3"))

        def told(pods: dict[str, Document]) -> bool:
            return all("conditions" in pods[name]["status"] for name in ("second", "polite"))

        pods = await full.until("Pod", told)
        messages = {
            name: pods[name]["status"]["conditions"][0]["message"] for name in ("second", "polite")
        }
        assert messages["second"].endswith("1 No preemption victims found for incoming pod.")
        assert messages["polite"].endswith(
            "preemption: not eligible due to preemptionPolicy=Never."
        )
        assert len(running("first", pods)) == 1


async def test_a_victim_gets_an_event_and_the_preemptor_a_nomination() -> None:
    async with cluster(1, 0, 100) as full:
        slow = pod("slow", 0, "3")
        slow["metadata"]["finalizers"] = ["berth.dev/not-yet"]
        await full.create(slow)
        await full.until("Pod", lambda pods: len(running("slow", pods)) == 1)
        await full.create(pod("urgent", 100, "3"))

        def promised(pods: dict[str, Document]) -> bool:
            going = "deletionTimestamp" in pods["slow"]["metadata"]
            return going and pods["urgent"]["status"].get("nominatedNodeName") == "node-1"

        pods = await full.until("Pod", promised)
        conditions = {c["type"]: c for c in pods["slow"]["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        assert conditions["DisruptionTarget"]["message"].startswith("default-scheduler: preempting")
        # The nomination is kept: a pod of lower priority that would fit beside the victim gets no
        # room.
        await full.create(pod("small", 0, "100m"))
        pods = await full.until("Pod", lambda pods: "conditions" in pods["small"]["status"])
        assert not running("urgent", pods)
        assert not pods["small"]["spec"].get("nodeName")

        patch = {"metadata": {"finalizers": None}}
        await full.client.patch(f"{PATHS['Pod']}/slow", patch, dict)
        pods = await full.until(
            "Pod", lambda pods: bool(running("urgent", pods) and running("small", pods))
        )
        assert "slow" not in pods
        assert not pods["urgent"]["status"].get("nominatedNodeName")
