"""Devices in a toy cluster over HTTP. Without the scheduler, claims are allocated by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from berth.tools.cluster.drivers.device_driver import run_driver
from berth.tools.cluster.drivers.inventory_file import read_objects
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.command import DEVICES
from tests.kit import documents
from tests.kit.cluster import Cluster, cluster
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

pytestmark = pytest.mark.full("long")

FINALIZER = "resource.kubernetes.io/delete-protection"
DRIVER = "gpu.example.com"
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
CLAIM = {"metadata": {"name": "shared"}, "spec": REQUESTS}
TEMPLATE = {"metadata": {"name": "one"}, "spec": {"spec": REQUESTS}}


@asynccontextmanager
async def hollow(nodes: int = 1, devices: Path | None = None) -> AsyncIterator[Cluster]:
    """Runs a toy cluster without a scheduler; with this file, its nodes have devices."""
    async with cluster() as running:
        await running.start_hollow(map(hollow_node, range(1, nodes + 1)))
        if devices is not None:
            await running.start(run_driver, devices)
        yield running


def about_pods(events: list[Document]) -> list[Document]:
    return [event for event in events if event["involvedObject"]["kind"] == "Pod"]


def pod(name: str, on: str = "node-1", *, seconds: int = 0, **claim: str) -> Document:
    annotations = {"berth.dev/run-seconds": str(seconds)} if seconds else {}
    claims = [{"name": "gpu", **claim}]
    return documents.pod(
        name, node=on, annotations=annotations, restartPolicy="Never", resourceClaims=claims
    )


@asynccontextmanager
async def laboratory() -> AsyncIterator[Cluster]:
    """Runs six nodes, of which two have eight GPUs each, and two FPGAs on the network."""
    async with hollow(6, DEVICES) as running:
        await running.schedule()
        for document, _ in read_objects(DEVICES):
            await running.create(document["kind"], document)
        yield running


def in_phases(**numbers: int) -> Callable[[list[Document]], bool]:
    """True if there are just these numbers of pods in each phase."""
    return lambda pods: Counter(str(it["status"]["phase"]) for it in pods) == numbers


def results(claims: list[Document]) -> list[Document]:
    """Returns the allocated devices of all claims."""
    return [
        result
        for claim in claims
        if (allocation := (claim.get("status") or {}).get("allocation"))
        for result in allocation["devices"]["results"]
    ]


async def allocate(running: Cluster, claim: str, device: str = "gpu-0") -> None:
    """Allocates a device as the scheduler does: first the finalizer, then the allocation."""
    result = {"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    await running.patch("ResourceClaim", claim, {"metadata": {"finalizers": [FINALIZER]}})
    await running.patch("ResourceClaim", claim, {"status": status}, "/status")


def in_phase(phase: str) -> Callable[[Document], bool]:
    return lambda status: status.get("phase") == phase


@in_long_virtual_time
async def test_pods_share_a_claim_and_the_last_one_frees_its_device() -> None:
    async with hollow() as running:
        await running.create("ResourceClaim", CLAIM)
        for name, seconds in (("first", 10), ("second", 20)):
            user = pod(name, seconds=seconds, resourceClaimName="shared")
            await running.create("Pod", user)
        running_pod = await running.status(
            "Pod", "first", lambda status: bool(status.get("containerStatuses"))
        )
        (container,) = running_pod["status"]["containerStatuses"]
        assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
        events = await running.until_all("Event", lambda events: len(about_pods(events)) == 2)
        assert {event["reason"] for event in about_pods(events)} == {
            "FailedPrepareDynamicResources"
        }
        assert about_pods(events)[0]["message"] == (
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
        await running.until_all(
            "ResourceClaim", lambda claims: not claims[0]["metadata"].get("finalizers")
        )


@in_virtual_time
async def test_a_pod_gets_a_claim_from_a_template_which_goes_with_it() -> None:
    async with hollow() as running:
        await running.create("Pod", pod("early", resourceClaimTemplateName="one"))
        events = await running.until_all("Event", lambda events: len(about_pods(events)) >= 2)
        assert "FailedResourceClaimCreation" in {event["reason"] for event in events}
        await running.create("ResourceClaimTemplate", TEMPLATE)
        (claim,) = await running.until_all("ResourceClaim", lambda claims: len(claims) == 1)
        name = claim["metadata"]["name"]
        assert name.startswith("early-gpu-")
        early = await running.status(
            "Pod", "early", lambda status: bool(status.get("resourceClaimStatuses"))
        )
        assert early["status"]["resourceClaimStatuses"] == [
            {"name": "gpu", "resourceClaimName": name}
        ]
        await allocate(running, name)
        await running.status("Pod", "early", in_phase("Running"))
        await running.delete("Pod", "early")
        await running.until_all("ResourceClaim", lambda claims: not claims)


@in_virtual_time
async def test_the_claim_of_a_finished_pod_is_deleted_before_the_pod() -> None:
    async with hollow() as running:
        await running.create("ResourceClaimTemplate", TEMPLATE)
        await running.create("Pod", pod("p", seconds=5, resourceClaimTemplateName="one"))
        (claim,) = await running.until_all("ResourceClaim", lambda claims: len(claims) == 1)
        await allocate(running, claim["metadata"]["name"])
        await running.status("Pod", "p", in_phase("Succeeded"))
        await running.until_all("ResourceClaim", lambda claims: not claims)
        await anyio.sleep(5)
        assert await running.all("ResourceClaim") == []
        assert (await running.get("Pod", "p"))["status"]["phase"] == "Succeeded"


def generations(slices: list[Document]) -> dict[str, int]:
    return {each["metadata"]["name"]: each["spec"]["pool"]["generation"] for each in slices}


@in_virtual_time
async def test_slices_follow_the_file_and_the_nodes(tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text("{driver: d.com, devices: [{name: gpu, count: 2}]}")
    async with hollow(2, file) as running:
        published = await running.all("ResourceSlice")
        assert generations(published) == {"node-1-d.com-0": 1, "node-2-d.com-0": 1}
        file.write_text("{driver: d.com, devices: [{name: gpu, count: 200}]}")
        published = await running.until_all("ResourceSlice", lambda slices: len(slices) == 4)
        assert set(generations(published).values()) == {2}
        assert {each["spec"]["pool"]["resourceSliceCount"] for each in published} == {2}
        file.write_text("{driver: d.com, devices: [{name: BROKEN}]}")
        await anyio.sleep(5)
        assert generations(await running.all("ResourceSlice")) == generations(published)
        await running.create("Node", hollow_node(3))
        await running.until_all("ResourceSlice", lambda slices: len(slices) == 6)
        await running.delete("Node", "node-1")
        published = await running.until_all("ResourceSlice", lambda slices: len(slices) == 4)
        assert {each["spec"]["nodeName"] for each in published} == {"node-2", "node-3"}
        file.write_text("{driver: other.com, nodes: [node-3], devices: [{name: nic}]}")
        published = await running.until_all("ResourceSlice", lambda slices: len(slices) == 1)
        assert generations(published) == {"node-3-other.com-0": 1}


@in_virtual_time
async def test_a_tainted_device_is_drained(tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text(f"{{driver: {DRIVER}, devices: [{{name: gpu, count: 2}}]}}")
    async with hollow(1, file) as running:
        for number, name in enumerate(("hit", "spared")):
            await running.create("ResourceClaim", {**CLAIM, "metadata": {"name": name}})
            await running.create("Pod", pod(name, resourceClaimName=name))
            await allocate(running, name, f"gpu-{number}")
            await running.status("Pod", name, in_phase("Running"))
        (published,) = await running.all("ResourceSlice")
        devices = published["spec"]["devices"]
        # the API server has the machine's clock
        since = {"timeAdded": "2026-01-01T00:00:00Z"}
        devices[0]["taints"] = [{"key": "broken", "effect": "NoExecute", **since}]
        name = published["metadata"]["name"]
        await running.patch("ResourceSlice", name, {"spec": {"devices": devices}})
        (left,) = await running.until_all("Pod", lambda pods: len(pods) == 1)
        assert left["metadata"]["name"] == "spared"
        await running.status("ResourceClaim", "hit", lambda status: not status)


@in_long_virtual_time
async def test_pods_wait_for_devices_until_others_end() -> None:
    async with laboratory() as running:
        await running.create("ResourceClaimTemplate", TEMPLATE)
        for number in range(20):
            user = pod(f"p{number}", "", seconds=60, resourceClaimTemplateName="one")
            await running.create("Pod", user)
        pods = await running.until_all("Pod", in_phases(Running=16, Pending=4))
        await anyio.sleep(30)
        pods = await running.all("Pod")
        assert in_phases(Running=16, Pending=4)(pods)
        assert {each["spec"].get("nodeName", "") for each in pods} == {"", "node-1", "node-2"}
        used = [(it["pool"], it["device"]) for it in results(await running.all("ResourceClaim"))]
        assert len(set(used)) == len(used) == 16
        # those that ended have no claims any more
        await running.until_all("Pod", in_phases(Succeeded=16, Running=4), 120)
        await running.until_all("ResourceClaim", lambda claims: len(claims) == 4)
        await running.until_all("Pod", in_phases(Succeeded=20), 120)
        await running.until_all("ResourceClaim", lambda claims: not claims)


def accelerator(*alternatives: str) -> Document:
    listed = [{"name": kind.partition(".")[0], "deviceClassName": kind} for kind in alternatives]
    request = {"name": "any", "firstAvailable": listed}
    return {"metadata": {"name": "any"}, "spec": {"spec": {"devices": {"requests": [request]}}}}


@in_virtual_time
async def test_a_request_falls_back_and_a_tainted_device_is_replaced() -> None:
    async with laboratory() as running:
        template = accelerator("fpga.example.com", "gpu.example.com")
        await running.create("ResourceClaimTemplate", template)
        for number in range(3):
            user = pod(f"p{number}", "", resourceClaimTemplateName="any")
            await running.create("Pod", user)
        await running.until_all("Pod", in_phases(Running=3))
        claims = await running.all("ResourceClaim")
        names = sorted(result["request"] for result in results(claims))
        assert names == ["any/fpga", "any/fpga", "any/gpu"]
        (hit,) = [
            claim["metadata"]["ownerReferences"][0]["name"]
            for claim in claims
            if results([claim])[0]["device"] == "fpga-0"
        ]
        slices = await running.all("ResourceSlice")
        (rack,) = [each for each in slices if each["spec"]["pool"]["name"] == "rack"]
        devices = rack["spec"]["devices"]
        # the API server has the machine's clock
        since = {"timeAdded": "2026-01-01T00:00:00Z"}
        devices[0]["taints"] = [{"key": "broken", "effect": "NoExecute", **since}]
        name = rack["metadata"]["name"]
        await running.patch("ResourceSlice", name, {"spec": {"devices": devices}})
        pods = await running.until_all("Pod", lambda pods: len(pods) == 2)
        assert hit not in {each["metadata"]["name"] for each in pods}
        await running.until_all("ResourceClaim", lambda claims: len(claims) == 2)
        await running.create("Pod", pod("next", "", resourceClaimTemplateName="any"))
        await running.until_all("Pod", in_phases(Running=3))
        names = sorted(result["request"] for result in results(await running.all("ResourceClaim")))
        assert names == ["any/fpga", "any/gpu", "any/gpu"]


@in_long_virtual_time
async def test_parts_of_a_device_are_allocated_until_their_counters_are_used_up() -> None:
    async with laboratory() as running:
        memory = 'device.capacity["mig.example.com"].memory == quantity("20Gi")'
        template = accelerator("mig.example.com")
        (request,) = template["spec"]["spec"]["devices"]["requests"]
        request["firstAvailable"][0]["selectors"] = [{"cel": {"expression": memory}}]
        await running.create("ResourceClaimTemplate", template)
        for number in range(7):
            await running.create("Pod", pod(f"p{number}", "", resourceClaimTemplateName="any"))
        await running.until_all("Pod", in_phases(Running=6, Pending=1))
        await anyio.sleep(30)
        assert in_phases(Running=6, Pending=1)(await running.all("Pod"))
        devices = {result["device"] for result in results(await running.all("ResourceClaim"))}
        assert devices == {f"gpu-{gpu}-medium-{part}" for gpu in range(2) for part in range(3)}


@in_virtual_time
async def test_an_extended_resource_needs_no_claim_of_the_user() -> None:
    async with laboratory() as running:
        limits = {"limits": {"example.com/gpu": "2"}}
        container = {"name": "c", "image": "i", "resources": limits}
        document = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
        await running.create("Pod", document)
        (running_pod,) = await running.until_all("Pod", in_phases(Running=1))
        (claim,) = await running.all("ResourceClaim")
        status = running_pod["status"]["extendedResourceClaimStatus"]
        assert status["resourceClaimName"] == claim["metadata"]["name"]
        assert len(results([claim])) == 2
        await running.delete("Pod", "p")
        await running.until_all("ResourceClaim", lambda claims: not claims)
