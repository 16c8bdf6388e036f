"""The real kubectl, and the libraries of others, with streams into hollow containers."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web
from kubernetes import client as official
from kubernetes.stream import portforward, stream
from lightkube import Client as Lightkube
from lightkube import KubeConfig

from berth.tools.kubernetes.kubelet.scripts.ports import AllowedPorts
from berth.tools.kubernetes.kubelet.scripts.script_rules import Process, ScriptRule, Scripts
from tests.kit.hollow_streams import StreamServer, running_pod, serving
from tests.kit.processes import free_port
from tests.kit.programs import needs
from tests.kit.serving import kubeconfig

pytestmark = [pytest.mark.full, needs("kubectl")]
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
TABLE = "date: now\ncat: {echo: true}\nfail: {stdout: out, stderr: err, exitCode: 3}"


async def files(process: Process) -> int:
    """Stands for tar and for what kubectl asks before it copies."""
    if process.command[:2] == ["tar", "cf"]:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo(process.command[3].lstrip("/"))
            entry.size = 5
            archive.addfile(entry, io.BytesIO(b"hello"))
        await process.write(packed.getvalue())
        return 0
    if process.command[0] == "tar":
        received = b""
        while data := await process.read():
            received += data
        with tarfile.open(fileobj=io.BytesIO(received)) as archive:
            RECEIVED.update({name: archive.extractfile(name).read() for name in archive.getnames()})  # type: ignore[union-attr]
    return 0


RECEIVED: dict[str, bytes] = {}


class Kubectl:
    """A kubectl with a separate home, for one server."""

    def __init__(self, url: str, home: Path) -> None:
        self._url = url
        self._home = home

    @asynccontextmanager
    async def started(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Starts it for the duration of the block."""
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            "--server",
            self._url,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._home),
                "TERM": "xterm",
                **(environment or {}),
            },
            cwd=self._home,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def __call__(
        self, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> tuple[int | None, str, str]:
        """Returns its exit code, its output and its errors.

        Runs it again if it says that it dropped a message: some versions, such as 1.32, may read
        before they have made their streams (kubernetes#131203).
        """
        async with asyncio.timeout(30):
            while True:
                async with self.started(*arguments, environment=environment) as process:
                    output, errors = await process.communicate(stdin.encode())
                if b"Unknown stream id" not in errors:
                    return process.returncode, output.decode(), errors.decode()


@asynccontextmanager
async def hello_server() -> AsyncIterator[int]:
    """Runs an HTTP server that says hello; yields its port."""

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text=f"hello {request.path}")

    application = web.Application()
    application.router.add_get("/{path:.*}", hello)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", free_port())
    await site.start()
    try:
        yield int(site.name.rpartition(":")[2])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def talking(local: int = 1) -> AsyncIterator[StreamServer]:
    """Serves a pod `p` with two containers, and a pod `files` whose commands are `files`."""
    said = {
        "berth.dev/logs": "one\ntwo\n+600000000s never",
        "logs.berth.dev/side": "of the sidecar",
        "berth.dev/exec": TABLE,
        "berth.dev/ports": f"80={local}",
    }
    pods = (running_pod("p", ("c", "side"), said), running_pod("files", ("f",)))
    scripts = Scripts([ScriptRule(containers=["f"], exec=files)], AllowedPorts(str(local)))
    async with serving(*pods, scripts=scripts) as server:
        yield server


@pytest.mark.parametrize("environment", [{}, SPDY], ids=["websocket", "spdy"])
async def test_kubectl_runs_commands(tmp_path: Path, environment: dict[str, str]) -> None:
    async with talking() as server:
        kubectl = Kubectl(server.url, tmp_path)
        run = ("exec", "p", "-c", "c")
        assert await kubectl(*run, "--", "date", environment=environment) == (0, "now\n", "")
        code, output, errors = await kubectl(*run, "--", "fail", environment=environment)
        assert (code, output) == (3, "out")
        assert errors.startswith("err")
        assert "command terminated with exit code 3" in errors
        many = "line\n" * 100_000
        copied = await kubectl(*run, "-i", "--", "cat", stdin=many, environment=environment)
        assert copied == (0, many, "")
        code, _, errors = await kubectl(*run, "--", "ls", environment=environment)
        assert code == 1
        assert 'exec: "ls": no script says what it does' in errors
        code, _, errors = await kubectl("exec", "p", "-c", "x", "--", "ls")
        assert code == 1
        assert "container x is not valid for pod p" in errors


async def test_kubectl_shows_logs(tmp_path: Path) -> None:
    async with talking() as server:
        kubectl = Kubectl(server.url, tmp_path)
        assert await kubectl("logs", "p", "-c", "c") == (0, "one\ntwo\n", "")
        assert await kubectl("logs", "p", "-c", "c", "--tail=1") == (0, "two\n", "")
        assert await kubectl("logs", "p", "-c", "c", "--since=1s") == (0, "", "")
        stamped = (await kubectl("logs", "p", "-c", "side", "--timestamps"))[1]
        assert stamped == "2026-01-01T00:00:00.000000000Z of the sidecar\n"
        everything = (await kubectl("logs", "p", "--all-containers", "--prefix"))[1]
        assert sorted(everything.splitlines()) == [
            "[pod/p/c] one",
            "[pod/p/c] two",
            "[pod/p/side] of the sidecar",
        ]
        code, _, errors = await kubectl("logs", "p", "-c", "c", "--previous")
        assert code == 1
        assert 'previous terminated container "c" in pod "p" not found' in errors
        async with kubectl.started("logs", "-f", "p", "-c", "c", "--tail=1") as following:
            assert following.stdout is not None
            async with asyncio.timeout(20):
                assert await following.stdout.readline() == b"two\n"


