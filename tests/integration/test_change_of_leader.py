"""The next leader writes the decisions that the previous one could not write before it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio

from berth.actors.client.rest import Connection
from berth.actors.system import run_scheduler
from berth.config.load import from_mapping
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Response, Stream
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.testing.virtual_time import LoopClock
from tests.kit import documents
from tests.kit.cluster import cluster
from tests.kit.documents import Document, node
from tests.kit.messages import no_room
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time

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
        self._store = fresh_store()
        Api(self._store).seed()
        self._server = Server(self._store)
        self.silent = True
        self.unanswered: list[str] = []
        self.deleted: list[str] = []

    def answer(self, request: HttpRequest) -> Response | Follow:
        if request.method == "DELETE":
            self.deleted.append(request.path.rpartition("/")[2])
        recorded = request.path.startswith("/apis/events.k8s.io") or b"PodScheduled" in request.body
        if self.silent and recorded and request.method != "GET":
            self.unanswered.append(f"{request.method} {request.path}")
            return self._never
        return self._server.answer(request)

    async def missed(self, path: str) -> None:
        """Waits for a write to this path of a pod."""
        with anyio.fail_after(30):
            while f"PATCH /api/v1/namespaces/default/pods/{path}" not in self.unanswered:
                await anyio.sleep(0.1)

    async def _never(self, stream: Stream) -> None:
        await asyncio.Event().wait()


@asynccontextmanager
async def scheduler(url: str, seed: int) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        await group.start(run_scheduler, CONFIGURATION, Connection(url), LoopClock(), Random(seed))
        yield
        group.cancel_scope.cancel()


def pod(name: str, cpu: str, priority_class: str = "", **metadata: Any) -> Document:
    fields: Document = {"priorityClassName": priority_class, "terminationGracePeriodSeconds": 0}
    return documents.pod(name, cpu, metadata=metadata, **fields)


@in_virtual_time
async def test_a_condition_that_was_not_written_is_written_by_the_next_leader() -> None:
    absent = Absent()
    async with cluster(absent.answer) as running:
        await running.create("Node", node("n"))
        await running.create("Pod", pod("big", "8"))
        async with scheduler(running.url, 1):
            await absent.missed("big/status")
        assert "conditions" not in (await running.get("Pod", "big"))["status"]
        absent.silent = False
        async with scheduler(running.url, 2):
            told = await running.status("Pod", "big", lambda status: "conditions" in status)
            assert [c["message"] for c in told["status"]["conditions"]] == [
                no_room(1, "1 Insufficient cpu")
            ]
            (event,) = await running.until_all("Event", lambda events: bool(events))
            assert event["message"] == no_room(1, "1 Insufficient cpu")


@in_virtual_time
async def test_an_unwritten_nomination_is_made_again_without_a_second_deletion() -> None:
    absent = Absent()
    async with cluster(absent.answer) as running:
        await running.create("Node", node("n"))
        await running.create("PriorityClass", {"metadata": {"name": "urgent"}, "value": 100})
        small = await running.create("Pod", pod("small", "3", finalizers=["berth.dev/stays"]))
        await running.client.bind("default", "small", small["metadata"]["uid"], "n")
        await running.create("Pod", pod("large", "4", "urgent"))
        async with scheduler(running.url, 1):
            await absent.missed("large/status")
            assert absent.deleted == ["small"]
        assert "nominatedNodeName" not in (await running.get("Pod", "large"))["status"]
        absent.silent = False
        async with scheduler(running.url, 2):
            told = await running.status(
                "Pod", "large", lambda status: "nominatedNodeName" in status
            )
            assert told["status"]["nominatedNodeName"] == "n"
            await running.patch("Pod", "small", {"metadata": {"finalizers": None}})
            assert await running.node_of("large") == "n"
            assert absent.deleted == ["small"]
