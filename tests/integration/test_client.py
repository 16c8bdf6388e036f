"""The client against real servers: TLS, credentials, retries, the rate limit, and watches of faulty
servers.
"""

from __future__ import annotations

import gzip
import json
import re
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
import msgspec
import pytest
import yaml
from aiohttp import web

from berth.actors.client.access import Calls, remote
from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.kubeconfig import load
from berth.actors.client.rest import ApiError, Client, Connection, ConnectionFailedError
from berth.actors.client.tenure import ALWAYS
from berth.actors.client.watch import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    Reflector,
    Unreadable,
    WatchUpdate,
)
from berth.actors.client.wire import MAX_CONNECTIONS
from berth.actors.runtime.own_thread import in_own_thread
from berth.plugin import Pod
from tests.kit.certificates import Authority
from tests.kit.clock import VirtualClock
from tests.kit.logs import capture_logs
from tests.kit.virtual_loop import in_virtual_time

V1 = "client.authentication.k8s.io/v1"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HastyClock(VirtualClock):
    """Virtual time that advances as soon as a task sleeps. `slept` lists the sleeps in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        await self.advance(seconds)
        await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def served(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Runs a server that gives every request to `handler`. Yields its URL."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"{'https' if context else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def who(request: web.BaseRequest) -> web.StreamResponse:
    """Answers with the Authorization header and the common name of the client certificate."""
    certificate = request.get_extra_info("peercert") or {}
    names = [
        value
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    return web.json_response({"header": request.headers.get("Authorization", ""), "names": names})


def refusing(*tokens: str) -> Handler:
    """Returns a handler like `who` that answers 401 for any token except these."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Authorization") not in [f"Bearer {token}" for token in tokens]:
            return web.json_response(
                {"kind": "Status", "reason": "Unauthorized", "code": 401}, status=401
            )
        return await who(request)

    return handler


def connection(
    folder: Path,
    url: str,
    user: dict[str, Any],
    cluster: dict[str, Any] | None = None,
    **options: Any,
) -> Connection:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    return load(str(folder / "config"), **options)


@pytest.mark.full("long")
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_server_is_verified_by_its_authority_and_name(
    tmp_path: Path, authority: Authority, method: str
) -> None:
    """Both reads and writes are tried, because they use separate connections."""
    ours = {"certificate-authority-data": authority.data("ca.crt")}
    user = {"token": "t"}
    async with served(who, authority.server("server")) as url:
        async with Client(connection(tmp_path, url, user, ours)) as client:
            assert (await client.call(method, "/", dict))["header"] == "Bearer t"
        async with Client(
            connection(tmp_path, url, user, {"insecure-skip-tls-verify": True})
        ) as client:
            assert (await client.call(method, "/", dict))["header"] == "Bearer t"
        async with Client(connection(tmp_path, url, user)) as client:
            with pytest.raises(ConnectionFailedError, match=r"certificate verify failed"):
                await client.call(method, "/", dict)
    async with served(who, authority.server("named")) as url:
        async with Client(connection(tmp_path, url, user, ours)) as client:
            with pytest.raises(ConnectionFailedError, match=r"IP address mismatch"):
                await client.call(method, "/", dict)
        for name in ("berth.example", "berth.example."):
            async with Client(
                connection(tmp_path, url, user, {**ours, "tls-server-name": name})
            ) as client:
                assert (await client.call(method, "/", dict))["header"] == "Bearer t"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_server_is_trusted_if_the_machine_trusts_its_authority(
    tmp_path: Path, authority: Authority, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.path("ca.crt"))
    async with served(who, authority.server("server")) as url:
        for server in (
            connection(tmp_path, url, {}),
            load(None, master=url, environ={}),
            Connection(url),
        ):
            async with Client(server) as client:
                assert (await client.call(method, "/", dict))["names"] == []
    async with (
        served(who, authority.server("common-name")) as url,
        Client(Connection(url)) as client,
    ):
        with pytest.raises(
            ConnectionFailedError,
            match=r"certificate is not valid for|Hostname mismatch|IP address",
        ):
            await client.call(method, "/", dict)


