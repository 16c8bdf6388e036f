"""Nodes whose kubelets fall silent, and the pods on them: an API server and the controllers alone.

The tests are the kubelets: they write the leases and statuses. Without kubelets, a pod that is
deleted stays until its deletion is forced.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any

import anyio
import pytest

from berth.tools.cluster.controllers.cluster_access import OverHttp
from berth.tools.cluster.controllers.controller_manager import run_controllers
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.virtual_time import LoopClock
from tests.kit.cluster import Cluster, cluster, path_of
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


def of_zone(zone: str, numbers: Iterable[int]) -> list[Document]:
    """Returns nodes of a zone. Only those that get a lease can fall silent."""
    nodes = [hollow_node(number) for number in numbers]
    for node in nodes:
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone
    return nodes


async def renew(running: Cluster, *nodes: str) -> None:
    """Gives nodes a lease."""
    for node in nodes:
        time = LoopClock().wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = {"metadata": {"name": node}, "spec": {"holderIdentity": node, "renewTime": time}}
        await running.client.call("POST", LEASES, dict, lease)


async def run_pod(
    running: Cluster, name: str, node: str, *tolerations: Document, **parts: Any
) -> None:
    """Creates a pod that is ready on this node."""
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": node, **parts}
    metadata = {"name": name, "labels": {"app": name}}
    await running.create(
        "Pod", {"metadata": metadata, "spec": {**spec, "tolerations": list(tolerations)}}
    )
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await running.patch("Pod", name, {"status": status}, "/status")


@asynccontextmanager
async def controlled(nodes: Iterable[Document]) -> AsyncIterator[Cluster]:
    async with cluster() as running:
        await running.start(run_controllers)
        await running.create_all("Node", nodes)
        yield running


async def seconds_until(holds: Callable[[], Any], most: float = 1_000.0) -> float:
    """Waits until the condition holds; returns the time, to the second."""
    while not await holds():
        assert anyio.current_time() < most
        await anyio.sleep(0.5)
    return round(anyio.current_time())


def taints_of(node: Document) -> list[Document]:
    return (node.get("spec") or {}).get("taints") or []


async def is_lost(running: Cluster, name: str) -> None:
    """Waits until a node has both taints of an unreachable node."""
    await running.until("Node", name, lambda node: len(taints_of(node)) == 2, 100)


async def tainted(running: Cluster) -> list[str]:
    """Returns the nodes with the NoExecute taint of an unreachable node."""
    return [
        node["metadata"]["name"]
        for node in await running.all("Node")
        for taint in taints_of(node)
        if (taint["key"], taint["effect"]) == (UNREACHABLE, "NoExecute")
    ]


async def leaving(running: Cluster) -> set[str]:
    """Returns the pods that are being deleted."""
    pods = await running.by_name("Pod")
    return {name for name, pod in pods.items() if pod["metadata"].get("deletionTimestamp")}


async def events(running: Cluster, reason: str) -> list[str]:
    return [each["message"] for each in await running.all("Event") if each["reason"] == reason]


@in_long_virtual_time
async def test_a_zone_goes_dark_and_its_pods_leave_when_their_tolerations_end() -> None:
    nodes = [*of_zone("a", (1, 2, 3)), *of_zone("b", (4, 5))]
    brief = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    async with controlled(nodes) as running:
        await run_pod(running, "usual", "node-1")
        await run_pod(running, "brief", "node-2", {**brief, "tolerationSeconds": 20})
        await run_pod(running, "patient", "node-3", brief)
        await run_pod(running, "safe", "node-4")
        for number in (1, 2, 3):
            await renew(running, f"node-{number}")
            await anyio.sleep(1)

        def count(number: int) -> Callable[[], Any]:
            async def holds() -> bool:
                return len(await tainted(running)) == number

            return holds

        first = await seconds_until(count(1))
        assert 50 <= first <= 52
        node = await running.get("Node", "node-1")
        ready = {each["type"]: each for each in node["status"]["conditions"]}["Ready"]
        assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert await seconds_until(count(2)) - first == 10
        assert await tainted(running) == ["node-1", "node-2"]
        pods = await running.by_name("Pod")
        statuses = {
            name: {each["type"]: each["status"] for each in pod["status"]["conditions"]}["Ready"]
            for name, pod in pods.items()
        }
        assert statuses == {"usual": "False", "brief": "False", "patient": "False", "safe": "True"}
        assert "Node node-2 status is now: NodeNotReady" in await events(running, "NodeNotReady")
        assert await seconds_until(count(3)) - first == 20

        async def one_leaves() -> bool:
            return len(await leaving(running)) == 1

        async def two_leave() -> bool:
            return len(await leaving(running)) == 2

        assert await seconds_until(one_leaves) - first == 10 + 20
        assert await leaving(running) == {"brief"}
        assert await seconds_until(two_leave) - first == 300
        assert await leaving(running) == {"brief", "usual"}
        await anyio.sleep(1_000)
        assert await leaving(running) == {"brief", "usual"}
        assert await events(running, "TaintManagerEviction") == [
            "Marking for deletion Pod default/brief",
            "Marking for deletion Pod default/usual",
        ]


@in_long_virtual_time
async def test_a_node_that_returns_loses_its_taints_and_keeps_its_pods() -> None:
    async with controlled([*of_zone("a", (1, 2)), *of_zone("b", (3,))]) as running:
        await run_pod(running, "p", "node-1")
        await renew(running, "node-1")
        await is_lost(running, "node-1")
        await anyio.sleep(200)
        heartbeat = {"lastHeartbeatTime": "2026-01-01T00:04:00Z"}
        status = {"conditions": [{**READY, **heartbeat}]}
        await running.patch("Node", "node-1", {"status": status}, "/status")
        await running.until("Node", "node-1", lambda node: not taints_of(node), 10)
        await anyio.sleep(1)
        assert await events(running, "TaintManagerEviction") == [
            "Cancelling deletion of Pod default/p"
        ]
        await is_lost(running, "node-1")
        await anyio.sleep(250)
        assert await leaving(running) == set(), "the second silence has a timer of its own"
        await anyio.sleep(60)
        assert await leaving(running) == {"p"}


@in_long_virtual_time
async def test_if_the_whole_cluster_is_silent_no_pod_leaves() -> None:
    async with controlled([*of_zone("a", (1, 2)), *of_zone("b", (3,))]) as running:
        await run_pod(running, "p", "node-1")
        await renew(running, "node-1", "node-2", "node-3")
        await anyio.sleep(1_000)
        assert await tainted(running) == []
        assert await leaving(running) == set()
        nodes = await running.all("Node")
        keys = {(each["key"], each["effect"]) for node in nodes for each in taints_of(node)}
        assert keys == {(UNREACHABLE, "NoSchedule")}


@in_long_virtual_time
async def test_the_pods_of_a_node_out_of_service_end_by_force() -> None:
    async with controlled([*of_zone("a", (1, 2)), *of_zone("b", (3,))]) as running:
        await run_pod(running, "ending", "node-1")
        await run_pod(running, "p", "node-1")
        await renew(running, "node-1")
        await is_lost(running, "node-1")
        await running.delete("Pod", "ending")
        await anyio.sleep(60)
        assert await leaving(running) == {"ending"}, "no kubelet removes it"
        node = await running.get("Node", "node-1")
        taints = [*taints_of(node), OUT_OF_SERVICE]
        await running.patch("Node", "node-1", {"spec": {"taints": taints}})
        await running.until_all("Pod", lambda pods: not pods, 10)


@in_virtual_time
async def test_the_pods_of_a_node_that_is_deleted_end_after_a_quarantine() -> None:
    async with controlled(of_zone("a", (1, 2))) as running:
        await run_pod(running, "p", "node-1")
        await renew(running, "node-1")
        await running.delete("Node", "node-1")
        await anyio.sleep(39)
        assert await running.find("Pod", "p")
        await running.gone("Pod", "p")
        assert round(anyio.current_time()) in (40, 41)


class SetClock(LoopClock):
    """A clock whose time of day can be set."""

    step = timedelta()

    def wall(self) -> datetime:
        return super().wall() + self.step


@pytest.mark.parametrize("hours", [1, -1])
@in_long_virtual_time
async def test_nobody_waits_longer_or_shorter_because_the_time_of_day_is_set(hours: int) -> None:
    brief = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100}
    clock = SetClock()
    async with cluster() as running, anyio.create_task_group() as group:
        access = OverHttp(running.client, clock, Random(1))
        await group.start(run_controllers, access, clock, Random(1))
        await running.create_all("Node", of_zone("a", (1, 2, 3)))
        await run_pod(running, "brief", "node-1", brief)
        await run_pod(running, "orphan", "node-2")
        await renew(running, "node-3")
        taints = {"taints": [{"key": "k", "effect": "NoExecute"}]}
        await running.patch("Node", "node-1", {"spec": taints})
        await running.delete("Node", "node-2")
        await anyio.sleep(30)
        assert await running.find("Pod", "orphan")
        clock.step = timedelta(hours=hours)
        path = f"{LEASES}/node-3"
        time = clock.wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        await running.client.patch(path, {"spec": {"renewTime": time}}, dict, "merge")
        await anyio.sleep(5)
        assert await running.find("Pod", "orphan")
        await running.gone("Pod", "orphan")
        assert round(anyio.current_time()) in (40, 41)

        async def leaves() -> bool:
            return await leaving(running) == {"brief"}

        async def is_silent() -> bool:
            node = await running.get("Node", "node-3")
            return bool(node["status"]["conditions"][0]["status"] == "Unknown")

        assert await seconds_until(is_silent) in range(80, 87), "50 s after its last renewal"
        assert await seconds_until(leaves) in (100, 101)
        group.cancel_scope.cancel()


VOLUMES = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]


async def create_volume(running: Cluster) -> None:
    """Creates a volume that one node may use at a time, and its claim."""
    modes, amount = {"accessModes": ["ReadWriteOnce"]}, {"storage": "1Gi"}
    csi = {"driver": "d.com", "volumeHandle": "h"}
    spec = {**modes, "capacity": amount, "csi": csi, "storageClassName": ""}
    await running.create("PersistentVolume", {"metadata": {"name": "v"}, "spec": spec})
    claim = {**modes, "volumeName": "v", "storageClassName": "", "resources": {"requests": amount}}
    await running.create("PersistentVolumeClaim", {"metadata": {"name": "c"}, "spec": claim})


async def attached_to(running: Cluster) -> list[str]:
    """Returns the nodes that the volume is attached to."""
    return [each["spec"]["nodeName"] for each in await running.all("VolumeAttachment")]


@in_virtual_time
async def test_two_nodes_that_want_a_volume_at_once_get_it_one_after_the_other() -> None:
    async with controlled(of_zone("a", (1, 2))) as running:
        await run_pod(running, "first", "node-1", volumes=VOLUMES)
        await run_pod(running, "second", "node-2", volumes=VOLUMES)
        await create_volume(running)
        await anyio.sleep(10)
        (node,) = await attached_to(running)
        pod, other = ("first", "node-2") if node == "node-1" else ("second", "node-1")
        path = path_of("Pod", pod)
        await running.client.call("DELETE", path, dict, {"gracePeriodSeconds": 0})
        await anyio.sleep(10)
        assert await attached_to(running) == [other]
        (message,) = await events(running, "FailedAttachVolume")
        why = f"Volume is already used by pod(s) {pod}"
        assert message == f'Multi-Attach error for volume "v" {why}'


@in_long_virtual_time
async def test_a_volume_leaves_a_silent_node_after_six_minutes_or_once_it_is_out_of_service() -> (
    None
):
    async with controlled([*of_zone("a", (1, 2)), *of_zone("b", (3,))]) as running:

        async def moves_to(node: str) -> float:
            start = anyio.current_time()

            async def moved() -> bool:
                return await attached_to(running) == [node]

            return await seconds_until(moved, 2_000) - start

        await create_volume(running)
        await run_pod(running, "first", "node-1", volumes=VOLUMES)
        await moves_to("node-1")
        await run_pod(running, "second", "node-2", volumes=VOLUMES)
        await renew(running, "node-1")
        await is_lost(running, "node-1")
        assert await attached_to(running) == ["node-1"], "the volume allows one node only"
        path = path_of("Pod", "first")
        await running.client.call("DELETE", path, dict, {"gracePeriodSeconds": 0})
        assert 359 <= await moves_to("node-2") <= 362

        await run_pod(running, "third", "node-3", volumes=VOLUMES)
        await renew(running, "node-2")
        await is_lost(running, "node-2")
        node = await running.get("Node", "node-2")
        taints = [*taints_of(node), OUT_OF_SERVICE]
        await running.patch("Node", "node-2", {"spec": {"taints": taints}})
        assert await moves_to("node-3") < 5
        assert set(await running.by_name("Pod")) == {"third"}