async def test_kubectl_attaches_to_the_log(tmp_path: Path) -> None:
    from tests.kit.hollow_streams import POD

    async with talking() as server:
        kubectl = Kubectl(server.url, tmp_path)
        async with kubectl.started("attach", "p", "-c", "side") as attached:
            assert attached.stdout is not None
            more = server.store.get(POD, "default", "p")
            grown = {**more["metadata"]["annotations"], "logs.berth.dev/side": "a\nb"}
            # the client says nothing when it is attached, so the log grows until it sees it
            async with asyncio.timeout(20):
                reading = asyncio.ensure_future(attached.stdout.readline())
                while not reading.done():
                    grown["logs.berth.dev/side"] += "\nmore"
                    metadata = {**more["metadata"], "annotations": dict(grown)}
                    metadata.pop("resourceVersion", None)
                    server.store.update(POD, {**more, "metadata": metadata})
                    await asyncio.wait((reading,), timeout=0.05)
            assert reading.result() == b"more\n"


@pytest.mark.parametrize("environment", [{}, SPDY], ids=["websocket", "spdy"])
async def test_kubectl_forwards_a_port(tmp_path: Path, environment: dict[str, str]) -> None:
    async with hello_server() as local, talking(local) as server:
        kubectl = Kubectl(server.url, tmp_path)
        forward = kubectl.started("port-forward", "pod/p", ":80", ":81", environment=environment)
        async with forward as forwarding, aiohttp.ClientSession() as session:
            assert forwarding.stdout is not None
            assert forwarding.stderr is not None
            async with asyncio.timeout(20):
                ports: list[str] = []
                while len(ports) < 2:
                    line = (await forwarding.stdout.readline()).decode()
                    if "127.0.0.1:" in line:
                        ports.append(line.partition("127.0.0.1:")[2].partition(" ")[0])
                for path in ("a", "b"):
                    async with session.get(f"http://127.0.0.1:{ports[0]}/{path}") as answer:
                        assert await answer.text() == f"hello /{path}"
                with pytest.raises(aiohttp.ClientError):
                    await session.get(f"http://127.0.0.1:{ports[1]}/")
                error = (await forwarding.stderr.readline()).decode()
        assert "error forwarding port 81 to pod p, uid p" in error


async def test_kubectl_copies_files(tmp_path: Path) -> None:
    RECEIVED.clear()
    async with talking() as server:
        kubectl = Kubectl(server.url, tmp_path)
        code, _, errors = await kubectl("cp", "files:/etc/hostname", "hostname")
        assert (code, (tmp_path / "hostname").read_text()) == (0, "hello"), errors
        (tmp_path / "sent").write_text("bye")
        code, _, errors = await kubectl("cp", "sent", "files:/tmp/sent")
        assert (code, RECEIVED) == (0, {"sent": b"bye"}), errors


def official_client(url: str) -> official.CoreV1Api:
    return official.CoreV1Api(official.ApiClient(official.Configuration(host=url)))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_the_official_client_runs_commands_and_forwards_ports() -> None:
    def use(url: str) -> None:
        api = official_client(url)
        run = api.connect_get_namespaced_pod_exec
        asked = {"container": "c", "stderr": True, "stdin": False, "stdout": True, "tty": False}
        assert stream(run, "p", "default", command=["date"], **asked) == "now\n"
        failed = stream(run, "p", "default", command=["fail"], _preload_content=False, **asked)
        failed.run_forever(timeout=10)
        assert failed.returncode == 3
        asked["stdin"] = True
        open_one = stream(run, "p", "default", command=["cat"], _preload_content=False, **asked)
        open_one.write_stdin("hello\n")
        assert open_one.readline_stdout(timeout=10) == "hello"
        open_one.close_channel(0)
        open_one.run_forever(timeout=10)
        assert (open_one.is_open(), open_one.returncode) == (False, 0)
        assert api.read_namespaced_pod_log("p", "default", container="c") == "one\ntwo\n"
        forwarded = portforward(
            api.connect_get_namespaced_pod_portforward, "p", "default", ports="80,81"
        )
        socket = forwarded.socket(80)
        socket.setblocking(True)
        socket.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        answer = b""
        while data := socket.recv(1000):
            answer += data
        assert answer.endswith(b"hello /x")
        failing = forwarded.socket(81)
        failing.setblocking(True)
        assert failing.recv(10) == b""
        assert "error forwarding port 81 to pod p" in forwarded.error(81)
        forwarded.close()

    async with hello_server() as local, talking(local) as server:
        await asyncio.to_thread(use, server.url)
    gc.collect()  # the client leaves its sockets to the collector, which warns of them


async def test_lightkube_runs_commands() -> None:
    def use(url: str) -> None:
        config = KubeConfig.from_dict(yaml.safe_load(kubeconfig(url)))
        with Lightkube(config) as client:
            ran = client.exec("p", command=["cat"], container="c", stdin="hi\n", stdout=True)
            lines = [*client.log("p", container="c")]
        assert (ran.stdout, ran.exit_code) == ("hi\n", 0)
        assert lines == ["one\n", "two\n"]

    async with talking() as server:
        await asyncio.to_thread(use, server.url)


async def test_a_websocket_of_the_first_version_has_errors_in_text() -> None:
    async with talking() as server:
        query = "container=c&stdout=1&command=fail"
        async with server.socket("exec", query, "channel.k8s.io") as socket:
            said = [message.data async for message in socket]
        assert said[0] == b"\x01"
        assert b"\x03command terminated with non-zero exit code" in said[-1]
        async with server.socket("exec", query, "v4.channel.k8s.io") as socket:
            said = [message.data async for message in socket]
        assert json.loads(said[-1][1:])["reason"] == "NonZeroExitCode"
