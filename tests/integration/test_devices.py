"""Devices in a toy cluster over HTTP: claims are allocated by hand, without the scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio

from berth.actors.client.rest import Client, Connection
from berth.tools.apiserver.app import serve
from berth.tools.hollow.controllers import run_controllers
from berth.tools.hollow.devices.driver import run_driver
from berth.tools.hollow.kubelet import hollow_node, run_kubelets
from tests.integration.test_hollow import Cluster
from tests.kit.virtual_loop import LoopClock, in_virtual_time

Document = dict[str, Any]
FINALIZER = "resource.kubernetes.io/delete-protection"
DRIVER = "gpu.example.com"
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
CLAIM = {"metadata": {"name": "shared"}, "spec": REQUESTS}
TEMPLATE = {"metadata": {"name": "one"}, "spec": {"spec": REQUESTS}}


@asynccontextmanager
async def cluster(nodes: int = 1, devices: Path | None = None) -> AsyncIterator[Cluster]:
    """A toy cluster without a scheduler; with this file, its nodes have devices."""
    clock, rng = LoopClock(), Random(1)
    async with (
        serve() as url,
        Client(Connection(url)) as client,
        anyio.create_task_group() as group,
    ):
        await group.start(run_controllers, client, clock, rng)
        await group.start(run_kubelets, client, clock, rng)
        running = Cluster(client)
        for number in range(1, nodes + 1):
            await running.create("Node", hollow_node(number))
        if devices is not None:
            await group.start(run_driver, client, clock, rng, devices)
        yield running
        group.cancel_scope.cancel()


def pod(name: str, on: str = "node-1", *, seconds: int = 0, **claim: str) -> Document:
    annotations = {"berth.dev/run-seconds": str(seconds)} if seconds else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "nodeName": on,
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "gpu", **claim}],
        },
    }


async def allocate(running: Cluster, claim: str, device: str = "gpu-0") -> None:
    """Allocates a device as the scheduler does: first the finalizer, then the allocation."""
    result = {"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    await running.patch("ResourceClaim", claim, {"metadata": {"finalizers": [FINALIZER]}})
    await running.patch("ResourceClaim", claim, {"status": status}, "/status")


def in_phase(phase: str) -> Callable[[Document], bool]:
    return lambda status: status.get("phase") == phase


@in_virtual_time
async def test_pods_share_a_claim_and_the_last_one_frees_its_device() -> None:
    async with cluster() as running:
        await running.create("ResourceClaim", CLAIM)
        for name, seconds in (("first", 10), ("second", 20)):
            user = pod(name, seconds=seconds, resourceClaimName="shared")
            await running.create("Pod", user)
        found = await running.status(
            "Pod", "first", lambda status: bool(status.get("containerStatuses"))
        )
        (container,) = found["status"]["containerStatuses"]
        assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
        events = await running.until("Event", lambda events: len(events) == 2)
        assert {event["reason"] for event in events} == {"FailedPrepareDynamicResources"}
        assert events[0]["message"] == (
            "Failed to prepare dynamic resources: prepare dynamic resources: "
            "ResourceClaim default/shared is not allocated"
        )
        await allocate(running, "shared")
        for name in ("first", "second"):
            await running.status("Pod", name, in_phase("Running"))
        claim = await running.get("ResourceClaim", "shared")
        reserved = claim["status"]["reservedFor"]
        assert {consumer["name"] for consumer in reserved} == {"first", "second"}
        await running.status("Pod", "first", in_phase("Succeeded"), 30)
        await running.status(
            "ResourceClaim", "shared", lambda status: len(status["reservedFor"]) == 1
        )
        assert (await running.get("ResourceClaim", "shared"))["status"]["allocation"]
        await running.status("Pod", "second", in_phase("Succeeded"), 30)
        await running.status("ResourceClaim", "shared", lambda status: not status)
        await running.until(
            "ResourceClaim", lambda claims: not claims[0]["metadata"].get("finalizers")
        )


@in_virtual_time
async def test_a_pod_gets_a_claim_from_a_template_which_goes_with_it() -> None:
    async with cluster() as running:
        await running.create("Pod", pod("early", resourceClaimTemplateName="one"))
        events = await running.until("Event", lambda events: len(events) >= 2)
        assert "FailedResourceClaimCreation" in {event["reason"] for event in events}
        await running.create("ResourceClaimTemplate", TEMPLATE)
        (claim,) = await running.until("ResourceClaim", lambda claims: len(claims) == 1)
        name = claim["metadata"]["name"]
        assert name.startswith("early-gpu-")
        found = await running.status(
            "Pod", "early", lambda status: bool(status.get("resourceClaimStatuses"))
        )
        assert found["status"]["resourceClaimStatuses"] == [
            {"name": "gpu", "resourceClaimName": name}
        ]
        await allocate(running, name)
        await running.status("Pod", "early", in_phase("Running"))
        await running.delete("Pod", "early")
        await running.until("ResourceClaim", lambda claims: not claims)


@in_virtual_time
async def test_the_claim_of_a_finished_pod_is_deleted_before_the_pod() -> None:
    async with cluster() as running:
        await running.create("ResourceClaimTemplate", TEMPLATE)
        await running.create("Pod", pod("p", seconds=5, resourceClaimTemplateName="one"))
        (claim,) = await running.until("ResourceClaim", lambda claims: len(claims) == 1)
        await allocate(running, claim["metadata"]["name"])
        await running.status("Pod", "p", in_phase("Succeeded"))
        await running.until("ResourceClaim", lambda claims: not claims)
        await anyio.sleep(5)
        assert await running.all("ResourceClaim") == []
        assert (await running.get("Pod", "p"))["status"]["phase"] == "Succeeded"


def generations(slices: list[Document]) -> dict[str, int]:
    return {one["metadata"]["name"]: one["spec"]["pool"]["generation"] for one in slices}


@in_virtual_time
async def test_slices_follow_the_file_and_the_nodes(tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text("{driver: d.com, devices: [{name: gpu, count: 2}]}")
    async with cluster(2, file) as running:
        found = await running.all("ResourceSlice")
        assert generations(found) == {"node-1-d.com-0": 1, "node-2-d.com-0": 1}
        file.write_text("{driver: d.com, devices: [{name: gpu, count: 200}]}")
        found = await running.until("ResourceSlice", lambda slices: len(slices) == 4)
        assert set(generations(found).values()) == {2}
        assert {one["spec"]["pool"]["resourceSliceCount"] for one in found} == {2}
        file.write_text("{driver: d.com, devices: [{name: BROKEN}]}")
        await anyio.sleep(5)
        assert generations(await running.all("ResourceSlice")) == generations(found)
        await running.create("Node", hollow_node(3))
        await running.until("ResourceSlice", lambda slices: len(slices) == 6)
        await running.delete("Node", "node-1")
        found = await running.until("ResourceSlice", lambda slices: len(slices) == 4)
        assert {one["spec"]["nodeName"] for one in found} == {"node-2", "node-3"}
        file.write_text("{driver: other.com, nodes: [node-3], devices: [{name: nic}]}")
        found = await running.until("ResourceSlice", lambda slices: len(slices) == 1)
        assert generations(found) == {"node-3-other.com-0": 1}


@in_virtual_time
async def test_a_tainted_device_is_drained(tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text(f"{{driver: {DRIVER}, devices: [{{name: gpu, count: 2}}]}}")
    async with cluster(1, file) as running:
        for number, name in enumerate(("hit", "spared")):
            await running.create("ResourceClaim", {**CLAIM, "metadata": {"name": name}})
            await running.create("Pod", pod(name, resourceClaimName=name))
            await allocate(running, name, f"gpu-{number}")
            await running.status("Pod", name, in_phase("Running"))
        (found,) = await running.all("ResourceSlice")
        devices = found["spec"]["devices"]
        # the API server has the machine's clock
        since = {"timeAdded": "2026-01-01T00:00:00Z"}
        devices[0]["taints"] = [{"key": "broken", "effect": "NoExecute", **since}]
        name = found["metadata"]["name"]
        await running.client.patch(
            f"/apis/resource.k8s.io/v1/resourceslices/{name}",
            {"spec": {"devices": devices}},
            dict,
            "merge",
        )
        (left,) = await running.until("Pod", lambda pods: len(pods) == 1)
        assert left["metadata"]["name"] == "spared"
        await running.status("ResourceClaim", "hit", lambda status: not status)
