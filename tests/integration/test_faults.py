"""The scheduler against a failing API server: every pod that fits is bound once, and nothing stays
assumed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Sequence
from itertools import count
from random import Random

import anyio
import msgspec
import pytest

from berth.actors.client.rest import ANSWER_SECONDS, Client
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.plugin import (
    SUCCESS,
    Action,
    ClusterEvent,
    Code,
    CycleState,
    PermitPlugin,
    PodInfo,
    Registration,
    Resource,
    Status,
)
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Response, Stream
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit import documents
from tests.kit.cluster import cluster, configured
from tests.kit.documents import Document
from tests.kit.logs import capture_logs
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time

NODES, PODS = 40, 300


class Whim(PermitPlugin):
    """Allows most pods. Makes some wait until another pod arrives, and some until their time is
    over.
    """

    name = "Whim"
    rng = Random(7)

    def events_to_register(self) -> Sequence[Registration]:
        return (Registration(ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)),)

    def permit(self, state: CycleState, info: PodInfo, node: str) -> tuple[Status, float]:
        for waiting in self.handle.waiting.each():
            if self.rng.random() < 0.3:
                self.handle.waiting.allow(waiting.info.uid, self.name)
            elif self.rng.random() < 0.02:
                self.handle.waiting.reject(waiting.info.uid, self.name, "on a whim")
        if self.rng.random() < 0.05:
            return Status(Code.WAIT), 0.5
        return SUCCESS, 0.0


class Faults:
    """Fails some bindings, before or after it writes them. Counts the written ones."""

    def __init__(self, inner: Server) -> None:
        self._inner = inner
        self._rng = Random(3)
        self.written: Counter[str] = Counter()
        self.injected: Counter[str] = Counter()

    def answer(self, request: HttpRequest) -> Response | Follow:
        if request.method != "POST" or not request.path.endswith("/binding"):
            return self._inner.answer(request)
        uid = msgspec.json.decode(request.body)["metadata"]["uid"]
        draw = self._rng.random()
        if draw < 0.05:
            return self._refused("conflict", 409, "Conflict")
        if draw < 0.10:
            return self._refused("internal error", 500, "InternalError")
        if draw < 0.12:
            return self._too_late("time-out")
        response = self._inner.answer(request)
        if isinstance(response, Response) and response.status == 201:
            self.written[uid] += 1
            if draw < 0.14:
                return self._too_late("time-out although written")
            if draw < 0.18:
                return self._refused("internal error although written", 500, "InternalError")
        return response

    def _refused(self, what: str, code: int, reason: str) -> Response:
        self.injected[what] += 1
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": what,
            "reason": reason,
        }
        return Response(msgspec.json.encode({**status, "code": code}), code)

    def _too_late(self, what: str) -> Follow:
        self.injected[what] += 1

        async def wait(stream: Stream) -> None:
            await asyncio.sleep(2 * ANSWER_SECONDS)

        return wait


def node(name: str, zone: int) -> Document:
    labels = {"topology.kubernetes.io/zone": f"zone-{zone}", "kubernetes.io/hostname": name}
    return documents.node(name, 16, memory="64Gi", labels=labels)


def pod(name: str, cpu: str) -> Document:
    return documents.pod(name, cpu, labels={"app": name[-1]})


class Churn:
    """Random changes to the cluster, and the pods that must exist at the end."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rng = Random(11)
        self.hopeless: set[str] = set()
        self.alive: set[str] = set()

    async def run(self) -> None:
        for i in range(NODES):
            await self._client.call("POST", "/api/v1/nodes", dict, node(f"n{i}", i % 3))
        async with anyio.create_task_group() as group:
            for first in range(8):
                group.start_soon(self._pods, range(first, PODS, 8))
            group.start_soon(self._nodes)

    async def wake_the_rejected(self) -> None:
        """Changes a node's labels, for which the pods that Whim rejected wait."""
        for i in count():
            patch = {"metadata": {"labels": {"turn": str(i)}}}
            await self._client.patch("/api/v1/nodes/n0", patch, dict, "merge")
            await anyio.sleep(0.5)

    async def _pods(self, numbers: range) -> None:
        for i in numbers:
            name, draw = f"p{i}", self._rng.random()
            hopeless = draw < 0.01
            await self._client.call(
                "POST", PODS_PATH, dict, pod(name, "64" if hopeless else "250m")
            )
            self.alive.add(name)
            if hopeless:
                self.hopeless.add(name)
            if draw > 0.95:
                await self._delete(name)
                if draw > 0.975:  # recreated under its name, perhaps during its binding
                    await self._client.call("POST", PODS_PATH, dict, pod(name, "250m"))
                    self.alive.add(name)
            elif draw > 0.90:
                patch = {"metadata": {"labels": {"app": "changed"}}}
                await self._client.patch(f"{PODS_PATH}/{name}", patch, dict, "merge")
            elif draw > 0.85 and i > 100:
                await self._delete(f"p{i - 100}")

    async def _delete(self, name: str) -> None:
        if name not in self.alive:
            return
        self.alive.discard(name)
        self.hopeless.discard(name)
        now = {"gracePeriodSeconds": 0}
        await self._client.call("DELETE", f"{PODS_PATH}/{name}", dict, now)

    async def _nodes(self) -> None:
        """Changes nodes, and deletes and creates some again."""
        for i in range(60):
            name = f"n{self._rng.randrange(NODES)}"
            patch = {"metadata": {"labels": {"topology.kubernetes.io/zone": f"zone-{i % 4}"}}}
            await self._client.patch(f"/api/v1/nodes/{name}", patch, dict, "merge")
            if i % 6 == 0:
                await self._client.call("DELETE", f"/api/v1/nodes/{name}", dict)
                await anyio.sleep(0.02)
                await self._client.call("POST", "/api/v1/nodes", dict, node(name, i % 3))
            await anyio.sleep(0.02)


