"""A write is sent only if the sender's tenure lasts at that moment, whatever the write has waited
for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import pytest
from aiohttp import web

from berth.actors.client.credentials import ANONYMOUS, Credentials, Proof
from berth.actors.client.extender.calls import Extenders
from berth.actors.client.rest import Client, Connection, ConnectionFailedError, DeposedError
from berth.actors.client.tenure import ALWAYS, Tenure
from berth.actors.client.tls import client_context
from berth.actors.client.wire import MAX_CONNECTIONS
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.recorder import EventType, RecordEvent
from berth.actors.recorder.actor import RecorderActor
from berth.actors.recorder.series import SeriesTracker
from berth.actors.recorder.state import RecorderState
from berth.actors.scheduling.kube.meta import ObjectMeta, ObjectReference
from berth.config.types import Duration, Extender
from berth.plugin import Pod
from berth.tools.testing.virtual_time import LoopClock
from tests.integration.test_client import served
from tests.kit.certificates import Authority
from tests.kit.extender import small_extender
from tests.kit.virtual_loop import in_long_virtual_time, in_virtual_time

ENDS = 10.0  # when the tenure ends


class Server:
    """A server that records its requests, and answers when `answers` is set."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.answers = anyio.Event()
        self.first: tuple[int, dict[str, str]] | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        await self.answers.wait()
        if self.first is not None:
            (status, headers), self.first = self.first, None
            return web.Response(status=status, headers=headers)
        return web.json_response({})


class Slow:
    """Credentials that are available, or renewed, when the gate opens."""

    def __init__(self, gate: anyio.Event, *, at_first: bool) -> None:
        self._gate = gate
        self._at_first = at_first
        self.opened = False

    async def proof(self) -> Proof:
        if self.opened and self._at_first:
            await self._gate.wait()
        self.opened = True  # by the opening client; the next one is for the write
        return Proof("Bearer t")

    async def renewed(self, refused: Proof) -> Proof | None:
        await self._gate.wait()
        return Proof("Bearer u")

    def for_another_thread(self) -> Slow:
        raise AssertionError


class Scene:
    """A client whose tenure ends at ENDS. `gate` opens at that time."""

    def __init__(self, server: Server, url: str, client: Client, gate: anyio.Event) -> None:
        self.server = server
        self.url = url
        self.client = client
        self.gate = gate
        self.outcome: type[Exception] | None = None

    async def write(self) -> None:
        try:
            await self.client.call("POST", "/late", dict, {})
        except ConnectionFailedError as failure:
            self.outcome = type(failure)

    async def is_too_late(self, waits: Callable[[], bool]) -> None:
        """Checks that a write is not sent if it waits for something until the tenure is over."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.write)
            await anyio.sleep_until(ENDS - 1)
            assert waits()
            before = list(self.server.requests)
            await anyio.sleep_until(ENDS)
            self.gate.set()
            self.server.answers.set()
        assert self.outcome is DeposedError
        assert self.server.requests == before


@asynccontextmanager
async def scene(
    *, credentials: str = "", qps: float = 0.0, authority: Authority | None = None
) -> AsyncIterator[Scene]:
    clock, server, gate = LoopClock(), Server(), anyio.Event()
    server.answers.set()
    tenure = Tenure(clock.now)
    tenure.lasts_until(ENDS)
    context = None if authority is None else authority.server("server")
    async with served(server.handle, context) as url:
        shown: Credentials = (
            Slow(gate, at_first=credentials == "first") if credentials else ANONYMOUS
        )
        tls = None if authority is None else client_context(authority.text("ca.crt").encode())
        target = Connection(url, tls, shown)
        async with Client(target, clock=clock, qps=qps, burst=1, tenure=tenure) as client:
            yield Scene(server, url, client, gate)


@in_virtual_time
async def test_writes_are_sent_before_the_end_and_reads_always() -> None:
    async with scene() as it:
        await it.client.call("POST", "/", dict, {})
        await anyio.sleep_until(ENDS - 0.001)
        await it.client.call("POST", "/", dict, {})
        await anyio.sleep_until(ENDS)
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(DeposedError):
                await it.client.call(method, "/", dict, {})
        await it.client.call("GET", "/", dict)
        assert it.server.requests == ["POST /", "POST /", "GET /"]


@in_virtual_time
async def test_a_write_is_too_late_after_the_rate_limit() -> None:
    async with scene(qps=1 / ENDS) as it:
        await it.client.call("POST", "/first", dict, {})
        await it.is_too_late(lambda: True)


@in_virtual_time
async def test_a_write_is_too_late_after_the_servers_retry_after() -> None:
    async with scene() as it:
        it.server.first = (429, {"Retry-After": "7"})
        await anyio.sleep(5)
        await it.is_too_late(lambda: it.server.requests == ["POST /late"])


@in_virtual_time
async def test_a_write_is_too_late_after_the_wait_for_a_connection() -> None:
    async with scene() as it, anyio.create_task_group() as group:
        it.server.answers = anyio.Event()
        for _ in range(MAX_CONNECTIONS):
            group.start_soon(it.client.call, "POST", "/early", dict, {})
        while len(it.server.requests) < MAX_CONNECTIONS:
            await anyio.sleep(0.01)
        await it.is_too_late(lambda: True)


@pytest.mark.parametrize("what", ["create_connection", "start_tls"])
@in_virtual_time
async def test_a_write_is_too_late_after_a_slow_handshake(
    what: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    at_once: Callable[..., Awaitable[Any]] = getattr(loop, what)
    begun = False

    async with scene(authority=authority) as it:

        async def later(*args: Any, **options: Any) -> Any:
            nonlocal begun
            begun = True
            await it.gate.wait()
            return await at_once(*args, **options)

        monkeypatch.setattr(loop, what, later)
        await it.is_too_late(lambda: begun)


@pytest.mark.parametrize("credentials", ["first", "renewed"])
@in_virtual_time
async def test_a_write_is_too_late_after_slow_credentials(credentials: str) -> None:
    async with scene(credentials=credentials) as it:
        if credentials == "renewed":
            it.server.first = (401, {})
            await it.is_too_late(lambda: it.server.requests == ["POST /late"])
        else:
            await it.is_too_late(lambda: True)


@in_long_virtual_time
async def test_the_kernel_takes_the_whole_write_or_the_connection_is_aborted() -> None:
    """The rest would stay in this process's buffer, and be sent whenever there is room."""
    heard = 0
    failed, ended = anyio.Event(), anyio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        await failed.wait()
        try:
            while piece := await reader.read(1 << 20):
                heard += len(piece)
        except ConnectionResetError:
            pass
        finally:
            writer.close()
            ended.set()

    server = await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1)
    tenure = Tenure()
    tenure.lasts_until(ALWAYS)
    huge = {"text": "x" * (32 << 20)}
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client(Connection(url), tenure=tenure) as client:
            with pytest.raises(ConnectionFailedError, match="did not take the request at once"):
                await client.call("POST", "/", dict, huge)
            failed.set()
            await ended.wait()
    assert heard < 32 << 20


