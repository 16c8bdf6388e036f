"""The older negotiation of devices over HTTP: scheduler, hollow driver and kubelets. Afterwards no
claim is allocated without a user, and no context is left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import anyio
import msgspec
import pytest

from berth.actors.client.rest import ApiError, Client, Connection
from berth.actors.configuration.file import load_file
from berth.actors.system import run_scheduler
from berth.tools.apiserver.app import Server, serve
from berth.tools.apiserver.http import Follow, Response
from berth.tools.apiserver.http_reader import Request
from berth.tools.apiserver.resources import BY_KIND
from berth.tools.demo.command import NEGOTIATION
from berth.tools.hollow.controllers import run_controllers
from berth.tools.hollow.kubelet import hollow_node, run_kubelets
from berth.tools.hollow.negotiation.driver import run_negotiating_driver
from tests.integration.test_hollow import CONFIGURATION
from tests.kit.devices import claim as claim_of_v1
from tests.kit.devices import device_class, request, resource_slice
from tests.kit.virtual_loop import LoopClock, in_virtual_time

Document = dict[str, Any]
API = "resource.k8s.io/v1alpha2"
CLASS = {"metadata": {"name": "gpu"}, "driverName": "gpu.example.com"}


class Cluster:
    def __init__(self, client: Client) -> None:
        self.client = client

    @staticmethod
    def path(kind: str, name: str = "") -> str:
        version = API if (API, kind) in BY_KIND else "v1"
        return BY_KIND[version, kind].path("default", name)

    async def create(self, kind: str, document: Document) -> None:
        await self.client.call("POST", self.path(kind), dict, document)

    async def patch(self, kind: str, name: str, body: Document, subresource: str = "") -> None:
        path = self.path(kind, name) + subresource
        await self.client.patch(path, body, dict, "merge")

    async def delete(self, kind: str, name: str) -> None:
        await self.client.call("DELETE", self.path(kind, name), dict)

    async def get(self, kind: str, name: str) -> Document:
        found: Document = await self.client.call("GET", self.path(kind, name), dict)
        return found

    async def all(self, kind: str) -> list[Document]:
        found: Document = await self.client.call("GET", self.path(kind), dict)
        items: list[Document] = found["items"]
        return items

    async def until(
        self, kind: str, name: str, holds: Callable[[Document], bool], seconds: float = 30
    ) -> Document:
        with anyio.fail_after(seconds):
            while not holds(found := await self.get(kind, name)):
                await anyio.sleep(0.05)
        return found

    async def runs(self, name: str) -> str:
        """The node of a pod, once it runs."""
        found = await self.until("Pod", name, lambda pod: pod["status"]["phase"] == "Running")
        return str(found["spec"]["nodeName"])

    async def settle(self) -> None:
        """Checks that every claim that is allocated has a user, and that no context is left."""
        with anyio.fail_after(30):
            while await self.all("PodSchedulingContext"):
                await anyio.sleep(0.05)
        for claim in await self.all("ResourceClaim"):
            status = claim.get("status") or {}
            assert bool(status.get("allocation")) == bool(status.get("reservedFor")), claim


@asynccontextmanager
async def cluster(
    nodes: int = 2, *, plugin: bool = True, driver: bool = True
) -> AsyncIterator[Cluster]:
    clock, rng = LoopClock(), Random(1)
    async with (
        serve() as url,
        Client(Connection(url)) as client,
        anyio.create_task_group() as group,
    ):
        running = Cluster(client)
        for number in range(1, nodes + 1):
            await running.create("Node", hollow_node(number))
        await running.create("ResourceClass", CLASS)
        await group.start(run_controllers, client, clock, rng)
        await group.start(run_kubelets, client, clock, rng)
        if driver:
            await group.start(run_negotiating_driver, client, clock, rng)
        configuration = load_file(NEGOTIATION) if plugin else CONFIGURATION
        alone = msgspec.structs.replace(
            configuration, leader_election=CONFIGURATION.leader_election
        )
        await group.start(partial(run_scheduler, alone, Connection(url), clock, rng))
        yield running
        group.cancel_scope.cancel()


def claim(name: str, **spec: str) -> Document:
    return {"metadata": {"name": name}, "spec": {"resourceClassName": "gpu", **spec}}


def pod(name: str, *claims: str, seconds: int = 0, **spec: Any) -> Document:
    annotations = {"berth.dev/run-seconds": str(seconds)} if seconds else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": f"of-{c}", "resourceClaimName": c} for c in claims],
            **spec,
        },
    }


def message(pod: Document) -> str:
    conditions = pod["status"].get("conditions") or ()
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")


@in_virtual_time
async def test_a_driver_allocates_for_the_selected_node_and_the_pod_runs_there() -> None:
    async with cluster() as running:
        await running.create("ResourceClaim", claim("c"))
        await running.create("Pod", pod("p", "c"))
        node = await running.runs("p")
        found = await running.get("ResourceClaim", "c")
        assert found["status"]["driverName"] == "gpu.example.com"
        (handle,) = found["status"]["allocation"]["resourceHandles"]
        assert handle["data"] == node
        assert [user["name"] for user in found["status"]["reservedFor"]] == ["p"]
        assert found["metadata"]["finalizers"] == ["gpu.example.com/deletion-protection"]
        await running.settle()


@in_virtual_time
async def test_a_pod_whose_first_choice_is_unsuitable_ends_on_another_node() -> None:
    async with cluster(nodes=3) as running:
        places = set()
        for name in ("a", "b", "c"):
            await running.create("ResourceClaim", claim(name))
            await running.create("Pod", pod(name, name))
            places.add(await running.runs(name))
        assert len(places) == 3
        # There is no room for a fourth, until one of them ends.
        await running.create("ResourceClaim", claim("d"))
        await running.create("Pod", pod("d", "d"))
        waiting = await running.until("Pod", "d", lambda pod: "unsuitable" in message(pod))
        reason = "resourceclaim cannot be allocated for the node (unsuitable)"
        assert message(waiting).startswith(f"0/3 nodes are available: 3 {reason}.")
        await running.delete("Pod", "b")
        await running.runs("d")
        await running.settle()


@in_virtual_time
async def test_claims_of_one_pod_are_allocated_for_the_same_node() -> None:
    async with cluster() as running:
        two = {"metadata": {"annotations": {"berth.dev/claims-per-node": "2"}}}
        await running.patch("ResourceClass", "gpu", two)
        for name in ("one", "two", "three"):
            await running.create("ResourceClaim", claim(name))
        await running.create("Pod", pod("p", "one"))
        first = await running.runs("p")
        await running.create("Pod", pod("q", "two", "three"))
        assert await running.runs("q") != first
        await running.settle()


@in_virtual_time
async def test_a_context_that_was_created_before_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scheduler learns it from the API server, if the informer does not have it yet."""
    answer = Server.answer
    created: list[Request] = []

    def first_is_lost(server: Server, request: Request) -> Response | Follow:
        answered = answer(server, request)
        is_first = request.path.endswith("/podschedulingcontexts") and not created
        if request.method != "POST" or not is_first:
            return answered
        created.append(request)
        exists = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "it exists"}
        return Response(msgspec.json.encode(exists), 409)

    monkeypatch.setattr(Server, "answer", first_is_lost)
    async with cluster() as running:
        await running.create("ResourceClaim", claim("c"))
        await running.create("Pod", pod("p", "c"))
        await running.runs("p")
        assert created
        await running.settle()


