"""An API server that is killed amid evictions, and started again with the rest of the cluster: the
budget is obeyed at every write, and every pod that leaves is replaced.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from random import Random

import anyio
import pytest
from anyio.abc import TaskGroup

from berth.actors.client.rest import (
    ApiError,
    Client,
    Connection,
    ConnectionFailedError,
    IgnoredAnswer,
)
from berth.actors.runtime.clock import SystemClock
from berth.actors.system import run_scheduler
from berth.tools.cluster.controllers.cluster_access import OverHttp
from berth.tools.cluster.controllers.controller_manager import run_controllers
from berth.tools.cluster.kubelets.kubelets import run_kubelets
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit import documents
from tests.kit.cluster import UNLIMITED, ClusterClient, path_of
from tests.kit.documents import Document
from tests.kit.processes import berth, free_port

NODES = 10
REPLICAS = 150
UNAVAILABLE = 10
LIVES = 3  # of the server, each ended by a kill
AT_ONCE = 8  # clients that evict
SECONDS = 240.0
LABELS = {"app": "x"}


def workload() -> Document:
    pods = documents.template("x", terminationGracePeriodSeconds=0)
    return documents.workload("Deployment", "x", pods, replicas=REPLICAS)


def is_healthy(pod: Document) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def all_healthy(pods: list[Document]) -> bool:
    return len(pods) == REPLICAS and all(map(is_healthy, pods))


def fewest_healthy(data: bytes, since: int) -> int:
    """Returns the fewest healthy pods after any write of a journal from this revision on."""
    healthy: set[str] = set()
    fewest = REPLICAS
    for line in map(json.loads, data.split(b"\n")[:-1]):
        item = line["object"]
        revision = int(item["metadata"]["resourceVersion"])
        if line["type"] == "COMPACTED":
            since = max(since, revision)  # what follows up to there is the state at the start
        elif item["kind"] == "Pod":
            if line["type"] != "DELETED" and is_healthy(item):
                healthy.add(item["metadata"]["uid"])
            else:
                healthy.discard(item["metadata"]["uid"])
        if revision > since:
            fewest = min(fewest, len(healthy))
    return fewest


async def is_evicted(client: Client, name: str) -> bool:
    """Asks for the eviction of a pod. True if it has been evicted, now or by an earlier request."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    try:
        await client.call("POST", path_of("Pod", name) + "/eviction", IgnoredAnswer, body)
    except ConnectionFailedError:
        return False
    except ApiError as refused:
        if refused.code not in (404, 429):
            raise
        return refused.code == 404
    return True


async def start_parts(running: ClusterClient, group: TaskGroup) -> None:
    """Starts all but the server."""
    clock = SystemClock()
    access = OverHttp(running.client, clock, Random(1))
    await group.start(run_controllers, access, clock, Random(1))
    await group.start(run_kubelets, access, clock, Random(1))
    await group.start(run_scheduler, UNLIMITED, Connection(running.url), clock, Random(1))


async def create_workload(running: ClusterClient) -> list[Document]:
    """Creates nodes, pods that run on them, and a budget. Returns the pods."""
    await running.create_all("Node", map(hollow_node, range(1, NODES + 1)))
    await running.create("Deployment", workload())
    pods = await running.until_all("Pod", all_healthy, SECONDS)
    spec = {"maxUnavailable": UNAVAILABLE, "selector": {"matchLabels": LABELS}}
    await running.create("PodDisruptionBudget", {"metadata": {"name": "b"}, "spec": spec})
    return pods


@pytest.mark.full("waits")
async def test_the_budget_holds_at_every_write_whenever_the_server_is_killed(
    tmp_path: Path,
) -> None:
    data, port = tmp_path / "objects", free_port()
    arguments = ("apiserver", "--data", str(data), "--port", str(port))
    url = f"http://127.0.0.1:{port}"
    names: list[str] = []
    evicted: list[str] = []
    fewest: list[int] = []
    since = 0

    async def evict_some() -> None:
        while names:
            name = names.pop()
            while not await is_evicted(client, name):
                await anyio.sleep(0.2)
            evicted.append(name)

    async with Client(Connection(url)) as client, anyio.create_task_group() as evictors:
        running = ClusterClient(client, url)
        for life in range(1, LIVES + 1):
            async with berth(tmp_path, *arguments) as server, anyio.create_task_group() as parts:
                await server.says("API server at")
                await start_parts(running, parts)
                if life == 1:
                    pods = await create_workload(running)
                    since = max(int(pod["metadata"]["resourceVersion"]) for pod in pods)
                    names += [pod["metadata"]["name"] for pod in pods]
                    for _ in range(AT_ONCE):
                        evictors.start_soon(evict_some)
                with anyio.fail_after(SECONDS):
                    while len(evicted) < REPLICAS * life // LIVES:
                        await anyio.sleep(0.005)
                if life == LIVES:
                    left = await running.until_all("Pod", all_healthy, SECONDS)
                    assert not {pod["metadata"]["name"] for pod in left} & set(evicted)
                server.send(signal.SIGKILL)
                await server.end()
                parts.cancel_scope.cancel()
            fewest.append(fewest_healthy(data.read_bytes(), since))
    assert all(REPLICAS - UNAVAILABLE <= healthy < REPLICAS for healthy in fewest), fewest
