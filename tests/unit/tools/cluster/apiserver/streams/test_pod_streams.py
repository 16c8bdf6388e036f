"""Streams into containers over HTTP and WebSocket: what a client sees, and when it is refused."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from berth.tools.cluster.apiserver.streams import port_forwards
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.kubelet.scripts.ports import AllowedPorts
from berth.tools.kubernetes.kubelet.scripts.script_rules import Process, ScriptRule, Scripts
from tests.kit.documents import Document, pod, thing
from tests.kit.hollow_streams import POD, StreamServer, running_pod, serving

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
ALL = "stdout=1&stderr=1&command="


def talking(**annotations: str) -> Document:
    return running_pod(
        annotations={f"berth.dev/{name}": text for name, text in annotations.items()}
    )


async def test_a_log_is_what_the_annotation_says() -> None:
    async with serving(talking(logs="one\ntwo")) as server:
        assert await server.read("log") == (200, "one\ntwo\n")
        assert await server.read("log", "tailLines=1") == (200, "two\n")
        code, text = await server.read("log", "previous=true")
        assert code == 400
        assert "previous terminated container" in text
        async with server.session.get(server.path("log")) as answer:
            assert answer.content_type == "text/plain"


@pytest.mark.parametrize(
    ("document", "query", "code", "message"),
    [
        (running_pod(), "container=x", 400, "container x is not valid for pod p"),
        (
            running_pod(containers=("a", "b")),
            "",
            400,
            "a container name must be specified for pod p, choose one of: [a b]",
        ),
        (pod("p", node="n"), "", 400, 'container "c" in pod "p" is not available'),
        (pod("q"), "", 404, 'pods "p" not found'),
        (pod("p"), "", 204, ""),
    ],
)
async def test_a_log_that_is_not_there_is_refused(
    document: Document, query: str, code: int, message: str
) -> None:
    async with serving(document) as server:
        answered, text = await server.read("log", query)
        assert answered == code
        assert message in text.replace('\\"', '"')


async def test_a_followed_log_grows_until_the_container_ends() -> None:
    async with (
        serving(talking(logs="one")) as server,
        server.session.get(server.path("log", "follow=true")) as answer,
    ):
        assert await answer.content.readline() == b"one\n"
        server.store.update(POD, talking(logs="one\ntwo"))
        assert await answer.content.readline() == b"two\n"
        ended = talking(logs="one\ntwo\n+9s never")
        ended["status"]["containerStatuses"][0]["state"] = {
            "terminated": {
                "containerID": "hollow://c",
                "startedAt": "2026-01-01T00:00:00Z",
                "finishedAt": "2026-01-01T00:00:05Z",
            }
        }
        server.store.update(POD, ended)
        assert await answer.content.read() == b""


async def test_a_followed_log_ends_with_its_pod() -> None:
    async with (
        serving(talking(logs="one")) as server,
        server.session.get(server.path("log", "follow=true")) as answer,
    ):
        assert await answer.content.readline() == b"one\n"
        server.store.delete(POD, "default", "p")
        assert await answer.content.read() == b""


async def test_a_function_makes_a_log() -> None:
    said = ["one"]
    rule = ScriptRule(logs=lambda pod, container, previous: "\n".join(said))
    async with (
        serving(running_pod(), scripts=Scripts([rule])) as server,
        server.session.get(server.path("log", "follow=true")) as answer,
    ):
        assert await answer.content.readline() == b"one\n"
        said.append("two")
        assert await answer.content.readline() == b"two\n"


async def said_on(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    """Returns what a server says on each channel until it closes the WebSocket."""
    said: dict[int, bytes] = {}
    async for message in socket:
        said[message.data[0]] = said.get(message.data[0], b"") + message.data[1:]
    assert socket.close_code == 1000
    return said


def status_in(said: Mapping[int, bytes]) -> Any:
    return json.loads(said[3])


@pytest.mark.parametrize("protocol", [V4, V5])
async def test_a_command_prints_and_exits(protocol: str) -> None:
    table = "date: now\nfail *: {stdout: out, stderr: err, exitCode: 3}"
    async with serving(talking(exec=table)) as server:
        async with server.socket("exec", f"{ALL}date", protocol) as socket:
            assert socket.protocol == protocol
            said = await said_on(socket)
        assert (said[1], status_in(said)) == (b"now\n", {"metadata": {}, "status": "Success"})
        async with server.socket("exec", f"{ALL}fail&command=x", protocol) as socket:
            said = await said_on(socket)
        assert (said[1], said[2]) == (b"out", b"err")
        assert status_in(said) == {
            "metadata": {},
            "status": "Failure",
            "message": (
                "command terminated with non-zero exit code: command terminated with exit code 3"
            ),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
        }


async def test_a_command_that_no_script_has_is_an_error() -> None:
    async with serving(running_pod()) as server, server.socket("exec", f"{ALL}ls", V4) as socket:
        status = status_in(await said_on(socket))
    assert status["reason"] == "InternalError"
    assert 'exec: "ls": no script says what it does' in status["message"]


async def test_a_small_program_needs_no_script() -> None:
    async with serving(running_pod()) as server:
        async with server.socket("exec", f"{ALL}echo&command=hi", V4) as socket:
            said = await said_on(socket)
        assert (said[1], status_in(said)["status"]) == (b"hi\n", "Success")
    async with serving(talking(exec="echo *: {exitCode: 3}")) as server:
        async with server.socket("exec", f"{ALL}echo&command=hi", V4) as socket:
            said = await said_on(socket)
        assert status_in(said)["details"]["causes"][0]["message"] == "3"


async def test_a_wrong_script_is_an_error() -> None:
    async with (
        serving(talking(exec="- x")) as server,
        server.socket("exec", f"{ALL}ls", V4) as socket,
    ):
        status = status_in(await said_on(socket))
    assert "annotation berth.dev/exec: expected a mapping of commands" in status["message"]


async def test_stdin_is_copied_until_it_is_closed() -> None:
    async with (
        serving(talking(exec="cat: {echo: true}")) as server,
        server.socket("exec", f"stdin=1&{ALL}cat", V5, V4) as socket,
    ):
        await socket.send_bytes(b"\x00hello ")
        await socket.send_bytes(b"\x00world")
        await socket.send_bytes(b"\xff\x00")
        said = await said_on(socket)
    assert (said[1], status_in(said)["status"]) == (b"hello world", "Success")


async def test_ctrl_d_ends_stdin_of_a_terminal() -> None:
    async with serving(talking(exec="sh: {echo: true, stdout: bye}")) as server:
        for keys, output, outcome in ((b"a\x04b", b"abye", "Success"), (b"a\x03", b"a", "Failure")):
            async with server.socket("exec", f"stdin=1&tty=1&{ALL}sh", V5) as socket:
                await socket.send_bytes(b"\x00" + keys)
                said = await said_on(socket)
            assert (said[1], status_in(said)["status"]) == (output, outcome)


async def test_base64_is_for_clients_of_text() -> None:
    async with serving(talking(exec="cat: {echo: true}")) as server:
        protocol = "v4.base64.channel.k8s.io"
        async with server.socket("exec", f"stdin=1&{ALL}cat", protocol) as socket:
            await socket.send_str("0" + base64.b64encode(b"hi").decode())
            while (message := await socket.receive_str()) in ("1", "2", "3"):
                pass
            assert message == "1" + base64.b64encode(b"hi").decode()


async def test_a_function_runs_a_command() -> None:
    async def run(process: Process) -> int:
        if process.command[0] == "boom":
            raise ValueError("no such thing")
        name = await process.read()
        await process.write(b"hello " + name)
        await process.write_error(f"{process.container} {process.size}".encode())
        return 7

    async with serving(running_pod(), scripts=Scripts([ScriptRule(exec=run)])) as server:
        async with server.socket("exec", f"stdin=1&{ALL}greet", V5) as socket:
            await socket.send_bytes(b'\x04{"Width": 80, "Height": 24}')
            await socket.send_bytes(b"\x00you")
            said = await said_on(socket)
        assert (said[1], said[2]) == (b"hello you", b"c (80, 24)")
        assert status_in(said)["details"]["causes"][0]["message"] == "7"
        async with server.socket("exec", f"{ALL}boom", V5) as socket:
            said = await said_on(socket)
        assert status_in(said)["message"].endswith("ValueError: no such thing")


async def test_a_client_that_leaves_ends_its_command() -> None:
    ended = asyncio.Event()

    async def run(process: Process) -> int:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        return 0

    async with serving(running_pod(), scripts=Scripts([ScriptRule(exec=run)])) as server:
        async with server.socket("exec", f"stdin=1&{ALL}wait", V5) as socket:
            assert await socket.receive_bytes() == b"\x01"  # the command starts now
        async with asyncio.timeout(10):
            await ended.wait()


async def test_an_attached_client_sees_the_log_from_now_on() -> None:
    async with (
        serving(talking(logs="before")) as server,
        server.socket("attach", "stdout=1", V5) as socket,
    ):
        assert await socket.receive_bytes() == b"\x01"
        server.store.update(POD, talking(logs="before\nafter"))
        assert await socket.receive_bytes() == b"\x01after\n"
        server.store.delete(POD, "default", "p")
        assert status_in(await said_on(socket))["status"] == "Success"


async def test_an_attached_client_sees_its_script() -> None:
    async with (
        serving(talking(attach="hello")) as server,
        server.socket("attach", "stdout=1", V5) as socket,
    ):
        assert (await said_on(socket))[1] == b"hello\n"


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}


@pytest.mark.parametrize(
    ("target", "headers", "code", "message"),
    [
        ("exec?command=ls&stdout=1", {}, 400, "Upgrade request required"),
        ("attach?stdout=1", {}, 400, "Upgrade request required"),
        ("portforward?ports=80", {}, 400, "Upgrade request required"),
        ("exec?command=ls", UPGRADE, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("exec?stdout=1", UPGRADE, 400, "you must specify at least 1 command"),
        ("exec?command=ls&stdout=1&container=x", UPGRADE, 400, "container x is not valid"),
        ("portforward", UPGRADE, 400, 'query parameter "ports" is required'),
        ("portforward?ports=80,x", UPGRADE, 400, 'strconv.ParseUint: parsing "x": invalid syntax'),
        (
            "exec?command=ls&stdout=1",
            {**UPGRADE, "Sec-WebSocket-Protocol": "v9"},
            403,
            "no WebSocket protocol in common",
        ),
        (
            "exec?command=ls&stdout=1",
            {**SPDY, "X-Stream-Protocol-Version": "v9"},
            403,
            "unable to negotiate protocol",
        ),
        (
            "exec?command=ls&stdout=1",
            {**UPGRADE, "Sec-WebSocket-Key": "x"},
            400,
            "Sec-WebSocket-Key",
        ),
        ("exec?command=ls&stdout=1", {**UPGRADE, "Origin": "http://evil.example"}, 403, "Origin"),
    ],
)
async def test_what_cannot_be_upgraded_is_refused(
    target: str, headers: dict[str, str], code: int, message: str
) -> None:
    async with serving(running_pod()) as server:
        stream, _, query = target.partition("?")
        async with server.session.get(server.path(stream, query), headers=headers) as answer:
            assert answer.status == code
            assert message in (await answer.text()).replace('\\"', '"')


async def test_a_container_that_does_not_run_has_no_streams() -> None:
    async with serving(pod("p", node="n"), pod("q")) as server:
        assert await server.read("exec", f"{ALL}ls") == (500, 'container not found ("c")')
        code, text = await server.read("exec", f"{ALL}ls", name="q")
        assert code == 400
        assert "pod q does not have a host assigned" in text
        spdy = {**SPDY, "X-Stream-Protocol-Version": "portforward.k8s.io"}
        path = server.path("portforward", name="q")
        async with server.session.get(path, headers=spdy) as answer:
            assert answer.status == 400
            assert "pod q does not have a host assigned" in await answer.text()


@pytest.mark.parametrize(
    ("verbs", "codes"), [(["get"], [403, 200, 403]), (["get", "create"], [101, 200, 101])]
)
async def test_a_stream_asks_for_more_than_the_right_to_read(
    verbs: list[str], codes: list[int]
) -> None:
    resources = ["pods/exec", "pods/log", "pods/portforward"]
    rule = {"apiGroups": [""], "resources": resources, "verbs": verbs}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    bob = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
    async with serving(running_pod()) as server:
        api, rights = Api(server.store), "rbac.authorization.k8s.io/v1"
        api.create(BY_KIND[rights, "Role"], "default", thing("Role", "r", rules=[rule]))
        binding = thing("RoleBinding", "b", roleRef=role, subjects=[bob])
        api.create(BY_KIND[rights, "RoleBinding"], "default", binding)
        answered = []
        for stream, headers in (
            (f"exec?{ALL}ls", UPGRADE),
            ("log", {}),
            ("portforward?ports=80", UPGRADE),
        ):
            as_bob = {**headers, "Impersonate-User": "bob"}
            path, _, query = stream.partition("?")
            async with server.session.get(server.path(path, query), headers=as_bob) as answer:
                answered.append(answer.status)
    assert answered == codes


@asynccontextmanager
async def upper_server() -> AsyncIterator[int]:
    """Runs a server that answers in capital letters; yields its port."""
    left = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data.upper())
        writer.close()
        await writer.wait_closed()
        left.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        async with asyncio.timeout(10):
            await left.wait()


async def next_on(socket: aiohttp.ClientWebSocketResponse) -> bytes:
    async with asyncio.timeout(10):
        return await socket.receive_bytes()


async def test_a_port_is_reached_on_the_channels_of_a_websocket() -> None:
    async with (
        upper_server() as local,
        serving(
            talking(ports=f"80={local},81=1"), scripts=Scripts(allowed=AllowedPorts(str(local)))
        ) as server,
        server.socket("portforward", "ports=80,81&ports=82") as socket,
    ):
        first = [await next_on(socket) for _ in range(6)]
        assert first == [
            b"\x00\x50\x00",
            b"\x01\x50\x00",
            b"\x02\x51\x00",
            b"\x03\x51\x00",
            b"\x04\x52\x00",
            b"\x05\x52\x00",
        ]
        errors = sorted([await next_on(socket), await next_on(socket)])
        assert errors[0].startswith(b"\x03error forwarding port 81 to pod p, uid p: ")
        assert b"port 1 of this machine is not allowed" in errors[0]
        assert errors[1].startswith(b"\x05error forwarding port 82 to pod p, uid p: ")
        assert b"no script says which port of this machine" in errors[1]
        await socket.send_bytes(b"\x00hello")
        assert await next_on(socket) == b"\x00HELLO"


async def test_a_refused_port_closes_the_websocket_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(port_forwards, "CONNECT_SECONDS", 0.5)
    async with serving(running_pod()) as server, server.socket("portforward", "ports=80") as socket:
        said = await said_on(socket)
    assert said[0] == b"\x50\x00"
    assert said[1].startswith(b"\x50\x00error forwarding port 80 to pod p")


async def test_a_pod_without_a_node_is_told_for_good() -> None:
    async with serving(pod("p")) as server, server.socket("portforward", "ports=80") as socket:
        said = await said_on(socket)
    assert said[1].endswith(b"failed to connect: pod p does not have a host assigned")


@pytest.mark.parametrize(("policy", "state"), [("Never", "terminated"), ("Always", "running")])
async def test_a_container_ends_with_its_attached_script(policy: str, state: str) -> None:
    attached = talking(attach="{stdout: bye, exitCode: 3}")
    attached["spec"]["restartPolicy"] = policy
    async with serving(attached) as server:
        async with server.socket("attach", "stdout=1", V5) as socket:
            said = await said_on(socket)
        assert (said[1], status_in(said)["status"]) == (b"bye", "Failure")
        status = server.store.get(POD, "default", "p")["status"]
    (container,) = status["containerStatuses"]
    assert [*container["state"]] == [state]
    assert status["phase"] == ("Failed" if policy == "Never" else "Running")
    if policy == "Never":
        assert container["state"]["terminated"]["exitCode"] == 3


@pytest.mark.parametrize(("policy", "state"), [("OnFailure", "terminated"), ("Always", "running")])
async def test_a_container_ends_with_its_own_process(policy: str, state: str) -> None:
    document = running_pod()
    document["spec"]["restartPolicy"] = policy
    document["spec"]["containers"][0]["args"] = ["echo", "hello"]
    async with serving(document) as server:
        async with server.socket("attach", "stdout=1", V5) as socket:
            if policy != "Always":
                said = await said_on(socket)
                assert (said[1], status_in(said)["status"]) == (b"hello\n", "Success")
        status = server.store.get(POD, "default", "p")["status"]
        assert await server.read("log", "timestamps=true") == (
            200,
            "2026-01-01T00:00:00.000000000Z hello\n",
        )
    assert [*status["containerStatuses"][0]["state"]] == [state]
    assert status["phase"] == ("Running" if policy == "Always" else "Succeeded")


async def test_a_server_that_stops_ends_what_runs() -> None:
    ended = asyncio.Event()

    async def run(process: Process) -> int:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        return 0

    async with aiohttp.ClientSession() as session:
        async with serving(running_pod(), scripts=Scripts([ScriptRule(exec=run)])) as server:
            path = server.path("exec", f"{ALL}wait")
            socket = await session.ws_connect(path, protocols=[V5])
            assert await next_on(socket) == b"\x01"
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 2
        async with asyncio.timeout(10):
            await ended.wait()
            assert (await socket.receive()).type is not aiohttp.WSMsgType.BINARY
        await socket.close()


async def test_a_client_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.tools.cluster.apiserver.upgraded_connection.WRITE_SECONDS", 0.2)
    ended = asyncio.Event()

    async def pour(process: Process) -> int:
        try:
            while True:
                await process.write(bytes(1 << 16))
        finally:
            ended.set()

    async with serving(running_pod(), scripts=Scripts([ScriptRule(exec=pour)])) as server:
        _, writer = await _upgraded(server, f"exec?{ALL}pour")
        async with asyncio.timeout(20):
            await ended.wait()
        await _abort(writer)


async def test_a_client_that_is_not_heard_has_to_wait() -> None:
    async def deaf(process: Process) -> int:
        await asyncio.sleep(3600)
        return 0

    async with serving(running_pod(), scripts=Scripts([ScriptRule(exec=deaf)])) as server:
        _, writer = await _upgraded(server, f"exec?stdin=1&{ALL}deaf")
        frame = b"\x82\xfe\x40\x00" + bytes(4 + (1 << 14))
        sent = 0
        while sent < 1 << 28 and await _drained(writer):
            writer.write(frame)
            sent += len(frame)
        assert sent < 32 << 20
        await _abort(writer)


async def _drained(writer: asyncio.StreamWriter) -> bool:
    """True once everything has been sent, or False if the server does not take it."""
    try:
        async with asyncio.timeout(0.5):
            await writer.drain()
    except TimeoutError:
        return False
    return True


async def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _upgraded(
    server: StreamServer, target: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Returns a connection whose upgrade the server has accepted."""
    port = int(server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    head = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
    path = f"/api/v1/namespaces/default/pods/p/{target}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    return reader, writer
