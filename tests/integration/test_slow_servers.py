"""The client against servers that are slow, silent, or fail during an answer."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from aiohttp import web
from anyio.abc import SocketAttribute, SocketStream

from berth.actors.client.rest import Client, Connection, ConnectionFailedError
from berth.actors.client.silence import CHECK_SECONDS, SILENCE_SECONDS
from berth.actors.client.tls import client_context
from berth.actors.client.watch import HEAD_SECONDS, ObjectChanged, ObjectsListed, Reflector
from berth.actors.client.wire import MAX_CONNECTIONS
from berth.actors.runtime.clock import SystemClock
from berth.plugin import Pod
from berth.tools.testing.virtual_time import LoopClock
from tests.integration.test_client import WatchServer, connection, pod_line, served
from tests.kit.certificates import Authority
from tests.kit.logs import capture_logs
from tests.kit.proxy import proxy
from tests.kit.virtual_loop import in_virtual_time

POD = {"metadata": {"name": "p", "namespace": "d", "resourceVersion": "1"}}


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """Runs a server that accepts connections and never sends anything. Yields its port."""

    async def listen(stream: SocketStream) -> None:
        async with stream:
            async for _ in stream:
                pass

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, listen)
        yield listener.extra(SocketAttribute.local_port)
        group.cancel_scope.cancel()


def sockets_to(port: int) -> list[socket.socket]:
    """Duplicates of this process's connections to a port. The caller closes them."""
    sockets = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            duplicate = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue  # not a socket, or closed by now
        try:
            ours = duplicate.getpeername()[1] == port
        except (OSError, IndexError):
            ours = False
        if ours:
            sockets.append(duplicate)
        else:
            duplicate.close()
    return sockets


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="looks at the process's own descriptors"
)
async def test_every_connection_notices_a_dead_peer_within_45_seconds() -> None:
    server = WatchServer([pod_line("ADDED", "a", 2)])

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({}) if request.method == "POST" else await server.handle(request)

    async with served(handle) as url, Client(Connection(url)) as client:
        reflector = Reflector(client, "/api/v1/pods", Pod, SystemClock(), Random(1))
        async with aclosing(reflector.changes()) as changes:
            assert [type(await anext(changes)) for _ in range(2)] == [ObjectsListed, ObjectChanged]
            await client.call("POST", "/", dict, {})
            connections = sockets_to(int(url.rsplit(":", 1)[1]))
            assert (
                len(connections) == 3 - 1
            )  # the list and the watch share a connection; the write has another
            for each in connections:
                with closing(each):
                    assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                    idle = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
                    interval = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
                    times = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
                    assert 0 < idle + interval * times <= 45
                    # The connection is given up at the first probe that is unanswered this long
                    # after the last data.
                    assert (
                        0
                        < each.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) / 1000
                        + interval
                        <= 45
                    )


@pytest.mark.full("long")
@pytest.mark.parametrize("bookmarked", [True, False])
@in_virtual_time
async def test_a_silent_watch_is_started_again_at_its_version_if_it_had_bookmarks(
    bookmarked: bool,
) -> None:
    marks = [pod_line("BOOKMARK", "", 7)] if bookmarked else []
    server = WatchServer([*marks, pod_line("ADDED", "a", 8)], [pod_line("ADDED", "b", 9)])
    clock = LoopClock()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = await server.handle(request)
        if "watch" in request.query:
            await anyio.sleep_forever()
        return response

    async with (
        served(handle) as url,
        proxy(url) as between,
        Client(Connection(between.url), clock=clock) as client,
    ):
        reflector = Reflector(client, "/api/v1/pods", Pod, clock, Random(1))
        async with aclosing(reflector.changes()) as changes:
            assert [type(await anext(changes)) for _ in range(2)] == [ObjectsListed, ObjectChanged]
            between.stall()
            stalled_at = clock.now()
            with anyio.move_on_after(2 * SILENCE_SECONDS) as waiting:
                assert type(await anext(changes)) is ObjectChanged
            seconds = clock.now() - stalled_at
    if bookmarked:
        pause = 2.0  # the longest pause before a watch is started again
        assert SILENCE_SECONDS < seconds <= SILENCE_SECONDS + CHECK_SECONDS + pause
        assert server.requests == ["list", "1", "8"]
    else:
        assert waiting.cancelled_caught
        assert server.requests == ["list", "1"]