@in_virtual_time
async def test_the_kernel_discards_a_write_that_is_given_up() -> None:
    """Otherwise it would still deliver a write that the client has reported as failed."""
    ends: list[type[Exception] | None] = []
    ended = anyio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(1000):
                pass
        except ConnectionResetError as reset:
            ends.append(type(reset))
        else:
            ends.append(None)
        finally:
            writer.close()
            ended.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client(Connection(url), timeout_seconds=0.2) as client:
            with pytest.raises(ConnectionFailedError):
                await client.call("POST", "/", dict, {})
        await ended.wait()
    assert ends == [ConnectionResetError]


@in_virtual_time
async def test_an_extender_is_asked_to_bind_only_within_the_tenure() -> None:
    tenure = Tenure(LoopClock().now)
    tenure.lasts_until(ENDS)
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))
    async with small_extender({"bind": lambda _: {}}) as extender:
        binds = Extender(extender.url, bind_verb="bind", http_timeout=Duration(5))
        async with Extenders([binds], tenure) as extenders:
            status = await extenders.bind(pod, "n")
            assert status is not None
            assert status.ok
            await anyio.sleep_until(ENDS)
            status = await extenders.bind(pod, "n")
            assert status is not None
            assert "not sent" in status.message
        assert len(extender.calls) == 1


@in_virtual_time
async def test_a_deposed_leader_records_nothing_and_does_not_wait_for_it() -> None:
    async with scene() as it:
        mailboxes = Mailboxes()
        state = RecorderState(SeriesTracker("host"))
        actor = RecorderActor(mailboxes, state, it.client, LoopClock(), Random(1))
        subject = ObjectReference("v1", "Pod", "ns", "p", "u")
        told = RecordEvent(
            subject, EventType.NORMAL, "Scheduled", "Binding", "", "default-scheduler"
        )
        async with anyio.create_task_group() as group:
            await group.start(actor.run)
            mailboxes.recorder.tell(told)
            await anyio.sleep(1)
            assert it.server.requests == []  # no tenure yet
            await group.start(actor.write)
            await anyio.sleep(1)
            assert len(it.server.requests) == 1
            await anyio.sleep_until(ENDS)
            mailboxes.recorder.tell(told)
            await anyio.sleep(1)
            group.cancel_scope.cancel()
            cancelled_at = anyio.current_time()
        assert anyio.current_time() == cancelled_at
        assert len(it.server.requests) == 1
        assert len(state) == 1
        mailboxes.close()