PODS_PATH = "/api/v1/namespaces/default/pods"


def pending(store: Store) -> set[str]:
    """Returns the pods without a node, from the server's store because listing them is slow."""
    documents = [stored.document for stored in store.list(BY_KIND["v1", "Pod"], "default")]
    return {item["metadata"]["name"] for item in documents if not item["spec"].get("nodeName")}


@pytest.mark.full("wall clock")
@in_virtual_time
async def test_every_pod_that_fits_is_bound_once_despite_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(IN_TREE, Whim.name, Whim)
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": Whim.name}]}}}
    configuration = configured(podMaxBackoffSeconds=2, profiles=[profile])
    store = fresh_store()
    Api(store).seed()
    faults = Faults(Server(store))
    with capture_logs() as logs:
        async with cluster(faults.answer) as running, anyio.create_task_group() as group:
            await running.schedule(configuration)
            churn = Churn(running.client)
            await churn.run()
            group.start_soon(churn.wake_the_rejected)
            with anyio.fail_after(3600):
                while pending(store) != churn.hopeless:
                    await anyio.sleep(0.25)
                while True:  # until the last echoes have arrived and the last failures are undone
                    logs.clear()
                    os.kill(os.getpid(), signal.SIGUSR2)
                    while not any("differences" in entry for entry in logs):
                        await anyio.sleep(0.01)
                    held = {
                        entry["of"]: entry
                        for entry in logs
                        if entry["event"] == "dump of statistics"
                    }
                    if not (held["cache"]["assumed_pods"] or held["queue"]["in_flight"]):
                        break
                    await anyio.sleep(0.1)
            pods = await running.by_name("Pod")
            group.cancel_scope.cancel()
    assert pods.keys() == churn.alive
    assert {
        name for name, item in pods.items() if not item["spec"].get("nodeName")
    } == churn.hopeless
    bound = {item["metadata"]["uid"] for item in pods.values() if item["spec"].get("nodeName")}
    assert bound <= faults.written.keys()
    assert set(faults.written.values()) == {1}, "bound more than once"
    assert held["binding"]["waiting"] == held["binding"]["in_pre_bind"] == 0
    expected = (0, 0, 0)
    assert (held["cache"]["healed"], held["cache"]["repaired"], held["queue"]["healed"]) == expected
    (comparison,) = (entry for entry in logs if "differences" in entry)
    assert comparison["differences"] == []
    nodes = {entry["name"]: entry for entry in logs if entry["event"] == "dump of a cached node"}
    counted = {p["key"]: name for name, entry in nodes.items() for p in entry["pods"]}
    assert counted == {
        f"default/{name}": item["spec"]["nodeName"]
        for name, item in pods.items()
        if item["spec"].get("nodeName")
    }
    assert len(faults.injected) == 5, faults.injected