@in_virtual_time
async def test_a_watch_without_an_answer_is_started_again() -> None:
    server, watches = WatchServer([pod_line("ADDED", "a", 2)]), 0

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal watches
        watches += "watch" in request.query
        if watches == 1:
            await anyio.sleep_forever()
        return await server.handle(request)

    async with served(handle) as url, Client(Connection(url)) as client:
        reflector = Reflector(client, "/api/v1/pods", Pod, LoopClock(), Random(1))
        async with aclosing(reflector.changes()) as changes:
            assert [type(await anext(changes)) for _ in range(2)] == [ObjectsListed, ObjectChanged]
    assert watches == 2
    assert server.requests == ["list", "1"]


@pytest.mark.parametrize("closes", [True, False])
@in_virtual_time
async def test_a_quiet_watch_lasts_as_long_as_was_asked(closes: bool) -> None:
    """Nothing arrives, and the server closes the watch after its timeoutSeconds, or forgets it."""
    server, clock = WatchServer([], [pod_line("ADDED", "a", 2)]), LoopClock()
    asked: list[int] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(int(request.query.get("timeoutSeconds", 0)))
        response = await server.handle(request)
        await anyio.sleep((asked[-1] if closes else 2 * asked[-1]) + 1)
        return response

    async with served(handle) as url, Client(Connection(url)) as client:
        reflector = Reflector(client, "/api/v1/pods", Pod, clock, Random(1))
        with capture_logs() as logs:
            async with aclosing(reflector.changes()) as changes:
                told = [type(await anext(changes)) for _ in range(2)]
    assert told == [ObjectsListed, ObjectChanged]
    assert server.requests == ["list", "1", "1"]
    assert all(300 <= seconds < 600 for seconds in asked[1:])
    assert asked[1] <= clock.now() - 2 < asked[1] + (1 if closes else HEAD_SECONDS + 3)
    warned = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert warned == ([] if closes else ["watch interrupted"])


@pytest.mark.parametrize("lost", ["first", "rest"])
@in_virtual_time
async def test_objects_are_listed_from_the_first_page_after_a_lost_connection(lost: str) -> None:
    pages: list[str] = []
    clock = LoopClock()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        page = request.query.get("continue", "first")
        pages.append(page)
        if page == lost and clock.now() < 0.9:  # longer than the client repeats a request
            assert request.transport is not None
            request.transport.abort()
        metadata = {"resourceVersion": "1", "continue": "rest" if page == "first" else ""}
        item = {"metadata": {**POD["metadata"], "name": page, "uid": page}}
        return web.json_response({"metadata": metadata, "items": [item]})

    async with served(handle) as url, Client(Connection(url), clock=clock) as client:
        reflector = Reflector(client, "/api/v1/pods", Pod, clock, Random(1))
        with capture_logs() as logs:
            async with aclosing(reflector.changes()) as changes:
                told = await anext(changes)
    assert isinstance(told, ObjectsListed)
    assert [pod.metadata.name for pod in told.items] == ["first", "rest"]
    assert pages[-3:] == [lost, "first", "rest"]
    (warning,) = (line for line in logs if line["event"] == "watch interrupted")
    assert warning["error"].startswith(f"{url}: ")


@in_virtual_time
async def test_a_page_of_a_list_may_come_late_and_in_pieces() -> None:
    async def drip(request: web.BaseRequest) -> web.StreamResponse:
        await anyio.sleep(0.5)
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (
            b'{"metadata": {"resourceVersion": "9"}, ',
            b'"items": [',
            b'{"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}',
            b"]}",
        ):
            await response.write(piece)
            await anyio.sleep(0.2)
        return response

    async with served(drip) as url, Client(Connection(url), timeout_seconds=0.3) as client:
        reflector = Reflector(client, "/api/v1/pods", Pod, LoopClock(), Random(1))
        async with aclosing(reflector.changes()) as changes:
            told = await anext(changes)
            assert isinstance(told, ObjectsListed)
            assert [pod.metadata.name for pod in told.items] == ["p"]


@in_virtual_time
async def test_the_time_for_a_write_begins_when_it_is_sent() -> None:
    busy = most = 0
    numbers: list[int] = []

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal busy, most
        numbers.append((await request.json())["number"])
        busy += 1
        most = max(most, busy)
        await anyio.sleep(0.5)
        busy -= 1
        return web.json_response({})

    async with (
        served(slow) as url,
        Client(Connection(url), timeout_seconds=2) as client,
        anyio.create_task_group() as group,
    ):
        for number in range(6 * MAX_CONNECTIONS):  # three seconds in all, with a time-out of two
            group.start_soon(client.call, "POST", "/", dict, {"number": number})
    assert most == MAX_CONNECTIONS
    # In order, except for requests that are under way at the same time.
    assert sorted(numbers) == list(range(6 * MAX_CONNECTIONS))
    assert all(abs(number - place) < MAX_CONNECTIONS for place, number in enumerate(numbers))


