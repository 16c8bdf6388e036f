"""What-ifs over HTTP about a live cluster, which is only read."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.to_thread
import msgspec
import pytest
from click.testing import CliRunner

from berth.actors.client.rest import Connection
from berth.actors.server.request import MOST_BYTES
from berth.config.load import from_mapping
from berth.tools.answers.terminal.feature_gates import gates_from
from berth.tools.answers.whatif import answer_process, whatif_endpoint
from berth.tools.answers.whatif.whatif_endpoint import MOST_ARRIVING, MOST_AT_ONCE
from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Follow, Response, listen
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.views.commands.serve import Served, serving
from berth.tools.views.commands.whatif import whatif
from tests.kit.processes import berth
from tests.kit.stores import fresh_store
from tests.kit.whatif_workers import leave, workers

from .test_question import pod

pytestmark = pytest.mark.full("long")
POD, NODE = BY_KIND["v1", "Pod"], BY_KIND["v1", "Node"]


class Live:
    """A live cluster, and the requests that it got."""

    def __init__(self) -> None:
        self.api = Api(fresh_store())
        self.api.seed()
        self.requests: list[tuple[str, str]] = []
        self.url = ""
        for number in (1, 2):
            self.api.create(NODE, "", hollow_node(number))
        self.api.create(POD, "default", pod("waiting", 100))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = Server(self.api.store)

        def answer(request: HttpRequest) -> Response | Follow:
            self.requests.append((request.method, request.path))
            return server.answer(request)

        async with listen(answer) as self.url:
            yield


def cluster(documents: Iterable[Any], connection: Connection | None = None) -> Served:
    return Served(documents, connection, from_mapping(None), gates_from(()))


async def ask(session: aiohttp.ClientSession, url: str, *steps: Any) -> tuple[int, Any]:
    async with session.post(url, json={"steps": steps}) as answer:
        return answer.status, msgspec.json.decode(await answer.read())


async def test_a_live_cluster_is_followed_and_never_written() -> None:
    live = Live()
    async with (
        live.running(),
        serving(cluster((), Connection(live.url))) as url,
        aiohttp.ClientSession() as session,
    ):
        status, before = await ask(session, url)
        assert (status, [p["pods"] for p in before["pending"]]) == (200, [["default/waiting"]])
        live.api.create(NODE, "", hollow_node(3))
        live.api.create(POD, "default", pod("small", 1))
        live.api.delete(POD, "default", "waiting", DeleteOptions())
        with anyio.fail_after(10):
            while not (after := await ask(session, url))[1]["allPlaced"]:
                await anyio.sleep(0.02)
        assert [p["pod"] for p in after[1]["placed"]] == ["default/small"]
        assert len(after[1]["nodes"]) == 3
        status, refusal = await ask(session, url, "drain node-9")
        assert (status, refusal["field"]) == (400, "steps[0]")
        page = f"{url.removesuffix('whatif')}ui"
        async with session.get(f"{page}/offers") as answer:
            offers = await answer.json()
        assert (offers["asks"], offers["acts"], offers["schedules"]) == (True, False, False)
        assert offers["weights"]["default-scheduler"]["ImageLocality"] == 1
        async with session.get(f"{page}/pods/default/small") as answer:
            assert (await answer.json())["decision"]["hosts"]
        headers = {"X-Berth-Token": offers["token"]}
        async with session.post(
            f"{page}/whatif", json={"steps": ["drain node-9"]}, headers=headers
        ) as answer:
            assert (answer.status, await answer.json()) == (status, refusal)
        async with session.get(f"{page}/feed") as feed, asyncio.timeout(10):
            told = b""
            while b"default/small" not in told:
                told += await feed.content.readany()
    assert {method for method, _ in live.requests} == {"GET"}


async def test_the_command_never_writes_to_a_live_cluster() -> None:
    live = Live()
    async with live.running():
        steps = ["add 1 like node-1", "drain node-1", "remove node-2", "delete waiting"]
        arguments = ["--master", live.url, *steps]
        result = await anyio.to_thread.run_sync(partial(CliRunner().invoke, whatif, arguments))
    assert result.exit_code in (0, 1), result.output
    assert {method for method, _ in live.requests} == {"GET"}


async def test_too_many_and_too_long_questions_are_refused_and_others_answered() -> None:
    async with serving(cluster([hollow_node(1)])) as url, aiohttp.ClientSession() as session:
        many = ["add 1 like node-1", *["cordon node-1"] * 200]
        answers = await asyncio.gather(*(ask(session, url, *many) for _ in range(40)))
        statuses = [status for status, _ in answers]
        assert set(statuses) == {200, 429}
        assert statuses.count(200) >= MOST_AT_ONCE
        async with session.post(url, data=BytesIO(b" " * (MOST_BYTES + 1))) as answer:
            assert answer.status == 413
        encoded = {"Content-Encoding": "gzip"}
        async with session.post(url, data=BytesIO(b"no"), headers=encoded) as answer:
            assert answer.status == 400
        async with session.get(f"{url}/schema") as answer:
            assert answer.status == 200
        async with session.post(url, data=b"{}", headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403


@pytest.mark.parametrize("number", [MOST_AT_ONCE, MOST_ARRIVING + 3])
async def test_a_body_that_does_not_end_holds_no_turn(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(cluster([hollow_node(1)])) as url, aiohttp.ClientSession() as session:
        port = int(url.rpartition(":")[2].partition("/")[0])
        slow = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(number)]
        monkeypatch.setattr(whatif_endpoint, "BODY_SECONDS", 5)
        for each in slow:
            await each.send(b"POST /whatif HTTP/1.1\r\nHost: localhost\r\n")
            await each.send(b"Content-Length: 100\r\n\r\n{")
        with anyio.fail_after(2):
            assert (await ask(session, url))[0] == 200
        with anyio.fail_after(10):
            for each in slow:
                assert (await each.receive()).startswith(b"HTTP/1.1 408 ")
        for each in slow:
            await each.aclose()


async def test_a_process_that_takes_no_question_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(cluster([hollow_node(1)])) as url, aiohttp.ClientSession() as session:
        (worker,) = workers()
        os.kill(worker, signal.SIGSTOP)
        monkeypatch.setattr(answer_process, "ANSWER_SECONDS", 0.5)
        with anyio.fail_after(10):
            status, refusal = await ask(session, url, "drain " + "x" * (1 << 19))
        assert status == 503
        assert refusal["problem"] == "no answer within 0.5 seconds: ask for less"
        monkeypatch.undo()
        assert (await ask(session, url))[0] == 200
        assert workers() != [worker]


async def test_a_closed_terminal_ends_it_in_order(tmp_path: Path) -> None:
    manifest = tmp_path / "node.json"
    manifest.write_bytes(msgspec.json.encode(hollow_node(1)))
    async with berth(tmp_path, "whatif", "serve", "-f", str(manifest), "--port=0") as process:
        await process.says("page at ")
        process.send(signal.SIGHUP)
        assert await process.end(20) == 0
        assert process.count("Traceback") == 0


async def test_clients_that_have_gone_away_hold_no_turn() -> None:
    async with serving(cluster([hollow_node(1)])) as url, aiohttp.ClientSession() as session:
        (worker,) = workers()
        os.kill(worker, signal.SIGSTOP)
        refused = anyio.Event()

        async def leave_early(number: int) -> None:
            assert (await ask(session, url, f"drain gone-{number}"))[0] == 429
            refused.set()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as clients:
                for number in range(MOST_AT_ONCE + 1):
                    clients.start_soon(leave_early, number)
                await refused.wait()
                clients.cancel_scope.cancel()
        with anyio.fail_after(20):
            while (answer := await ask(session, url, "drain node-9"))[0] == 429:
                await anyio.sleep(0.02)
        assert answer == (400, {"field": "steps[0]", "problem": "Node node-9 does not exist"})
        status, after = await ask(session, url, "add 1 like node-1")
        assert (status, len(after["nodes"])) == (200, 2)
        assert worker not in workers()


@pytest.mark.parametrize("step", ["add 90000 like node-1", {"apply": [{}] * 250_000}])
async def test_a_question_that_takes_too_much_memory_is_refused_and_the_next_one_answered(
    step: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(cluster([hollow_node(1)])) as url, aiohttp.ClientSession() as session:
        (worker,) = workers()
        leave(worker, 4 << 20)
        status, refusal = await ask(session, url, step)
        assert status == 503
        assert refusal["problem"] == "the answer takes too much memory: ask for less"
        assert capfd.readouterr().err == ""
        status, after = await ask(session, url, "add 1 like node-1")
        assert (status, len(after["nodes"])) == (200, 2)
        assert workers() != [worker]
    assert workers() == []
