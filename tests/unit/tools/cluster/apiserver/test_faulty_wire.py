"""Faults between an API server and its clients, on the wire, and their control."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import msgspec
import pytest

from berth.tools.cluster.apiserver.app import serve
from berth.tools.cluster.apiserver.fault_control import FaultFile, faulty
from berth.tools.cluster.faults.vocabulary import Fault
from tests.kit import documents
from tests.kit.stores import fresh_store
from tests.kit.virtual_loop import in_virtual_time

NODES = "/api/v1/nodes"


class Wire:
    """A server with faults, a client of it, and the control."""

    def __init__(self, url: str, control: str, session: aiohttp.ClientSession) -> None:
        self.url, self.control, self._session = url, control, session

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        async with self._session.request(method, self.url + path, json=body) as answer:
            return answer.status, json.loads(await answer.read())

    async def create(self, name: str) -> tuple[int, Any]:
        return await self.send("POST", NODES, documents.node(name, 1))

    async def names(self) -> set[str]:
        _, listed = await self.send("GET", NODES)
        return {each["metadata"]["name"] for each in listed["items"]}

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[aiohttp.StreamReader]:
        async with self._session.get(f"{self.url}{NODES}?watch=1&resourceVersion=1") as answer:
            yield answer.content

    async def put(self, *faults: Fault) -> None:
        body = json.dumps({"faults": [msgspec.to_builtins(fault) for fault in faults]})
        async with self._session.put(self.control, data=body) as answer:
            assert answer.status == 200, await answer.text()


@asynccontextmanager
async def wire(*faults: Fault) -> AsyncIterator[Wire]:
    store = fresh_store()
    async with (
        faulty(store, FaultFile(faults=faults), 0) as between,
        serve(store=store, faults=between) as url,
        aiohttp.ClientSession() as session,
    ):
        yield Wire(url, between.control, session)


LOST = (aiohttp.ClientError, ConnectionError, json.JSONDecodeError)


@in_virtual_time
async def test_requests_are_refused_and_slow() -> None:
    full, refuse = Fault("disk-full", paths=("/nodes",)), Fault("refuse", code=429, end=5)
    async with wire(refuse, full, Fault("slow", seconds=9)) as on:
        loop = asyncio.get_running_loop()
        code, answer = await on.create("a")
        assert (code, answer["reason"]) == (429, "TooManyRequests")
        await asyncio.sleep(5)
        code, answer = await on.create("a")
        assert (code, answer["message"]) == (500, "etcdserver: mvcc: database space exceeded")
        assert "reason" not in answer  # as of all that etcd says
        before = loop.time()
        assert await on.names() == set()
        assert 9 <= loop.time() - before < 10


@in_virtual_time
async def test_connections_are_reset_before_and_after_the_work() -> None:
    posts = ("POST",)
    late = Fault("arrive-late", seconds=3, methods=posts)
    kinds = {
        Fault("lose", methods=posts): False,
        Fault("unanswered", methods=posts): True,
        Fault("truncated", methods=posts): True,
        late: False,
    }
    async with wire() as on:
        for fault, done in kinds.items():
            await on.put(fault)
            with pytest.raises(LOST):
                await on.create(fault.does)
            assert (fault.does in await on.names()) is done, fault
        await asyncio.sleep(4)
        assert "arrive-late" in await on.names()


@in_virtual_time
async def test_a_half_open_connection_says_nothing_more() -> None:
    async with wire(Fault("half-open")) as on:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await on.create("a")
        await on.put()
        assert await on.names() == set()


@in_virtual_time
async def test_events_come_late_twice_or_not() -> None:
    async with wire() as on, on.watch() as lines:
        loop = asyncio.get_running_loop()

        async def seen() -> Any:
            return json.loads(await lines.readline())

        await on.put(Fault("watch-late", seconds=7, paths=("/nodes",)))
        before = loop.time()
        await on.create("a")
        assert (await seen())["object"]["metadata"]["name"] == "a"
        assert loop.time() - before >= 7
        await on.put(Fault("watch-repeat"))
        await on.create("b")
        assert await seen() == await seen()
        await on.put(Fault("watch-silent"))
        await on.create("c")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(200):
                await seen()


@pytest.mark.parametrize(
    ("does", "line"),
    [("watch-cut", b'{"type":"ADDED"'), ("watch-garbage", b'{"type":"MODIFIED","object":{"met')],
)
@in_virtual_time
async def test_an_event_is_no_event(does: Any, line: bytes) -> None:
    async with wire(Fault(does)) as on, on.watch() as lines:
        await on.create("a")
        read = b""
        with suppress(aiohttp.ClientError, TimeoutError):
            async with asyncio.timeout(5):
                while True:
                    read += await lines.readany()
        assert read.startswith(line)
        with pytest.raises(json.JSONDecodeError):
            json.loads(read.decode("utf-8", "replace"))


@in_virtual_time
async def test_a_watch_ends_with_410() -> None:
    async with wire(Fault("watch-expired")) as on, on.watch() as lines:
        await on.create("a")
        event = json.loads(await lines.readline())
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


@in_virtual_time
async def test_a_list_is_older_than_the_objects() -> None:
    async with wire(Fault("older", seconds=10)) as on:
        await on.create("a")
        await asyncio.sleep(20)
        await on.create("b")
        assert await on.names() == {"a"}
        await asyncio.sleep(20)
        assert await on.names() == {"a", "b"}


@in_virtual_time
async def test_a_server_is_away_and_forgets_what_was() -> None:
    async with wire() as on, on.watch() as lines:
        await on.put(Fault("server-restart-cold", seconds=5))
        with pytest.raises(LOST):
            await on.names()
        with pytest.raises(aiohttp.ClientError):
            await lines.readany()
        await asyncio.sleep(6)
        assert await on.names() == set()
        await on.create("a")
        async with on.watch() as again:
            event = json.loads(await again.readline())
        assert event["object"]["code"] == 410


@in_virtual_time
async def test_the_control_shows_changes_and_refuses() -> None:
    async with wire(Fault("slow", chance=0)) as on, aiohttp.ClientSession() as session:
        at = on.control

        async def send(method: str, body: str = "") -> tuple[int, str]:
            async with session.request(method, at, data=body) as answer:
                return answer.status, await answer.text()

        code, shown = await send("GET")
        assert (code, json.loads(shown)["faults"]) == (200, [{"does": "slow", "chance": 0.0}])
        await send("POST", "faults: [{does: lose, paths: [/nodes]}]")
        with pytest.raises(LOST):
            await on.names()
        code, shown = await send("GET")
        assert json.loads(shown)["met"]["lose"] >= 1  # the client may have tried twice
        code, why = await send("PUT", "faults: [{does: stop}]")
        assert (code, why) == (
            400, "faults[0]: stop is not for berth apiserver: an API server runs no scheduler\n",
        )  # fmt: skip
        assert json.loads((await send("DELETE"))[1])["faults"] == []
        assert await on.names() == set()
        assert (await send("PATCH"))[0] == 405


@in_virtual_time
async def test_the_control_answers_no_web_page() -> None:
    async with wire() as on, aiohttp.ClientSession() as session:
        for head in ({"Host": "e.com"}, {"Origin": "http://e.com"}):
            async with session.delete(on.control, headers=head) as answer:
                assert answer.status == 403
