"""The next leader writes the decisions that the previous one could not write before it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio

from berth.actors.client.rest import Client, Connection
from berth.actors.runtime.clock import SystemClock
from berth.actors.system import run_scheduler
from berth.config.load import from_mapping
from berth.tools.apiserver.api import Api
from berth.tools.apiserver.app import Server
from berth.tools.apiserver.http import Follow, Response, Stream, listen
from berth.tools.apiserver.http_reader import Request
from berth.tools.apiserver.store import Store
from tests.kit.messages import no_room

Document = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CONFIGURATION = from_mapping(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"},
    }
)


class Absent:
    """An API server that answers none of the recorder's requests while it is `silent`. It lists
    those requests, and all deletions.
    """

    def __init__(self) -> None:
        self._store = Store()
        Api(self._store).seed()
        self._server = Server(self._store)
        self.silent = True
        self.unanswered: list[str] = []
        self.deleted: list[str] = []

    def answer(self, request: Request) -> Response | Follow:
        if request.method == "DELETE":
            self.deleted.append(request.path.rpartition("/")[2])
        recorded = request.path.startswith("/apis/events.k8s.io") or b"PodScheduled" in request.body
        if self.silent and recorded and request.method != "GET":
            self.unanswered.append(f"{request.method} {request.path}")
            return self._never
        return self._server.answer(request)

    async def _never(self, stream: Stream) -> None:
        await asyncio.Event().wait()


@asynccontextmanager
async def api_server() -> AsyncIterator[tuple[Absent, str, Client]]:
    absent = Absent()
    async with listen(absent.answer) as url, Client(Connection(url)) as client:
        yield absent, url, client


@asynccontextmanager
async def scheduler(url: str, seed: int) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        await group.start(
            run_scheduler, CONFIGURATION, Connection(url), SystemClock(), Random(seed)
        )
        yield
        group.cancel_scope.cancel()


def node(name: str) -> Document:
    return {
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }


def pod(name: str, cpu: str, priority_class: str = "", **metadata: Any) -> Document:
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    spec = {
        "containers": [container],
        "priorityClassName": priority_class,
        "terminationGracePeriodSeconds": 0,
    }
    return {"metadata": {"name": name, **metadata}, "spec": spec}


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not holds():
            await anyio.sleep(0.02)


async def status_of(client: Client, name: str, holds: Callable[[Document], bool]) -> Document:
    with anyio.fail_after(20):
        while True:
            status: Document = (await client.call("GET", f"{PODS}/{name}", dict))["status"]
            if holds(status):
                return status
            await anyio.sleep(0.02)


async def test_a_condition_that_was_not_written_is_written_by_the_next_leader() -> None:
    async with api_server() as (absent, url, client):
        await client.call("POST", "/api/v1/nodes", dict, node("n"))
        await client.call("POST", PODS, dict, pod("big", "8"))
        async with scheduler(url, 1):
            await until(lambda: f"PATCH {PODS}/big/status" in absent.unanswered)
        assert "conditions" not in (await client.call("GET", f"{PODS}/big", dict))["status"]
        absent.silent = False
        async with scheduler(url, 2):
            status = await status_of(client, "big", lambda status: "conditions" in status)
            assert [c["message"] for c in status["conditions"]] == [
                no_room(1, "1 Insufficient cpu")
            ]
            with anyio.fail_after(20):
                while not (found := (await client.call("GET", EVENTS, dict))["items"]):
                    await anyio.sleep(0.02)
            assert found[0]["note"] == no_room(1, "1 Insufficient cpu")


async def test_an_unwritten_nomination_is_made_again_without_a_second_deletion() -> None:
    async with api_server() as (absent, url, client):
        await client.call("POST", "/api/v1/nodes", dict, node("n"))
        urgent = {"metadata": {"name": "urgent"}, "value": 100}
        await client.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", dict, urgent)
        made = await client.call(
            "POST", PODS, dict, pod("small", "3", finalizers=["berth.dev/stays"])
        )
        await client.bind("default", "small", made["metadata"]["uid"], "n")
        await client.call("POST", PODS, dict, pod("large", "4", "urgent"))
        async with scheduler(url, 1):
            await until(
                lambda: (
                    "small" in absent.deleted and f"PATCH {PODS}/large/status" in absent.unanswered
                )
            )
        assert (
            "nominatedNodeName" not in (await client.call("GET", f"{PODS}/large", dict))["status"]
        )
        absent.silent = False
        async with scheduler(url, 2):
            status = await status_of(client, "large", lambda status: "nominatedNodeName" in status)
            assert status["nominatedNodeName"] == "n"
            await client.patch(f"{PODS}/small", {"metadata": {"finalizers": None}}, dict, "merge")
            await status_of(
                client, "large", lambda status: status["conditions"][0]["status"] == "True"
            )
            assert absent.deleted == ["small"]
