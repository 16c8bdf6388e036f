"""Lists that the server streams as the beginning of a watch, and servers that do not stream."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any

import anyio
import msgspec
import pytest
from aiohttp import web

from berth.actors.client.interruption import STALLED_SECONDS
from berth.actors.client.reflector_state import Streaming
from berth.actors.client.rest import Client, Connection
from berth.actors.client.watch import (
    ObjectChanged,
    ObjectsListed,
    Reflector,
    Unreadable,
    WatchUpdate,
)
from berth.actors.runtime.clock import Clock
from berth.plugin import Pod
from berth.tools.testing.virtual_time import LoopClock
from tests.integration.test_client import Handler, HastyClock, pod_line, served
from tests.kit.logs import capture_logs
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

STREAM = {
    "watch": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def end_of_list(version: int) -> bytes:
    metadata = {
        "resourceVersion": str(version),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode()


def failure(code: int) -> bytes:
    status = {"kind": "Status", "code": code, "message": f"code {code}"}
    return json.dumps({"type": "ERROR", "object": status}).encode()


class StreamServer:
    """Answers each streamed list with the next of `streams`: the lines of a stream that stays open,
    or the status of a refusal. A None among the lines closes the stream, and a number is a pause in
    seconds. Lists the pod `listed` at version 1 page by page. A watch from a version stays silent.
    """

    def __init__(self, *streams: list[bytes | float | None] | int) -> None:
        self._streams = list(streams)
        self.requests: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            self.requests.append("list")
            pod = json.loads(pod_line("ADDED", "listed", 1))["object"]
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [pod]})
        response = web.StreamResponse()
        if "sendInitialEvents" not in request.query:
            self.requests.append(f"watch {request.query['resourceVersion']}")
            await response.prepare(request)
            await anyio.sleep_forever()
        assert STREAM.items() <= request.query.items()
        assert "resourceVersion" not in request.query
        self.requests.append("stream")
        stream = self._streams.pop(0)
        if isinstance(stream, int):
            headers = {"Retry-After": "7"} if stream == 429 else {}
            return web.json_response({"code": stream}, status=stream, headers=headers)
        await response.prepare(request)
        for line in stream:
            if line is None:
                return response
            if isinstance(line, float):
                await anyio.sleep(line)
                continue
            await response.write(line + b"\n")
        await anyio.sleep_forever()
        raise AssertionError


@asynccontextmanager
async def changes_of(
    server: StreamServer, held: Mapping[str, Pod] | None = None, clock: Clock | None = None
) -> AsyncIterator[AsyncGenerator[WatchUpdate[Pod]]]:
    """Gives what a reflector reports."""
    async with reported_by(server.handle, clock or HastyClock(), held) as changes:
        yield changes


@asynccontextmanager
async def reported_by(
    handler: Handler, clock: Clock, held: Mapping[str, Pod] | None = None
) -> AsyncIterator[AsyncGenerator[WatchUpdate[Pod]]]:
    """Gives what a reflector reports of the server whose requests the handler answers."""
    async with served(handler) as url, Client(Connection(url)) as client:
        reflector = Reflector(
            client,
            "/api/v1/pods",
            Pod,
            clock,
            Random(1),
            streaming=Streaming(works=True),
        )
        async with aclosing(reflector.changes(held)) as changes:
            yield changes


async def told_of(
    server: StreamServer,
    number: int,
    held: Mapping[str, Pod] | None = None,
    clock: Clock | None = None,
) -> list[WatchUpdate[Pod]]:
    """Returns the first `number` changes that a reflector reports."""
    async with changes_of(server, held, clock) as changes:
        return [await anext(changes) for _ in range(number)]


def names(update: WatchUpdate[Pod]) -> list[str]:
    assert isinstance(update, ObjectsListed)
    return [pod.metadata.name for pod in update.items]


async def test_a_list_is_the_beginning_of_a_watch() -> None:
    server = StreamServer(
        [
            pod_line("ADDED", "a", 2),
            pod_line("ADDED", "b", 3),
            pod_line("ADDED", "odd", 4, priority="high"),
            pod_line("ADDED", "mended", 4, priority="high"),
            pod_line("BOOKMARK", "", 4),
            pod_line("MODIFIED", "a", 5, nodeName="n"),
            pod_line("MODIFIED", "mended", 6),
            pod_line("DELETED", "b", 7),
            end_of_list(8),
            pod_line("ADDED", "c", 9),
        ]
    )
    listed, change = await told_of(server, 2)
    assert isinstance(listed, ObjectsListed)
    assert [(pod.metadata.name, pod.spec.node_name) for pod in listed.items] == [
        ("a", "n"),
        ("mended", ""),
    ]
    assert [item.part.metadata.name for item in listed.unreadable] == ["odd"]
    assert all(isinstance(item, Unreadable) for item in listed.unreadable)
    assert isinstance(change, ObjectChanged)
    assert change.object.metadata.name == "c"
    assert server.requests == ["stream"]


async def test_a_held_object_is_kept_if_the_stream_brings_no_other_version() -> None:
    held = {
        f"d/{name}": msgspec.convert(json.loads(pod_line("", name, 2))["object"], Pod)
        for name in ("same", "changed", "gone")
    }
    server = StreamServer(
        [pod_line("ADDED", "same", 2), pod_line("ADDED", "changed", 3), end_of_list(4)]
    )
    (listed,) = await told_of(server, 1, held)
    assert isinstance(listed, ObjectsListed)
    assert [item is held[f"d/{item.metadata.name}"] for item in listed.items] == [True, False]


async def test_an_open_stream_keeps_no_object_of_its_list() -> None:
    server = StreamServer([pod_line("ADDED", "a", 2), end_of_list(3), pod_line("ADDED", "b", 4)])
    async with changes_of(server) as changes:
        listed = await anext(changes)
        assert isinstance(listed, ObjectsListed)
        (pod,) = listed.items
        del listed
        await anext(changes)
        only_here = sys.getrefcount(object())  # of an object without a name, which is one less
        assert sys.getrefcount(pod) == only_here + 1


@pytest.mark.parametrize("held", [None, {"d/a": Pod()}])
@pytest.mark.parametrize(
    "stream",
    [
        400,
        403,
        422,  # a server without the feature
        500,
        504,
        [failure(500)],  # a server whose storage cannot report its progress
        [pod_line("ADDED", "a", 2), failure(504)],
        [pod_line("ADDED", "a", 2), None],
        [b"<html>"],
    ],
)
async def test_without_a_whole_stream_the_objects_are_listed_at_once(
    stream: Any, held: Mapping[str, Pod] | None
) -> None:
    server, clock = StreamServer(stream), HastyClock()
    (listed,) = await told_of(server, 1, held, clock)
    assert names(listed) == ["listed"]
    assert server.requests == ["stream", "list"]
    assert sum(clock.slept) == 0


async def test_the_list_after_a_lost_watch_is_streamed_again() -> None:
    server = StreamServer(
        [end_of_list(5), failure(410)], [pod_line("ADDED", "a", 8), end_of_list(9)]
    )
    first, second = await told_of(server, 2)
    assert (names(first), names(second)) == ([], ["a"])
    assert server.requests == ["stream", "stream"]


@pytest.mark.parametrize("refusal", [429, [failure(429)]])
async def test_a_busy_server_is_asked_for_the_stream_again_after_a_while(refusal: Any) -> None:
    server, clock = StreamServer(refusal, [end_of_list(5)]), HastyClock()
    (listed,) = await told_of(server, 1, clock=clock)
    assert names(listed) == []
    assert server.requests == ["stream", "stream"]
    assert sum(clock.slept) >= (7 if refusal == 429 else 0.8)


@in_virtual_time
async def test_a_server_that_never_ends_the_list_is_asked_for_pages() -> None:
    server, clock = StreamServer([pod_line("ADDED", "a", 2)]), LoopClock()
    (listed,) = await told_of(server, 1, clock=clock)
    assert names(listed) == ["listed"]
    assert STALLED_SECONDS <= clock.now() <= STALLED_SECONDS + 2
    assert server.requests == ["stream", "list"]


@in_virtual_time
async def test_an_answer_that_drips_without_an_end_is_given_up() -> None:
    requests: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request.query.get("limit", "stream"))
        if len(requests) == 3:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await anyio.sleep(1.0)

    with capture_logs() as logs:
        async with reported_by(handle, LoopClock()) as changes:
            assert isinstance(await anext(changes), ObjectsListed)
            seconds = LoopClock().now()
    assert requests == ["stream", "5000", "500"]
    assert seconds <= 135.0
    stream, page = (line["error"] for line in logs if line["log_level"] == "warning")
    assert stream == "no object came for 5 s, and no end of the list"
    assert page.endswith("expected an answer within 120 s")


@in_virtual_time
async def test_a_server_that_sends_only_bookmarks_is_asked_for_pages() -> None:
    bookmarks: list[bytes | float | None] = [4.0, pod_line("BOOKMARK", "", 3)] * 100
    server, clock = StreamServer([4.0, pod_line("ADDED", "a", 2), *bookmarks]), LoopClock()
    with capture_logs() as logs:
        (listed,) = await told_of(server, 1, clock=clock)
    assert names(listed) == ["listed"]
    assert STALLED_SECONDS <= clock.now() - 4.0 <= STALLED_SECONDS + 5
    assert server.requests == ["stream", "list"]
    (line,) = (line for line in logs if line["event"] == "list not streamed")
    assert line["error"] == "no object came for 5 s, and no end of the list"
    assert line["log_level"] == "warning"


@in_long_virtual_time
async def test_a_streamed_list_may_take_long_while_objects_come() -> None:
    objects: list[bytes | float | None] = [
        line for i in range(50) for line in (4.0, pod_line("ADDED", f"p{i}", i + 1))
    ]
    bookmark = pod_line("BOOKMARK", "", 60)
    server = StreamServer([*objects, 4.0, bookmark, 4.0, end_of_list(61)])
    (listed,) = await told_of(server, 1, clock=LoopClock())
    assert names(listed) == [f"p{i}" for i in range(50)]
    assert server.requests == ["stream"]
