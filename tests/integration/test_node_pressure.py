"""Node pressure in a toy cluster in virtual time: leaks, full disks, and what follows from them."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec

from berth.tools.answers.explain.eviction_story import eviction
from berth.tools.cluster.kubelets.housekeeping import Setup
from berth.tools.cluster.kubelets.kubelets import run_kubelets
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.kubernetes.kubelet.pressure.kubelet_settings import DEFAULTS, Configuration
from tests.kit import documents
from tests.kit.cluster import Cluster, cluster, toy_cluster
from tests.kit.documents import Document, condition
from tests.kit.virtual_loop import in_long_virtual_time

# The defaults of a kubelet, but for the time after which pressure ends.
SHORT = Configuration(msgspec.structs.replace(DEFAULTS, transition=30.0))


def deployment(name: str, usage: str, replicas: int = 1, **container: Any) -> Document:
    annotations = {"berth.dev/usage": usage}
    containers = [documents.container("app", **container)]
    pods = documents.template(name, annotations=annotations, containers=containers)
    return documents.workload("Deployment", name, pods, replicas=replicas)


def taints(node: Document) -> set[str]:
    return {taint["key"] for taint in node.get("spec", {}).get("taints", ())}


async def events(running: Cluster, reason: str) -> list[Document]:
    return [event for event in await running.all("Event") if event["reason"] == reason]


@in_long_virtual_time
async def test_a_leaking_pod_is_evicted_and_its_replacement_goes_elsewhere() -> None:
    async with toy_cluster(2, setup=Setup([SHORT])) as running:
        await running.create("Deployment", deployment("leak", "memory=32600Mi+5Mi/s"))
        first = await running.until_all("Pod", lambda pods: len(pods) == 1)
        place = await running.node_of(first[0]["metadata"]["name"])

        node = await running.until(
            "Node", place, lambda node: condition(node, "MemoryPressure") == "True"
        )
        pods = await running.until_all("Pod", lambda pods: len(pods) == 2)
        (evicted,) = [pod for pod in pods if pod["status"]["phase"] == "Failed"]
        assert evicted["status"]["reason"] == "Evicted"
        assert evicted["status"]["message"].startswith(
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: "
        )
        assert "Container app was using 3" in evicted["status"]["message"]
        assert "request is 0, has larger consumption of memory. " in evicted["status"]["message"]
        assert condition(evicted, "DisruptionTarget") == "True"
        assert condition(evicted, "Ready") == "False"
        (event,) = await events(running, "Evicted")
        assert event["metadata"]["annotations"]["offending_containers"] == "app"
        assert len(await events(running, "EvictionThresholdMet")) == 1

        node = await running.until("Node", place, lambda node: bool(taints(node)))
        assert taints(node) == {"node.kubernetes.io/memory-pressure"}
        (other,) = [pod for pod in pods if pod["status"]["phase"] != "Failed"]
        assert await running.node_of(other["metadata"]["name"]) != place

        kinded = [{**pod, "kind": "Pod"} for pod in await running.all("Pod")]
        why, where = eviction(evicted, kinded)
        assert why.startswith(f"was ended by the kubelet of {place} (Evicted) at 2026-01-01T00:")
        assert "Threshold quantity: 100Mi, available: " in why
        name, now = other["metadata"]["name"], await running.node_of(other["metadata"]["name"])
        assert where == f"was replaced by {name} (elsewhere, on {now})"

        await anyio.sleep(20)
        assert taints(await running.get("Node", place))
        node = await running.until(
            "Node", place, lambda node: condition(node, "MemoryPressure") == "False"
        )
        await running.until("Node", place, lambda node: not taints(node))


@in_long_virtual_time
async def test_a_replacement_waits_for_the_end_of_the_pressure_if_there_is_no_other_node() -> None:
    async with toy_cluster(1, setup=Setup([SHORT])) as running:
        await running.create("Deployment", deployment("leak", "memory=32600Mi+5Mi/s"))
        await running.until("Node", "node-1", lambda node: bool(taints(node)), 60)
        pods = await running.until_all(
            "Pod",
            lambda pods: {condition(pod, "PodScheduled") for pod in pods} >= {"False"},
        )
        (waiting,) = [pod for pod in pods if not pod["spec"].get("nodeName")]
        (why,) = [c for c in waiting["status"]["conditions"] if c["type"] == "PodScheduled"]
        assert "1 node(s) had untolerated taint(s)" in why["message"]
        await anyio.sleep(15)
        name = waiting["metadata"]["name"]
        assert not (await running.get("Pod", name))["spec"].get("nodeName")
        await running.until("Node", "node-1", lambda node: not taints(node), 60)
        assert await running.node_of(name) == "node-1"


@in_long_virtual_time
async def test_an_image_that_is_not_used_goes_when_the_disk_fills_and_is_pulled_again() -> None:
    large = {"berth.dev/image-size": "9Gi"}
    container = {"name": "c", "image": "large:1"}
    pod = {
        "metadata": {"name": "p", "annotations": large},
        "spec": {"nodeName": "node-1", "containers": [container]},
    }
    none = Configuration(msgspec.structs.replace(DEFAULTS, thresholds=()))
    async with cluster() as running:
        await running.start(run_kubelets, None, Setup([none]))
        node = hollow_node(1)
        small = {**node["status"]["capacity"], "ephemeral-storage": "10Gi"}
        node["status"] |= {"capacity": small, "allocatable": small}
        await running.create("Node", node)
        await running.create("Pod", pod)
        await running.until("Node", "node-1", lambda n: bool(n["status"].get("images")), 100.0)
        await anyio.sleep(600)
        assert len((await running.get("Node", "node-1"))["status"]["images"]) == 1
        reasons = {event["reason"] for event in await running.all("Event")}
        assert {"FreeDiskSpaceFailed", "ImageGCFailed"} <= reasons
        await running.delete("Pod", "p")
        await running.until("Node", "node-1", lambda n: not n["status"].get("images"), 310.0)
        await running.create("Pod", pod)
        await anyio.sleep(50)
        waiting = await running.get("Pod", "p")
        (status,) = waiting["status"]["containerStatuses"]
        assert status["state"]["waiting"]["reason"] == "ContainerCreating"
