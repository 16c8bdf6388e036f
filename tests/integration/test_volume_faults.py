"""Volumes with an API server that answers wrongly, late or never, over HTTP in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio

from berth.actors.client.rest import Client, Connection
from berth.actors.client.wire import MAX_CONNECTIONS
from berth.actors.system import run_scheduler
from berth.config.load import from_mapping
from berth.tools.apiserver.api import Api
from berth.tools.apiserver.app import Server
from berth.tools.apiserver.http import Follow, Response, Stream, listen
from berth.tools.apiserver.http_reader import Request
from berth.tools.apiserver.store import Store
from tests.kit.virtual_loop import LoopClock, in_virtual_time

Document = dict[str, Any]
CORE = "/api/v1/namespaces/default"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CONFIGURATION = from_mapping(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 5000, "burst": 5000},
    }
)


class Faulty:
    """A toy API server that never answers the requests that `hangs` names."""

    def __init__(self) -> None:
        store = Store()
        Api(store).seed()
        self._server = Server(store)
        self.hangs: Callable[[Request], bool] = lambda _: False
        self.unanswered = 0

    def answer(self, request: Request) -> Response | Follow:
        if self.hangs(request):
            self.unanswered += 1
            return self._never
        return self._server.answer(request)

    async def _never(self, stream: Stream) -> None:
        await asyncio.Event().wait()


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[Faulty, Client]]:
    """A cluster of one node and one class that makes volumes; nobody makes them."""
    faulty = Faulty()
    async with (
        listen(faulty.answer) as url,
        Client(Connection(url)) as client,
        anyio.create_task_group() as group,
    ):
        allocatable = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
        node = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
        await client.call("POST", "/api/v1/nodes", dict, node)
        made = {
            "metadata": {"name": "made"},
            "provisioner": "driver",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await client.call("POST", CLASSES, dict, made)
        clock = LoopClock()
        await group.start(run_scheduler, CONFIGURATION, Connection(url), clock, Random(1))
        yield faulty, client
        group.cancel_scope.cancel()


async def claim(client: Client, name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "made",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    document = {"metadata": {"name": name}, "spec": spec}
    await client.call("POST", f"{CORE}/persistentvolumeclaims", dict, document)


async def pod(client: Client, name: str, claim: str = "") -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    await client.call("POST", f"{CORE}/pods", dict, {"metadata": {"name": name}, "spec": spec})


@in_virtual_time
async def test_claims_whose_changes_hang_hold_up_no_other_pod() -> None:
    """As with an admission webhook for claims that does not answer."""
    async with cluster() as (faulty, client):
        faulty.hangs = lambda it: it.method == "PATCH" and "persistentvolumeclaims" in it.path
        for i in range(2 * MAX_CONNECTIONS):
            await claim(client, f"c{i}")
            await pod(client, f"p{i}", f"c{i}")
        with anyio.fail_after(10):
            while faulty.unanswered < MAX_CONNECTIONS:
                await anyio.sleep(0.1)
        await pod(client, "other")
        with anyio.fail_after(5):
            while not (await client.call("GET", f"{CORE}/pods/other", dict))["spec"].get(
                "nodeName"
            ):
                await anyio.sleep(0.1)
