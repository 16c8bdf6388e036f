"""The scheduler against the embedded API server, over HTTP."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import anyio

from berth.actors.client.access import remote
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.rest import Connection
from berth.actors.system import Daemon
from berth.actors.telemetry.instruments import Instruments
from berth.actors.telemetry.measures import Registry
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.cluster.apiserver.app import serve
from berth.tools.testing.virtual_time import LoopClock
from tests.kit.cluster import cluster
from tests.kit.documents import Document, node, pod
from tests.kit.instruments import Reader
from tests.kit.messages import no_room
from tests.kit.virtual_loop import in_virtual_time


def is_bound(pod: Document) -> bool:
    return bool(pod["spec"].get("nodeName"))


@in_virtual_time
async def test_pods_are_bound_and_spread_and_get_events() -> None:
    async with cluster() as running:
        await running.schedule()
        for i in range(4):
            await running.create("Node", node(f"n{i}", cpu=8))
        for i in range(100):
            await running.create("Pod", pod(f"p{i}"))
        pods = await running.until_all("Pod", lambda pods: all(map(is_bound, pods)))
        spread = Counter(p["spec"]["nodeName"] for p in pods)
        assert sorted(spread.values()) == [25, 25, 25, 25]
        events = await running.until_all("Event", lambda events: len(events) == 100)
        assert {e["reason"] for e in events} == {"Scheduled"}
        assert f"Successfully assigned default/p0 to {await running.node_of('p0')}" in {
            e["message"] for e in events
        }


@in_virtual_time
async def test_a_pod_that_fits_nowhere_gets_a_condition_and_is_placed_when_a_node_comes() -> None:
    async with cluster() as running:
        await running.schedule()
        await running.create("Node", node("small", cpu=1))
        await running.create("Pod", pod("big", cpu="4"))
        big = await running.status("Pod", "big", lambda status: bool(status.get("conditions")))
        (condition,) = big["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )
        assert condition["message"] == no_room(1, "1 Insufficient cpu")
        (event,) = await running.until_all("Event", lambda events: bool(events))
        expected = ("FailedScheduling", "Warning", condition["message"], False)
        assert (event["reason"], event["type"], event["message"], "series" in event) == expected
        await running.create("Node", node("large", cpu=8))
        assert await running.node_of("big") == "large"
        (condition,) = (await running.get("Pod", "big"))["status"]["conditions"]
        assert condition["status"] == "True"


@in_virtual_time
async def test_a_gated_pod_waits_for_its_gates() -> None:
    async with cluster() as running:
        await running.schedule()
        await running.create("Node", node("n", cpu=8))
        await running.create("Pod", pod("p", schedulingGates=[{"name": "later"}]))
        await running.create("Pod", pod("q"))
        await running.node_of("q")
        assert not is_bound(await running.get("Pod", "p"))
        await running.patch("Pod", "p", {"spec": {"schedulingGates": None}})
        await running.node_of("p")


@in_virtual_time
async def test_the_metrics_say_who_leads() -> None:
    clock, rng, configuration = LoopClock(), Random(1), KubeSchedulerConfiguration()
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