@in_virtual_time
async def test_a_request_that_must_wait_for_retry_after_does_not_block_others() -> None:
    requests = Counter[str]()

    async def overloaded(request: web.BaseRequest) -> web.StreamResponse:
        requests[request.path] += 1
        if request.path == "/storm" and requests["/storm"] <= 3 * MAX_CONNECTIONS:
            return web.Response(status=429, headers={"Retry-After": "5"})
        return web.json_response({})

    async with (
        served(overloaded) as url,
        Client(Connection(url), clock=LoopClock()) as client,
        anyio.create_task_group() as group,
    ):
        for _ in range(3 * MAX_CONNECTIONS):
            group.start_soon(client.call, "POST", "/storm", dict, {})
        while requests["/storm"] < 3 * MAX_CONNECTIONS:
            await anyio.sleep(0.01)
        await client.call("POST", "/calm", dict, {})
        assert requests == {"/storm": 3 * MAX_CONNECTIONS, "/calm": 1}
        assert anyio.current_time() < 5
    assert requests["/storm"] == 6 * MAX_CONNECTIONS
    assert 5 <= anyio.current_time() < 6


@pytest.mark.parametrize("method", ["GET", "POST"])
@in_virtual_time
async def test_a_handshake_that_never_ends_is_a_failed_connection(method: str) -> None:
    async with silent() as port:
        where = Connection(f"https://127.0.0.1:{port}", client_context(None))
        async with Client(where, timeout_seconds=0.3, clock=LoopClock()) as client:
            with pytest.raises(ConnectionFailedError, match=r"0\.3 s|imeout"):
                await client.call(method, "/", dict)


@pytest.mark.parametrize("method", ["GET", "POST"])
@in_virtual_time
async def test_a_name_that_is_never_resolved_is_a_failed_connection(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: Any, **__: Any) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hang)
    async with Client(
        Connection("http://berth.example:8001"), timeout_seconds=0.3, clock=LoopClock()
    ) as client:
        with pytest.raises(ConnectionFailedError, match=r"0\.3 s|imeout"):
            await client.call(method, "/", dict)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("how", ["reset", "head", "drip"])
@in_virtual_time
async def test_a_write_is_sent_once_however_its_answer_fails(method: str, how: str) -> None:
    paths: list[str] = []

    async def fail(request: web.BaseRequest) -> web.StreamResponse:
        paths.append(request.path)
        if request.path == "/good":
            return web.json_response({})
        transport = request.transport
        assert transport is not None
        if how == "head":
            transport.write(b"HTTP/1.1 200 OK\r\nContent-Le")
        elif how == "drip":
            transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not transport.is_closing():
                transport.write(b" ")
                await anyio.sleep(0.05)
        transport.abort()
        await anyio.lowlevel.checkpoint()
        return web.Response()

    async with (
        served(fail) as url,
        Client(Connection(url), timeout_seconds=0.5, clock=LoopClock()) as client,
    ):
        await client.call(
            method, "/good", dict, {}
        )  # so that the next one gets a connection that has worked
        with pytest.raises(ConnectionFailedError):
            await client.call(method, "/bad", dict, {})
        await client.call(method, "/good", dict, {})
    assert paths == ["/good", "/bad", "/good"]


@pytest.mark.parametrize("secure", [False, True])
async def test_reads_and_writes_go_through_a_proxy(
    tmp_path: Path, authority: Authority, secure: bool
) -> None:
    async def echo(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"method": request.method, "path": request.path})

    cluster = {"certificate-authority-data": authority.data("ca.crt")} if secure else {}
    async with (
        served(echo, authority.server("server") if secure else None) as url,
        proxy(url) as between,
    ):
        through = between.url.replace("http://", "http://us%20er:secret@")
        server = connection(tmp_path, url, {"token": "t"}, {**cluster, "proxy-url": through})
        async with Client(server) as client:
            for method in ("GET", "POST", "PUT"):
                body: dict[str, str] | None = None if method == "GET" else {}
                assert await client.call(method, "/a", dict, body) == {
                    "method": method,
                    "path": "/a",
                }
        connects = [request.lower() for request in between.connects]
        assert len(connects) == (2 if secure else 0)  # one connection for reads and one for writes
        assert all("proxy-authorization: basic dxmgzxi6c2vjcmv0" in request for request in connects)
        if not secure:
            assert between.writes == [f"POST {url}/a", f"PUT {url}/a"]