@pytest.mark.parametrize("form", ["data", "files"])
async def test_a_client_certificate_is_presented(
    tmp_path: Path, authority: Authority, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    cluster: dict[str, Any] = {"certificate-authority": authority.path("ca.crt")}
    files = {
        "client-certificate": authority.path("client.crt"),
        "client-key": authority.path("client.key"),
    }
    data = {f"{field}-data": authority.data(Path(path).name) for field, path in files.items()}
    async with served(who, authority.server("server", asks_clients=True)) as url:
        async with Client(
            connection(tmp_path, url, data if form == "data" else files, cluster)
        ) as client:
            assert (await client.call("GET", "/", dict))["names"] == ["client"]
        async with Client(connection(tmp_path, url, {}, cluster), clock=HastyClock()) as client:
            with pytest.raises(ConnectionFailedError):
                await client.call("GET", "/", dict)
    with pytest.raises(
        KubeconfigError, match="expected the key of the certificate, got another key"
    ):
        connection(tmp_path, url, {**files, "client-key": authority.path("server.key")}, cluster)
    assert list(temporary.iterdir()) == []  # no key is left behind


SCRIPT = """
import fcntl, json, os, sys
from pathlib import Path
with open(sys.argv[1], "a+") as runs:
    fcntl.flock(runs, fcntl.LOCK_EX)  # two threads may each run it at the same time
    runs.seek(0)
    number = int(runs.read() or 0) + 1
    runs.truncate(0)
    runs.write(str(number))
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = json.loads(os.environ["STATUS"])
if "token" in status:
    status["token"] += str(number)
Path(sys.argv[1] + ".info").write_text(json.dumps(info))
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def plugin(
    folder: Path, status: dict[str, Any], version: str = V1, **fields: Any
) -> dict[str, Any]:
    """Returns a user whose credentials come from a command that numbers its tokens by its runs."""
    (folder / "plugin.py").write_text(SCRIPT)
    env = [{"name": "STATUS", "value": json.dumps(status)}]
    args = [str(folder / "plugin.py"), str(folder / "runs")]
    run = {
        "apiVersion": version,
        "command": sys.executable,
        "args": args,
        "env": env,
        "interactiveMode": "Never",
    }
    return {"exec": {**run, **fields}}


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
async def test_a_plugin_runs_again_once_refused(tmp_path: Path, version: str) -> None:
    async with served(refusing("t2", "t3")) as url:
        user = plugin(tmp_path, {"token": "t"}, version)
        async with Client(connection(tmp_path, url, user)) as client:
            answers: list[str] = []

            async def ask() -> None:
                answers.append((await client.call("POST", "/", dict, {}))["header"])

            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(ask)
            assert answers == ["Bearer t2"] * 5
            assert (tmp_path / "runs").read_text() == "2"
    async with served(refusing("none")) as url, Client(connection(tmp_path, url, user)) as client:
        with pytest.raises(ApiError) as refused:
            await client.call("GET", "/", dict)
        assert refused.value.code == 401
        assert (tmp_path / "runs").read_text() == "4"  # once at the start and once after the 401


async def test_another_thread_has_separate_credentials(tmp_path: Path) -> None:
    """A renewal in one event loop does not wait for, or wake, tasks in the other."""
    user = plugin(tmp_path, {"token": "t"})
    async with served(refusing("t3", "t4")) as url:
        server = connection(tmp_path, url, user)
        answers: list[str] = []

        async def ask(client: Client) -> None:
            answers.append((await client.call("POST", "/", dict, {}))["header"])

        opened: list[Client] = []

        async def ask_together(mine: Connection) -> None:
            async with Client(mine) as client, anyio.create_task_group() as group:
                opened.append(client)  # which has run the plugin once
                while len(opened) < 2:
                    await anyio.sleep(0.01)
                for _ in range(5):
                    group.start_soon(ask, client)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(ask_together, server)
                group.start_soon(
                    in_own_thread, partial(ask_together, server.for_another_thread()), "another"
                )
    assert len(answers) == 10
    assert set(answers) <= {"Bearer t3", "Bearer t4"}


async def test_a_plugin_runs_again_when_its_credential_expired(tmp_path: Path) -> None:
    clock = VirtualClock()
    user = plugin(tmp_path, {"token": "t", "expirationTimestamp": "2026-01-01T00:10:00Z"})
    async with (
        served(who) as url,
        Client(connection(tmp_path, url, user, clock=clock), clock=clock) as client,
    ):
        await clock.advance(599.0)
        assert (await client.call("GET", "/", dict))["header"] == "Bearer t1"
        await clock.advance(1.0)
        assert (await client.call("GET", "/", dict))["header"] == "Bearer t2"


async def test_a_plugin_may_give_a_certificate_and_receives_the_cluster(
    tmp_path: Path, authority: Authority
) -> None:
    status = {
        "clientCertificateData": authority.text("client.crt"),
        "clientKeyData": authority.text("client.key"),
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "us"}}
    cluster = {"certificate-authority": authority.path("ca.crt"), "extensions": [extension]}
    user = plugin(tmp_path, status, provideClusterInfo=True)
    async with served(who, authority.server("server", asks_clients=True)) as url:
        async with Client(connection(tmp_path, url, user, cluster)) as client:
            for _ in range(2):
                assert await client.call("GET", "/", dict) == {"header": "", "names": ["client"]}
        info = json.loads((tmp_path / "runs.info").read_text())
        assert info["spec"] == {
            "interactive": False,
            "cluster": {
                "server": url,
                "certificate-authority-data": authority.data("ca.crt"),
                "config": {"audience": "us"},
            },
        }
        user = plugin(tmp_path, {**status, "clientKeyData": authority.text("server.key")})
        with pytest.raises(
            KubeconfigError, match="clientCertificateData: expected the key of the certificate"
        ):
            async with Client(connection(tmp_path, url, user, cluster)):
                pass


async def test_a_plugin_that_fails_later_is_a_failed_connection(tmp_path: Path) -> None:
    user = plugin(tmp_path, {"token": "t"})
    async with served(refusing()) as url, Client(connection(tmp_path, url, user)) as client:
        (tmp_path / "plugin.py").write_text("raise SystemExit('out of tokens')")
        with pytest.raises(
            ConnectionFailedError, match=r"users\[u\].exec: .*ended with status 1: out of tokens"
        ):
            await client.call("GET", "/", dict)


async def test_inside_a_cluster_the_token_is_rotated(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "token").write_text("one")
    (tmp_path / "ca.crt").write_text(authority.text("ca.crt"))
    clock = VirtualClock()
    async with served(who, authority.server("server")) as url:
        host, _, port = url.removeprefix("https://").partition(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        async with Client(
            load(None, environ=environ, folder=tmp_path, clock=clock), clock=clock
        ) as client:
            headers = []
            for token in ("two", "three"):
                headers.append((await client.call("GET", "/", dict))["header"])
                (tmp_path / "token").write_text(token)
                await clock.advance(60.0)
            assert headers == ["Bearer one", "Bearer two"]


def answering(*answers: tuple[int, dict[str, str], bytes]) -> tuple[Handler, list[str]]:
    """Returns a handler that gives these answers in turn and then repeats the last, and the list of
    its requests.
    """
    methods: list[str] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        status, headers, body = answers[min(len(methods), len(answers) - 1)]
        methods.append(request.method)
        return web.Response(status=status, headers=headers, body=body)

    return handler, methods


async def endless(_: web.BaseRequest) -> web.StreamResponse:
    """Refuses a request, and never stops to say why."""

    async def spaces() -> AsyncIterator[bytes]:
        while True:
            yield b" " * (1 << 18)

    return web.Response(status=403, body=spaces())


async def test_the_body_of_a_refusal_is_read_up_to_a_limit() -> None:
    async with served(endless) as url, Client(Connection(url)) as client:
        with pytest.raises(ApiError, match="HTTP 403"):
            await client.call("GET", "/", dict)
        with pytest.raises(ConnectionFailedError, match="an answer of at most"):
            await client.call("POST", "/", dict)


async def test_other_tasks_run_while_a_long_compressed_answer_is_read() -> None:
    body = gzip.compress(b'{"a": "%s"}' % (b" " * (16 << 20)), 1)
    handler, _ = answering((200, {"Content-Encoding": "gzip"}, body))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with served(handler) as url, Client(Connection(url)) as client:
        await client.call("GET", "/", dict)  # The first answer opens the connection.
        async with anyio.create_task_group() as group:
            group.start_soon(count)
            await client.call("GET", "/", dict)
            group.cancel_scope.cancel()
    assert turns > 12


async def test_the_body_of_a_refused_watch_is_read_up_to_a_limit() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" in request.query:
            return await endless(request)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    clock = HastyClock()
    async with served(handler) as url, Client(Connection(url), clock=clock) as client:
        changes = Reflector(client, "/api/v1/pods", Pod, clock, Random(1)).changes()
        async with aclosing(changes):
            with anyio.fail_after(30):
                for _ in range(2):  # It lists again after each refusal.
                    assert isinstance(await anext(changes), ObjectsListed)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
async def test_a_request_is_repeated_after_the_servers_retry_after(
    status: int, method: str
) -> None:
    clock = HastyClock()
    handler, methods = answering(
        (status, {"Retry-After": "7"}, b""), (status, {"Retry-After": "1"}, b""), (200, {}, b"{}")
    )
    async with served(handler) as url, Client(Connection(url), clock=clock) as client:
        assert await client.call(method, "/", dict) == {}
    assert methods == [method] * 3
    assert clock.slept == [7.0, 1.0]


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        ((429, {"Retry-After": "3"}, b""), 11),
        ((503, {"Retry-After": "9" * 400}, b""), 11),
        ((429, {}, b""), 1),
        ((503, {"Retry-After": "soon"}, b""), 1),
        ((503, {"Retry-After": "-1"}, b""), 1),
        ((409, {"Retry-After": "1"}, b""), 1),
    ],
)
async def test_retries_are_limited(answer: tuple[int, dict[str, str], bytes], times: int) -> None:
    clock = HastyClock()
    handler, methods = answering(answer)
    async with served(handler) as url, Client(Connection(url), clock=clock) as client:
        with pytest.raises(ApiError) as refused:
            await client.call("POST", "/", dict, {})
    assert refused.value.code == answer[0]
    assert len(methods) == times
    assert all(seconds <= 60 for seconds in clock.slept)


async def test_only_a_get_is_repeated_after_a_lost_connection() -> None:
    clock, severed = HastyClock(), 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal severed
        if len(clock.slept) < 3:
            severed += 1
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({})

    async with served(handler) as url, Client(Connection(url), clock=clock) as client:
        assert await client.call("GET", "/", dict) == {}
        assert clock.slept == [0.1, 0.2, 0.4]
        clock.slept.clear()
        severed = 0
        with pytest.raises(ConnectionFailedError):
            await client.call("POST", "/", dict, {})
        assert severed == 1
    async with Client(Connection(url), clock=clock) as client:
        with pytest.raises(ConnectionFailedError, match=f"^{url}: Connection refused$"):
            await client.call("GET", "/", dict)
    assert clock.slept == [0.1, 0.2, 0.4]


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"metadata": {"name": "\xff"}}', b"[" * 100_000, b"[1]"]
)
async def test_an_answer_that_cannot_be_read_is_a_failed_connection(body: bytes) -> None:
    for status, error in ((200, ConnectionFailedError), (404, ApiError)):
        handler, _ = answering((status, {}, body))
        async with served(handler) as url, Client(Connection(url)) as client:
            with pytest.raises(
                error, match="expected the requested JSON, got" if status == 200 else "HTTP 404"
            ):
                await client.call("GET", "/api/v1/pods/p", Pod)


async def test_requests_respect_the_rate_limit_and_a_watch_counts_once() -> None:
    clock = HastyClock()
    server = WatchServer([pod_line("ADDED", "a", 2), pod_line("MODIFIED", "a", 3)])
    async with (
        served(server.handle) as url,
        Client(Connection(url), clock=clock, qps=10, burst=2) as client,
    ):
        for _ in range(4):
            await client.call("GET", "/", dict)
        assert clock.slept == [0.1, 0.1]
        told = await told_of(client, 3)  # a list and a watch with two lines
        assert [type(change) for change in told] == [ObjectsListed, ObjectChanged, ObjectChanged]
        assert clock.slept == [0.1] * 4


async def test_bindings_wait_in_a_line_of_their_own() -> None:
    """The cycle stops while many bindings are written, so they wait for no other writes."""
    handler, methods = answering((201, {}, b"{}"))
    clock = VirtualClock()
    async with (
        served(handler) as url,
        Client(Connection(url), clock=clock, qps=1, burst=1) as client,
        anyio.create_task_group() as group,
    ):
        for number in range(5):
            group.start_soon(client.call, "GET", f"/api/v1/namespaces/a/pods/{number}", dict)
        await clock.settle()
        for number in range(3):
            group.start_soon(client.bind, "a", f"b{number}", "u", "n")
        with anyio.fail_after(30):
            for sent in range(1, 9):
                while len(methods) < sent:
                    await anyio.sleep(0.001)
                await clock.advance(1)
    assert methods == ["GET", "GET"] + ["POST", "GET"] * 3


def pod_line(kind: str, name: str, version: int, **spec: Any) -> bytes:
    metadata = {"name": name, "namespace": "d", "uid": name, "resourceVersion": str(version)}
    return json.dumps({"type": kind, "object": {"metadata": metadata, "spec": spec}}).encode()


class WatchServer:
    """Lists no pods, at the next of the versions `lists` or the last one. Each watch gets the lines
    of the next of `watches`; the last watch stays open.
    """

    def __init__(self, *watches: list[bytes], token: str = "", lists: Sequence[int] = (1,)) -> None:
        self._watches = list(watches)
        self._lists = list(lists)
        self._token = token
        self.requests: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._token and request.headers.get("Authorization") != f"Bearer {self._token}":
            return web.Response(status=401)
        if "watch" not in request.query:
            self.requests.append("list")
            version = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
            return web.json_response({"metadata": {"resourceVersion": str(version)}, "items": []})
        self.requests.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        lines = self._watches.pop(0) if self._watches else []
        for line in lines:
            await response.write(line + b"\n")
        if not self._watches:
            await anyio.sleep_forever()
        return response


async def told_of(
    client: Client, number: int, clock: HastyClock | None = None
) -> list[WatchUpdate[Pod]]:
    """Returns the first `number` changes that a reflector reports."""
    told: list[WatchUpdate[Pod]] = []
    with anyio.fail_after(10):
        reflector = Reflector(client, "/api/v1/pods", Pod, clock or HastyClock(), Random(1))
        async with aclosing(reflector.changes()) as changes:
            async for change in changes:
                told.append(change)
                if len(told) == number:
                    break
    return told


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>",
        b"{}",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"type": "ADDED"}',
        b'{"type": "ADDED", "object": null}',
        b'{"type": "ADDED", "object": {}}',
        b'{"type": "ADDED", "object": {"metadata": {"name": "\xff"}}}',
        b'{"type": "BOOKMARK", "object": {"metadata": {}}}',
        b'{"type": "ERROR", "object": 7}',
        b'{"type": "ERROR", "object": {"code": 500, "message": "no"}}',
        b'{"type": "ERROR", "object": {"code": 410, "message": "too old"}}',
        b'{"type": "NEWS", "object": {"metadata": {"resourceVersion": "9"}}}',
    ],
)
async def test_after_garbage_in_a_watch_the_client_lists_again(garbage: bytes) -> None:
    watches = [pod_line("ADDED", "a", 2), garbage], [pod_line("ADDED", "b", 3)]
    server = WatchServer(*watches, lists=(1, 2))
    async with served(server.handle) as url, Client(Connection(url)) as client:
        told = await told_of(client, 4)
    expected = [ObjectsListed, ObjectChanged, ObjectsListed, ObjectChanged]
    assert [type(change) for change in told] == expected
    assert server.requests == ["list", "1", "list", "2"]


async def test_a_list_from_before_the_last_change_is_asked_for_again() -> None:
    """One of several servers may be behind; what it does not know is not forgotten."""
    expired = b'{"type": "ERROR", "object": {"code": 410, "message": "too old"}}'
    watches = [pod_line("ADDED", "a", 5), expired], [pod_line("ADDED", "b", 7)]
    server, clock = WatchServer(*watches, lists=(1, 3, 4, 6)), HastyClock()
    async with served(server.handle) as url, Client(Connection(url)) as client:
        told = await told_of(client, 4, clock)
    expected = [ObjectsListed, ObjectChanged, ObjectsListed, ObjectChanged]
    assert [type(change) for change in told] == expected
    assert server.requests == ["list", "1", "list", "list", "list", "6"]
    assert all(0.8 <= slept <= 6.4 for slept in clock.slept[1:])


async def test_an_open_watch_keeps_no_object() -> None:
    server = WatchServer([pod_line("ADDED", "a", 2)])
    async with served(server.handle) as url, Client(Connection(url)) as client:
        reflector = Reflector(client, "/api/v1/pods", Pod, HastyClock(), Random(1))
        told: list[Pod] = []

        async def follow() -> None:
            async for change in reflector.changes():
                if isinstance(change, ObjectChanged):
                    told.append(change.object)
                del change

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            with anyio.fail_after(10):
                while not told:
                    await anyio.sleep(0.001)
            pod = told.pop()
            only_here = sys.getrefcount(object())  # of an object without a name, which is one less
            assert sys.getrefcount(pod) == only_here + 1
            group.cancel_scope.cancel()


async def test_bookmarks_and_omitted_objects_advance_the_version() -> None:
    server = WatchServer(
        [pod_line("BOOKMARK", "", 5)],
        [pod_line("ADDED", "a", 6, priority="high"), pod_line("MODIFIED", "a", 7, containers=3)],
        [],
        [pod_line("DELETED", "b", 8)],
    )
    async with served(server.handle) as url, Client(Connection(url)) as client:
        told = await told_of(client, 4)
    expected = [ObjectsListed, Unreadable, Unreadable, ObjectDeleted]
    assert [type(change) for change in told] == expected
    assert server.requests == ["list", "1", "5", "7", "7"]


async def test_watches_that_bring_changes_are_opened_again_a_few_times_a_second() -> None:
    clock = HastyClock()
    server = WatchServer(*([pod_line("ADDED", f"p{version}", version)] for version in range(2, 7)))
    async with served(server.handle) as url, Client(Connection(url)) as client:
        with capture_logs() as logs:
            told = await told_of(client, 6, clock)
    assert [type(change) for change in told] == [ObjectsListed, *[ObjectChanged] * 5]
    assert server.requests == ["list", "1", "2", "3", "4", "5"], "no change is lost"
    assert clock.slept == [0.0, 0.25, 0.25, 0.25]
    assert not [line for line in logs if line["log_level"] != "debug"]


@pytest.mark.parametrize(
    "lines",
    [
        [pod_line("BOOKMARK", "", 2)],
        [pod_line("MODIFIED", "p", 1)],  # an old change, again and again
        [pod_line("ADDED", "o", 3), pod_line("ADDED", "p", 1)],
    ],
)
async def test_watches_that_end_without_news_are_opened_less_and_less_often(
    lines: list[bytes],
) -> None:
    clock = HastyClock()
    server = WatchServer(*([lines] * 5), [pod_line("ADDED", "new", 9)])
    async with served(server.handle) as url, Client(Connection(url)) as client:
        await told_of(client, 1 + 5 * sum(b"BOOKMARK" not in line for line in lines) + 1, clock)
    first, *others = clock.slept
    assert first == 0.0, "a server that restarts is asked at once"
    for seconds, least in zip(others, (1.6, 3.2, 6.4), strict=False):
        assert least <= seconds <= 2 * least


@pytest.mark.parametrize("status", [429, 503])
async def test_a_retry_after_of_zero_is_no_invitation_to_a_flood(status: int) -> None:
    calls, pauses = HastyClock(), HastyClock()
    handler, requests = answering(*[(status, {"Retry-After": "0"}, b"")] * 33, (200, {}, b"{}"))
    async with served(handler) as url, Client(Connection(url), clock=calls) as client:
        await told_of(client, 1, pauses)
    assert len(requests) == 34
    assert calls.slept == [0.1, 0.2, 0.4, 0.8, *[1.0] * 6] * 3
    for seconds, least in zip(pauses.slept, (0.8, 1.6, 3.2), strict=True):
        assert least <= seconds <= 2 * least


async def blanks(request: web.BaseRequest, encoding: web.ContentCoding | None) -> NoReturn:
    """Answers with blanks, without end and without a line break."""
    response = web.StreamResponse()
    if encoding is not None:
        response.enable_compression(encoding)
    await response.prepare(request)
    while True:
        await response.write(b" " * (1 << 20))


@pytest.mark.parametrize("encoding", [None, web.ContentCoding.gzip])
async def test_a_line_without_an_end_is_read_up_to_a_limit(
    encoding: web.ContentCoding | None,
) -> None:
    watches = 0

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal watches
        if "watch" in request.query:
            watches += 1
            if watches == 1:
                await blanks(request, encoding)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    async with served(handle) as url, Client(Connection(url)) as client:
        with capture_logs() as logs:
            told = await told_of(client, 2)
    assert [type(change) for change in told] == [ObjectsListed] * 2, "the objects are listed again"
    warning = next(line for line in logs if line["event"] == "watch interrupted")
    assert warning["error"] == "expected lines of at most 16 MiB, got a longer one"
    assert warning["log_level"] == "warning"


async def test_a_page_without_an_end_is_read_up_to_a_limit_and_smaller_pages_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("berth.actors.client.rest.MAX_ANSWER", 2 << 20)
    limits: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        limits.append(request.query["limit"])
        if len(limits) == 1:
            await blanks(request, None)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    async with served(handle) as url, Client(Connection(url)) as client:
        with capture_logs() as logs:
            await told_of(client, 1)
    assert limits == ["5000", "500"]
    (warning,) = (line for line in logs if line["event"] == "watch interrupted")
    assert warning["error"] == f"{url}: expected an answer of at most 2 MiB, got a longer one"


async def test_unchanged_objects_are_not_decoded_again() -> None:
    def named(name: str, version: str, uid: str = "u") -> dict[str, Any]:
        return {
            "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version}
        }

    listed = [
        named("same", "5"),
        named("changed", "6"),
        named("replaced", "7", "other"),
        named("new", "8"),
    ]
    before = (
        named("same", "5"),
        named("changed", "5"),
        named("replaced", "7"),
        named("versionless", ""),
    )
    decoded = {f"ns/{item['metadata']['name']}": msgspec.convert(item, Pod) for item in before}
    items = [*listed, before[-1], {**listed[0], "metadata": 7}]

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": items})

    async with served(handle) as url, Client(Connection(url)) as client:
        reflector = Reflector(client, "/api/v1/pods", Pod, HastyClock(), Random(1))
        async with aclosing(reflector.changes(decoded)) as changes:
            told = await anext(changes)
    assert isinstance(told, ObjectsListed)
    assert [msgspec.to_builtins(item)["metadata"] for item in told.items] == [
        item["metadata"]
        for item in (*listed, {"metadata": {"namespace": "ns", "name": "versionless", "uid": "u"}})
    ]
    expected = [True, False, False, False, False]
    assert [item is decoded.get(f"ns/{item.metadata.name}") for item in told.items] == expected


async def test_a_watch_sends_credentials_and_renews_them(tmp_path: Path) -> None:
    server = WatchServer([pod_line("ADDED", "a", 2)], token="t2")
    async with (
        served(server.handle) as url,
        Client(connection(tmp_path, url, plugin(tmp_path, {"token": "t"}))) as client,
    ):
        told = await told_of(client, 2)
    assert [type(change) for change in told] == [ObjectsListed, ObjectChanged]


async def test_more_requests_than_connections_are_all_answered() -> None:
    open_at_once: set[object] = set()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        open_at_once.add(request.transport)
        await anyio.lowlevel.checkpoint()
        return web.json_response({"said": (await request.json())["number"]})

    heard: list[int] = []
    async with (
        served(handler) as url,
        Client(Connection(url)) as client,
        anyio.create_task_group() as group,
    ):

        async def ask(number: int) -> None:
            heard.append((await client.call("POST", "/", dict, {"number": number}))["said"])

        for number in range(350):
            group.start_soon(ask, number)
    assert sorted(heard) == list(range(350))
    assert len(open_at_once) == MAX_CONNECTIONS


@in_virtual_time
async def test_a_request_without_an_answer_in_time_fails() -> None:
    async def silent(_: web.BaseRequest) -> web.StreamResponse:
        await anyio.sleep_forever()
        raise AssertionError

    failures: list[str] = []
    async with served(silent) as url, Client(Connection(url), timeout_seconds=0.3) as client:

        async def ask() -> None:
            with pytest.raises(ConnectionFailedError) as failure:
                await client.call("POST", "/", dict, {})
            failures.append(str(failure.value))

        async with anyio.create_task_group() as group:
            for _ in range(MAX_CONNECTIONS + 20):
                group.start_soon(ask)
    assert failures == [f"{url}: no answer within 0.3 s"] * (MAX_CONNECTIONS + 20)


async def test_a_scheduler_names_itself_as_kube_scheduler_does() -> None:
    agents: set[str] = set()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        agents.add(request.headers["User-Agent"])
        return web.json_response({})

    async def ask(calls: Calls) -> None:
        await calls.call("GET", "/", dict)

    async with (
        served(handler) as url,
        remote(Connection(url), HastyClock(), Random(1), 50, 100) as access,
    ):
        access.tenure.lasts_until(ALWAYS)
        for calls in (access.calls, access.plugins, access.events):
            await calls.call("POST", "/", dict, {})
        await ask(access.calls)
        await access.run_apart(ask)
    system = r"\(berth \d[\w.]*; \w+/\w+\)"
    assert len(agents) == 2
    for agent, purpose in zip(sorted(agents), ("leader-election", "scheduler"), strict=True):
        assert re.fullmatch(rf"kube-scheduler/v1\.36\.\d+ {system}/{purpose}", agent)
