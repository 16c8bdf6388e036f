"""How the events of controllers are written, counted, and created again once they are gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio

from berth.actors.client.rest import ApiError
from berth.actors.scheduling.kube.core import Node
from berth.tools.cluster.controllers.cluster_access import ClusterAccess
from berth.tools.cluster.controllers.event_writer import MOST_WAITING, Recorder
from berth.tools.kubernetes.objects.object_events import Reporter, event_about
from berth.tools.kubernetes.objects.structs import Document, read
from berth.tools.testing.virtual_time import LoopClock
from tests.kit.virtual_loop import in_virtual_time

REPORTER = Reporter("daemonset-controller")


class Server:
    """A server that takes a while for a write, and refuses events of a message."""

    def __init__(self, refused: str = "", seconds: float = 1.0) -> None:
        self.events: dict[str, Document] = {}
        self.writes: list[str] = []
        self._refused = refused
        self._seconds = seconds

    async def call(self, method: str, path: str, _: type[Any], body: Document) -> None:
        await self._take(method, body)
        self.events[f"{path}/{body['metadata']['name']}"] = dict(body)

    async def patch(self, path: str, body: Document, _: type[Any], kind: str) -> None:
        await self._take(kind, body)
        if path not in self.events:
            raise ApiError(404, "NotFound", "it is gone")
        self.events[path] |= body

    async def _take(self, what: str, body: Document) -> None:
        await anyio.sleep(self._seconds)
        self.writes.append(f"{what} {body['message']} {body['count']}")
        if body["message"] == self._refused:
            raise ApiError(403, "Forbidden", "its namespace ends")


@asynccontextmanager
async def recording(server: Server) -> AsyncGenerator[Recorder]:
    async with anyio.create_task_group() as group:
        yield Recorder(cast("ClusterAccess", server), LoopClock(), group)


def event(message: str, node: str = "n") -> Document:
    metadata = {"name": node, "uid": node, "resourceVersion": "7"}
    obj = read({"metadata": metadata}, Node)
    return event_about(obj, "Normal", "SuccessfulCreate", message, REPORTER, LoopClock().wall())


@in_virtual_time
async def test_an_event_names_its_object_and_its_reporter() -> None:
    server = Server()
    async with recording(server) as recorder:
        recorder.record(event("a"))
    ((path, written),) = server.events.items()
    assert path == f"/api/v1/namespaces/default/events/{written['metadata']['name']}"
    assert written["involvedObject"]["resourceVersion"] == "7"
    assert written["source"] == {"component": "daemonset-controller"}
    reported = written["reportingComponent"], written["reportingInstance"]
    assert reported == ("daemonset-controller", "")


@in_virtual_time
async def test_what_happens_again_before_it_is_written_is_written_once() -> None:
    server = Server()
    async with recording(server) as recorder:
        for message in "abbb":
            recorder.record(event(message))
        await anyio.sleep(3)
        recorder.record(event("b"))
    assert server.writes == ["POST a 1", "POST b 3", "merge b 4"]
    assert [each["count"] for each in server.events.values()] == [1, 4]


@in_virtual_time
async def test_an_event_that_is_gone_is_created_again_with_its_count() -> None:
    server = Server()
    async with recording(server) as recorder:
        recorder.record(event("a"))
        await anyio.sleep(2)
        server.events.clear()
        recorder.record(event("a"))
    assert server.writes == ["POST a 1", "merge a 2", "POST a 2"]
    ((_, written),) = server.events.items()
    assert written["firstTimestamp"] < written["lastTimestamp"]


@in_virtual_time
async def test_a_refused_event_is_lost_and_the_next_ones_are_not() -> None:
    server = Server(refused="a")
    async with recording(server) as recorder:
        for message in "ab":
            recorder.record(event(message))
        await anyio.sleep(3)
        recorder.record(event("c"))
    assert server.writes == ["POST a 1", "POST b 1", "POST c 1"]


@in_virtual_time
async def test_events_that_wait_are_limited() -> None:
    server = Server(seconds=0)
    async with recording(server) as recorder:
        for number in range(MOST_WAITING + 5):
            recorder.record(event("a", node=str(number)))
        await anyio.sleep(1)
        recorder.record(event("b"))
    assert len(server.writes) == MOST_WAITING + 1