@in_virtual_time
async def test_deleting_a_waiting_pod_leaves_nothing() -> None:
    async with cluster(nodes=1, driver=False) as running:
        await running.create("ResourceClaim", claim("c"))
        await running.create("Pod", pod("p", "c"))
        found = await running.until("Pod", "p", lambda pod: "waiting" in message(pod))
        assert message(found).endswith("waiting for resource driver to allocate resource")
        (context,) = await running.all("PodSchedulingContext")
        assert context["spec"] == {"selectedNode": "node-1", "potentialNodes": ["node-1"]}
        async with anyio.create_task_group() as group:
            await group.start(run_negotiating_driver, running.client, LoopClock(), Random(1))
            await running.runs("p")
            await running.delete("Pod", "p")
            await running.until("ResourceClaim", "c", lambda claim: not claim.get("status"))
            await running.until(
                "ResourceClaim", "c", lambda claim: not claim["metadata"].get("finalizers")
            )
            await running.settle()
            group.cancel_scope.cancel()


@in_virtual_time
async def test_a_claim_on_a_node_that_the_pod_cannot_use_is_given_up() -> None:
    async with cluster() as running:
        await running.create("ResourceClaim", claim("c"))
        await running.create("Pod", pod("p", "c", seconds=5))
        first = await running.runs("p")
        await running.patch("Node", first, {"spec": {"unschedulable": True}})
        await running.create("Pod", pod("q", "c"))
        waiting = await running.until("Pod", "q", lambda pod: message(pod) != "")
        assert "resourceclaim in use" in message(waiting)
        assert await running.runs("q") != first
        await running.settle()


@in_virtual_time
async def test_an_immediate_claim_decides_where_its_pod_runs() -> None:
    async with cluster() as running:
        await running.create("ResourceClaim", claim("c", allocationMode="Immediate"))
        found = await running.until(
            "ResourceClaim", "c", lambda claim: bool((claim.get("status") or {}).get("allocation"))
        )
        (handle,) = found["status"]["allocation"]["resourceHandles"]
        await running.create("Pod", pod("p", "c"))
        assert await running.runs("p") == handle["data"]
        assert await running.all("PodSchedulingContext") == []


@in_virtual_time
async def test_a_pod_uses_claims_of_both_apis() -> None:
    async with cluster() as running:
        v1 = "/apis/resource.k8s.io/v1"
        for path, document in (
            ("deviceclasses", device_class("fpga")),
            ("resourceslices", resource_slice("node-2", "fpga-0")),
            ("namespaces/default/resourceclaims", claim_of_v1("v1", request(of="fpga"))),
        ):
            await running.client.call("POST", f"{v1}/{path}", dict, document)
        await running.create("ResourceClaim", claim("c"))
        await running.create("Pod", pod("p", "c", "v1"))
        assert await running.runs("p") == "node-2"
        found = await running.client.call("GET", f"{v1}/namespaces/default/resourceclaims/v1", dict)
        assert [user["name"] for user in found["status"]["reservedFor"]] == ["p"]
        await running.settle()


@in_virtual_time
async def test_without_the_plugin_such_a_claim_does_not_exist() -> None:
    async with cluster(plugin=False) as running:
        await running.create("ResourceClaim", claim("c"))
        await running.create("Pod", pod("p", "c"))
        await anyio.sleep(60)
        assert "nodeName" not in (await running.get("Pod", "p"))["spec"]
        assert await running.all("PodSchedulingContext") == []


@in_virtual_time
async def test_a_claim_may_come_after_its_pod() -> None:
    async with cluster() as running:
        await running.create("Pod", pod("p", "c"))
        await anyio.sleep(5)
        await running.create("ResourceClaim", claim("c"))
        await running.runs("p")
        await running.settle()


@in_virtual_time
async def test_the_api_server_checks_a_claim() -> None:
    async with cluster(driver=False) as running:
        with pytest.raises(ApiError, match=r'spec.allocationMode: Unsupported value: "Soon"'):
            await running.create("ResourceClaim", claim("c", allocationMode="Soon"))
