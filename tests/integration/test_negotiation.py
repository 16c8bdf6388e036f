"""The older negotiation of devices over HTTP: scheduler, hollow driver and kubelets. Afterwards no
claim is allocated without a user, and no context is left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from berth.actors.configuration.file import load_file
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Response
from berth.tools.cluster.drivers.negotiation_driver import run_negotiating_driver
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.command import NEGOTIATION
from tests.kit import documents
from tests.kit.cluster import UNLIMITED, Cluster, cluster
from tests.kit.devices import claim as claim_of_v1
from tests.kit.devices import device_class, request, resource_slice
from tests.kit.documents import Document
from tests.kit.virtual_loop import in_virtual_time

pytestmark = pytest.mark.full("long")
DRIVER = "gpu.example.com"
OLDER = "resource.k8s.io/v1alpha2"
CLASS, CLAIM, CONTEXT = (
    f"{OLDER}/{kind}" for kind in ("ResourceClass", "ResourceClaim", "PodSchedulingContext")
)


@asynccontextmanager
async def negotiating(nodes: int = 2, *, driver: bool = True) -> AsyncIterator[Cluster]:
    async with cluster() as running:
        await running.start_hollow(map(hollow_node, range(1, nodes + 1)))
        await running.create(CLASS, {"metadata": {"name": "gpu"}, "driverName": DRIVER})
        if driver:
            await running.start(run_negotiating_driver)
        configuration, alone = load_file(NEGOTIATION), UNLIMITED.leader_election
        await running.schedule(msgspec.structs.replace(configuration, leader_election=alone))
        yield running


async def runs(running: Cluster, pod: str) -> str:
    """Waits until the pod runs; returns its node."""
    await running.status("Pod", pod, lambda status: status.get("phase") == "Running")
    return await running.node_of(pod)


async def settle(running: Cluster) -> None:
    """Checks that every claim that is allocated has a user, and that no context is left."""
    await running.until_all(CONTEXT, lambda contexts: not contexts)
    for claim in await running.all(CLAIM):
        status = claim.get("status") or {}
        assert bool(status.get("allocation")) == bool(status.get("reservedFor")), claim


def claim(name: str, **spec: str) -> Document:
    return {"metadata": {"name": name}, "spec": {"resourceClassName": "gpu", **spec}}


def pod(name: str, *claims: str, seconds: int = 0, **spec: Any) -> Document:
    annotations = {"berth.dev/run-seconds": str(seconds)} if seconds else {}
    fields = {"annotations": annotations, "restartPolicy": "Never", **spec}
    entries = [{"name": f"of-{c}", "resourceClaimName": c} for c in claims]
    return documents.pod(name, resourceClaims=entries, **fields)


def message(pod: Document) -> str:
    conditions = pod["status"].get("conditions") or ()
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")


@in_virtual_time
async def test_a_driver_allocates_for_the_selected_node_and_the_pod_runs_there() -> None:
    async with negotiating() as running:
        await running.create(CLAIM, claim("c"))
        await running.create("Pod", pod("p", "c"))
        node = await runs(running, "p")
        stored = await running.get(CLAIM, "c")
        assert stored["status"]["driverName"] == "gpu.example.com"
        (handle,) = stored["status"]["allocation"]["resourceHandles"]
        assert handle["data"] == node
        assert [user["name"] for user in stored["status"]["reservedFor"]] == ["p"]
        assert stored["metadata"]["finalizers"] == ["gpu.example.com/deletion-protection"]
        await settle(running)


@in_virtual_time
async def test_a_pod_whose_first_choice_is_unsuitable_ends_on_another_node() -> None:
    async with negotiating(nodes=3) as running:
        places = set()
        for name in ("a", "b", "c"):
            await running.create(CLAIM, claim(name))
            await running.create("Pod", pod(name, name))
            places.add(await runs(running, name))
        assert len(places) == 3
        # There is no room for a fourth, until one of them ends.
        await running.create(CLAIM, claim("d"))
        await running.create("Pod", pod("d", "d"))
        waiting = await running.until("Pod", "d", lambda pod: "unsuitable" in message(pod))
        reason = "resourceclaim cannot be allocated for the node (unsuitable)"
        assert message(waiting).startswith(f"0/3 nodes are available: 3 {reason}.")
        await running.delete("Pod", "b")
        await runs(running, "d")
        await settle(running)


@in_virtual_time
async def test_claims_of_one_pod_are_allocated_for_the_same_node() -> None:
    async with negotiating() as running:
        two = {"metadata": {"annotations": {"berth.dev/claims-per-node": "2"}}}
        await running.patch(CLASS, "gpu", two)
        for name in ("one", "two", "three"):
            await running.create(CLAIM, claim(name))
        await running.create("Pod", pod("p", "one"))
        first = await runs(running, "p")
        await running.create("Pod", pod("q", "two", "three"))
        assert await runs(running, "q") != first
        await settle(running)


@in_virtual_time
async def test_deleting_a_waiting_pod_leaves_nothing() -> None:
    async with negotiating(nodes=1, driver=False) as running:
        await running.create(CLAIM, claim("c"))
        await running.create("Pod", pod("p", "c"))
        waiting = await running.until("Pod", "p", lambda pod: "waiting" in message(pod))
        assert message(waiting).endswith("waiting for resource driver to allocate resource")
        (context,) = await running.all(CONTEXT)
        assert context["spec"] == {"selectedNode": "node-1", "potentialNodes": ["node-1"]}
        await running.start(run_negotiating_driver)
        await runs(running, "p")
        await running.delete("Pod", "p")
        await running.until(CLAIM, "c", lambda claim: not claim.get("status"))
        await running.until(CLAIM, "c", lambda claim: not claim["metadata"].get("finalizers"))
        await settle(running)


@in_virtual_time
async def test_a_claim_on_a_node_that_the_pod_cannot_use_is_given_up() -> None:
    async with negotiating() as running:
        await running.create(CLAIM, claim("c"))
        await running.create("Pod", pod("p", "c", seconds=5))
        first = await runs(running, "p")
        await running.patch("Node", first, {"spec": {"unschedulable": True}})
        await running.create("Pod", pod("q", "c"))
        waiting = await running.until("Pod", "q", lambda pod: message(pod) != "")
        assert "resourceclaim in use" in message(waiting)
        assert await runs(running, "q") != first
        await settle(running)


@in_virtual_time
async def test_an_immediate_claim_decides_where_its_pod_runs() -> None:
    async with negotiating() as running:
        await running.create(CLAIM, claim("c", allocationMode="Immediate"))
        allocated = await running.until(
            CLAIM, "c", lambda claim: bool((claim.get("status") or {}).get("allocation"))
        )
        (handle,) = allocated["status"]["allocation"]["resourceHandles"]
        await running.create("Pod", pod("p", "c"))
        assert await runs(running, "p") == handle["data"]
        assert await running.all(CONTEXT) == []


@in_virtual_time
async def test_a_pod_uses_claims_of_both_apis() -> None:
    async with negotiating() as running:
        await running.create("DeviceClass", device_class("fpga"))
        await running.create("ResourceSlice", resource_slice("node-2", "fpga-0"))
        await running.create("ResourceClaim", claim_of_v1("v1", request(of="fpga")))
        await running.create(CLAIM, claim("c"))
        await running.create("Pod", pod("p", "c", "v1"))
        assert await runs(running, "p") == "node-2"
        stored = await running.get("ResourceClaim", "v1")
        assert [user["name"] for user in stored["status"]["reservedFor"]] == ["p"]
        await settle(running)


@in_virtual_time
async def test_a_claim_may_come_after_its_pod() -> None:
    async with negotiating() as running:
        await running.create("Pod", pod("p", "c"))
        await anyio.sleep(5)
        await running.create(CLAIM, claim("c"))
        await runs(running, "p")
        await settle(running)


@in_virtual_time
async def test_a_context_that_was_created_before_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scheduler learns it from the API server, if the informer does not have it yet."""
    answer = Server.answer
    created: list[HttpRequest] = []

    def first_is_lost(server: Server, request: HttpRequest) -> Response | Follow:
        answered = answer(server, request)
        is_first = request.path.endswith("/podschedulingcontexts") and not created
        if request.method != "POST" or not is_first:
            return answered
        created.append(request)
        exists = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "it exists"}
        return Response(msgspec.json.encode(exists), 409)

    monkeypatch.setattr(Server, "answer", first_is_lost)
    async with negotiating() as running:
        await running.create(CLAIM, claim("c"))
        await running.create("Pod", pod("p", "c"))
        await runs(running, "p")
        assert created
        await settle(running)
