"""The scheduler against the embedded API server, over HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest

from berth.actors.client.access import remote
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.rest import ApiError, Client, Connection
from berth.actors.runtime.clock import SystemClock
from berth.actors.system import Daemon, run_scheduler
from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import Registry
from berth.config.types import Duration, KubeSchedulerConfiguration, LeaderElectionConfiguration
from berth.tools.apiserver.app import serve
from tests.kit.instruments import Reader
from tests.kit.messages import no_room

Document = dict[str, Any]


def node(name: str, cpu: int = 8) -> Document:
    return {
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "32Gi", "pods": "110"}},
    }


def pod(name: str, cpu: str = "100m", **spec: Any) -> Document:
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


class Cluster:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, plural: str, document: Document) -> Document:
        where = "/api/v1/nodes" if plural == "nodes" else f"/api/v1/namespaces/default/{plural}"
        return await self.client.call("POST", where, dict, document)

    async def pods(self) -> dict[str, Document]:
        listed = await self.client.call("GET", "/api/v1/namespaces/default/pods", dict)
        return {item["metadata"]["name"]: item for item in listed["items"]}

    async def events(self, reason: str) -> list[Document]:
        listed = await self.client.call("GET", "/api/v1/namespaces/default/events", dict)
        return [event for event in listed["items"] if event["reason"] == reason]

    async def until(self, holds: Callable[[dict[str, Document]], bool]) -> dict[str, Document]:
        """Waits until the condition holds for the pods by name, and returns them."""
        with anyio.fail_after(20):
            while not holds(pods := await self.pods()):
                await anyio.sleep(0.02)
        return pods


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    async with serve() as url, anyio.create_task_group() as group:
        run = (KubeSchedulerConfiguration(), Connection(url), SystemClock(), Random(1))
        await group.start(run_scheduler, *run)
        async with Client(Connection(url)) as client:
            yield Cluster(client)
        group.cancel_scope.cancel()


def all_bound(pods: dict[str, Document]) -> bool:
    return all(p["spec"].get("nodeName") for p in pods.values())


async def test_pods_are_bound_and_spread_and_get_events() -> None:
    async with cluster() as running:
        for i in range(4):
            await running.create("nodes", node(f"n{i}"))
        for i in range(100):
            await running.create("pods", pod(f"p{i}"))
        pods = await running.until(all_bound)
        spread = Counter(p["spec"]["nodeName"] for p in pods.values())
        assert sorted(spread.values()) == [25, 25, 25, 25]
        with anyio.fail_after(10):
            while len(events := await running.events("Scheduled")) < 100:
                await anyio.sleep(0.02)
        assert f"Successfully assigned default/p0 to {pods['p0']['spec']['nodeName']}" in {
            e["message"] for e in events
        }


async def test_a_pod_that_fits_nowhere_gets_a_condition_and_is_placed_when_a_node_comes() -> None:
    async with cluster() as running:
        await running.create("nodes", node("small", cpu=1))
        await running.create("pods", pod("big", cpu="4"))
        pods = await running.until(lambda pods: bool(pods["big"]["status"].get("conditions")))
        (condition,) = pods["big"]["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )
        assert condition["message"] == no_room(1, "1 Insufficient cpu")
        await running.create("nodes", node("large"))
        pods = await running.until(all_bound)
        assert pods["big"]["spec"]["nodeName"] == "large"


async def test_a_bound_pod_cannot_be_bound_again() -> None:
    async with cluster() as running:
        await running.create("nodes", node("n"))
        made = await running.create("pods", pod("p"))
        await running.until(all_bound)
        with pytest.raises(ApiError, match="already assigned") as refused:
            await running.client.bind("default", "p", made["metadata"]["uid"], "n")
        assert refused.value.code == 409


async def test_a_gated_pod_waits_for_its_gates() -> None:
    async with cluster() as running:
        await running.create("nodes", node("n"))
        await running.create("pods", pod("p", schedulingGates=[{"name": "later"}]))
        await running.create("pods", pod("q"))
        pods = await running.until(lambda pods: bool(pods["q"]["spec"].get("nodeName")))
        assert not pods["p"]["spec"].get("nodeName")
        patch = {"spec": {"schedulingGates": None}}
        await running.client.patch("/api/v1/namespaces/default/pods/p", patch, dict, "merge")
        await running.until(all_bound)


async def test_the_second_scheduler_waits_until_the_first_gives_the_lease_back() -> None:
    # Longer than the test waits: the second scheduler cannot wait for the lease to expire.
    election = LeaderElectionConfiguration(
        lease_duration=Duration(60), renew_deadline=Duration(40), retry_period=Duration(0.1)
    )
    configuration = KubeSchedulerConfiguration(leader_election=election)
    async with serve() as url, Client(Connection(url)) as client:
        running = Cluster(client)
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
        await running.create("nodes", node("n"))
        async with anyio.create_task_group() as second:
            async with anyio.create_task_group() as first:
                await first.start(
                    run_scheduler, configuration, Connection(url), SystemClock(), Random(1)
                )
                await running.create("pods", pod("p"))
                await running.until(all_bound)
                holder = (await client.call("GET", lease, dict))["spec"]["holderIdentity"]
                await second.start(
                    run_scheduler, configuration, Connection(url), SystemClock(), Random(2)
                )
                renewals: set[str] = set()
                with anyio.fail_after(20):
                    while len(renewals) < 5:
                        spec = (await client.call("GET", lease, dict))["spec"]
                        assert spec["holderIdentity"] == holder
                        renewals.add(spec["renewTime"])
                        await anyio.sleep(0.02)
                first.cancel_scope.cancel()
            await running.create("pods", pod("q"))
            await running.until(all_bound)
            assert (await client.call("GET", lease, dict))["spec"]["holderIdentity"] not in (
                "",
                holder,
            )
            second.cancel_scope.cancel()


async def test_the_metrics_say_who_leads() -> None:
    clock, rng, configuration = SystemClock(), Random(1), KubeSchedulerConfiguration()
    instruments = Instruments(Registry(), clock.now)
    status = partial(Reader(instruments.registry).numbers, "leader_election_master_status")
    assert status() == {("kube-scheduler",): 0}
    async with (
        serve() as url,
        remote(Connection(url), clock, rng, 50, 100) as access,
        Extenders() as extenders,
        anyio.create_task_group() as group,
    ):
        daemon = Daemon(configuration, access, extenders, clock, rng, instruments=instruments)
        await group.start(daemon.run)
        with anyio.fail_after(20):
            while status() != {("kube-scheduler",): 1}:
                await anyio.sleep(0.02)
        group.cancel_scope.cancel()
    assert status() == {("kube-scheduler",): 0}
