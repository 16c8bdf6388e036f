"""`berth demo` from the command line."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import aiohttp
import anyio
import pytest
from click.testing import CliRunner

from berth.tools.answers.feed.feed import GLANCE_SECONDS
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.command import demo
from tests.kit.processes import POLL_SECONDS, berth, free_port

pytestmark = pytest.mark.full

ZONE = "topology.kubernetes.io/zone"
BIG = """
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "100"}}}]}
"""


SLOW = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: slow}
spec:
  replicas: 2
  serviceName: slow
  selector: {matchLabels: {app: slow}}
  template:
    metadata: {labels: {app: slow}}
    spec:
      containers:
        - {name: c, image: i, readinessProbe: {exec: {command: [a]}, initialDelaySeconds: 300}}
"""


OWN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: own-profile}]
"""
LAST = """
from berth.plugin import CycleState, NodeInfo, NodeScorePlugin, PodInfo


class Last(NodeScorePlugin):
    name = "Last"

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 100 * (node.name == "node-3")
"""


def test_the_sample_is_placed() -> None:
    result = CliRunner().invoke(demo, ["-o", "json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["placed"], summary["pending"]) == (13, 0)
    nodes: dict[str, list[str]] = defaultdict(list)
    for pod in summary["pods"]:
        nodes[re.split(r"-\w{5}$|-\w{10}-\w{5}$|-\d$", pod["name"])[0]].append(pod["node"])
        assert pod["phase"] in ("Running", "Succeeded")

    def zones(name: str) -> list[str]:
        return [
            hollow_node(int(node.removeprefix("node-")))["metadata"]["labels"][ZONE]
            for node in nodes[name]
        ]

    assert sorted(zones("web")) == ["zone-a", "zone-b", "zone-c"]
    assert len(set(nodes["database"])) == len(set(nodes["gateway"])) == 2
    assert set(zones("cache")) <= set(zones("database"))
    assert nodes["report"] == ["batch-1"]
    assert len(nodes["thumbnails"]) == 3


async def page(url: str) -> int:
    """Returns the status of a page, once its server is there."""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url, ssl=False) as response:
                    return response.status
            except aiohttp.ClientConnectorError:
                await anyio.sleep(POLL_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_cluster_that_is_kept_says_how_to_look_at_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    port = free_port()
    flags = ("--nodes", "0", f"--secure-port={port}")
    async with berth(tmp_path, "demo", "--keep", *flags) as process:
        line = await process.says("API server at ")
        hint = re.fullmatch(
            r"API server at (\S+); try: kubectl --kubeconfig (\S+) get pods -o wide", line
        )
        assert hint is not None, line
        config = anyio.Path(hint[2])
        assert json.loads(await config.read_text())["clusters"][0]["cluster"]["server"] == hint[1]
        with anyio.fail_after(20):
            pages = await process.says("scheduler at ")
            assert pages.startswith(f"scheduler at https://127.0.0.1:{port}: /metrics, /debug/")
            assert await page(f"https://127.0.0.1:{port}/metrics") == 200
            assert await page(f"https://127.0.0.1:{port}/debug/plugins") == 200
        process.send(number)
        assert await process.end(60) == 0
        assert not await config.exists()


async def test_a_cluster_without_a_scheduler_is_placed_by_one_s_own(tmp_path: Path) -> None:
    plugin = tmp_path / "last.py"
    plugin.write_text(LAST)
    flags = ("--nodes", "3", "--scheduler", "none", "-o", "json")
    async with berth(tmp_path, "demo", *flags) as cluster:
        hint = await cluster.says("no scheduler; run one: berth run --kubeconfig ")
        program, *told = hint.partition("run one: ")[2].replace("FILE", str(plugin)).split()
        told[-1] = told[-1].replace("CLASS", "Last")
        assert program == "berth"
        async with berth(tmp_path, *told, "--secure-port", "0") as scheduler:
            assert await cluster.end(60) == 0
            scheduler.send(signal.SIGTERM)
            assert await scheduler.end(60) == 0
    summary = json.loads(cluster.output.splitlines()[-1])
    assert (summary["placed"], summary["pending"]) == (13, 0)
    chosen = [pod["node"] for pod in summary["pods"] if pod["name"].startswith("thumbnails")]
    assert set(chosen) == {"node-3"}


async def test_the_command_of_one_s_own_scheduler_has_the_demo_s_options(tmp_path: Path) -> None:
    plugin, config, port = tmp_path / "last.py", tmp_path / "own profile.yaml", free_port()
    plugin.write_text(LAST)
    config.write_text(OWN)
    own = (f"--config={config}", f"--plugin={plugin}:Last", "--emulated-version=1.37")
    flags = ("--nodes", "1", "--scheduler", "none", "--reload", f"--secure-port={port}")
    async with berth(tmp_path, "demo", "--keep", *flags, *own) as cluster:
        hint = await cluster.says("no scheduler; run one: berth run --config ")
        assert "/metrics" in await cluster.says(f"scheduler at https://127.0.0.1:{port}")
        told = shlex.split(hint.partition("run one: berth ")[2])
        assert {"--reload", "--emulated-version=1.37"} <= set(told)
        async with berth(tmp_path, *told) as scheduler:
            await scheduler.says("Serving securely on")
            async with aiohttp.ClientSession(f"https://127.0.0.1:{port}") as session:
                async with session.get("/debug/plugins", ssl=False) as answer:
                    assert "Last" in await answer.text()
                async with session.get("/configz", ssl=False) as answer:
                    assert "own-profile" in await answer.text()


async def test_a_demo_that_still_makes_its_nodes_leaves_no_folder_behind(tmp_path: Path) -> None:
    async with berth(tmp_path, "demo", "--keep", "--nodes", "10000") as process:
        hint = await process.says("kubectl --kubeconfig ")
        process.send(signal.SIGHUP)
        assert await process.end(60) == 0
        folder = hint.partition("--kubeconfig ")[2].partition("/kubeconfig")[0]
        assert not await anyio.Path(folder).exists()


async def test_nohup_keeps_a_demo_when_its_terminal_is_closed(tmp_path: Path) -> None:
    program = ("nohup", sys.executable, "-m", "berth.actors")
    async with berth(tmp_path, "demo", "--keep", "--nodes", "0", program=program) as process:
        url = (await process.says("page at ")).removeprefix("page at ")
        process.send(signal.SIGHUP)
        for _ in range(3):
            assert await page(url) == 200
            await anyio.sleep(0.1)
        process.send(signal.SIGTERM)
        assert await process.end(60) == 0


async def test_a_signal_to_the_task_runner_ends_the_demo(tmp_path: Path) -> None:
    program = (sys.executable, "tools/dev.py")
    async with berth(tmp_path, "demo", "--keep", "--nodes", "0", program=program) as process:
        line = await process.says("API server at ")
        port = int(line.partition(";")[0].rpartition(":")[2])
        await process.says("page at ")
        process.send(signal.SIGTERM)
        assert await process.end(60) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize("keep", [(), ("--keep",)])
async def test_an_interrupt_prints_the_end_once(tmp_path: Path, keep: tuple[str, ...]) -> None:
    manifest = tmp_path / "waits.yaml"
    manifest.write_text(SLOW)
    async with berth(tmp_path, "demo", "-f", str(manifest), "--nodes", "1", *keep) as process:
        await process.says("page at ")
        await anyio.sleep(5)  # it has begun, and will not end by itself for minutes
        process.send(signal.SIGINT)
        assert await process.end(60) == 0
        assert process.count(" pending in ") == 1
        assert process.count("why not running") == 0
        assert process.count("not happened: StatefulSet default/slow has 1 of 2 pods") == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_demo_without_standard_streams_ends_as_any_other(tmp_path: Path, closed: str) -> None:
    manifest = tmp_path / "big.yaml"
    manifest.write_text(BIG)
    program = f"exec {sys.executable} -m berth.actors demo -f {manifest} --nodes 1 {closed}"
    ended = subprocess.run(["bash", "-c", program], stderr=subprocess.PIPE, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr.decode()


def scheduler_of(demo: int) -> int:
    """Returns the process of a demo's scheduler."""
    (child,) = Path(f"/proc/{demo}/task/{demo}/children").read_text().split()
    return int(child)


def lives(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_demo_whose_scheduler_is_killed_says_so(tmp_path: Path) -> None:
    async with berth(tmp_path, "demo", "--keep") as process:
        await process.says("page at ")
        os.kill(scheduler_of(process.pid), signal.SIGKILL)
        assert await process.end(60) == 1
        assert process.count("Error: the scheduler's process has ended with exit code -9") == 1
        assert process.count("Traceback") == 0


NEEDY = """
import msgspec

from berth.plugin import PostBindPlugin, read_args


class Args(msgspec.Struct):
    url: str


class Needy(PostBindPlugin):
    name = "Needy"

    def __init__(self, args, handle):
        super().__init__({}, handle)
        self.args = read_args(args, Args)

    def post_bind(self, state, info, node):
        pass
"""


async def test_a_demo_says_in_a_line_why_a_plugin_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text(NEEDY)
    async with berth(tmp_path, "demo", "--plugin", f"{tmp_path}/needy.py:Needy") as process:
        said = await process.says("the scheduler cannot start: ")
        assert said.endswith("args.url: expected a value, got nothing")
        assert await process.end(60) == 1
        assert process.count("Traceback") == 0


async def test_a_demo_whose_scheduler_has_stopped_ends_at_a_signal(tmp_path: Path) -> None:
    async with (
        berth(tmp_path, "demo", "--keep") as process,
        aiohttp.ClientSession() as session,
    ):
        url = (await process.says("page at ")).removeprefix("page at ")
        scheduler = scheduler_of(process.pid)
        async with session.get(f"{url}feed") as feed:
            told = b""
            with anyio.fail_after(60):
                while b"event: glance" not in told:
                    told += await feed.content.readany()
            os.kill(scheduler, signal.SIGSTOP)
            try:
                await anyio.sleep(3 * GLANCE_SECONDS)  # the page has asked, and waits
                process.send(signal.SIGTERM)
                assert await process.end(20) == 0
                assert not lives(scheduler)
            finally:
                if lives(scheduler):
                    os.kill(scheduler, signal.SIGKILL)
        assert process.count("Error") == process.count("Traceback") == 0


async def test_a_demo_whose_scheduler_finds_its_port_in_use_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = ("--nodes", "0", "--secure-port", str(taken.getsockname()[1]))
        async with berth(tmp_path, "demo", *flags) as process:
            assert await process.end(60) == 1
    assert process.count("address already in use") == 1
    assert process.count("Traceback") == 0


async def test_no_scheduler_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    async with berth(tmp_path, "demo", "--keep") as process:
        await process.says("page at ")
        scheduler = scheduler_of(process.pid)
        process.send(signal.SIGKILL)
        await process.end(60)
        with anyio.fail_after(60):
            while lives(scheduler):
                await anyio.sleep(POLL_SECONDS)


def test_a_cluster_that_ends_advises_no_kubectl(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text(BIG)
    config = tmp_path / "config"
    arguments = ["-f", str(tmp_path / "big.yaml"), "--nodes", "1", "--kubeconfig-out", str(config)]
    said = CliRunner().invoke(demo, arguments).stderr
    server = json.loads(config.read_text())["clusters"][0]["cluster"]["server"]
    first, second = said.splitlines()
    assert first == f"API server at {server} until nothing more will happen; --keep keeps it"
    assert second.startswith("page at http://")


def test_a_kubeconfig_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(demo, ["--kubeconfig-out", str(tmp_path / "none" / "here")])
    assert result.exit_code == 1
    assert (
        result.stderr == f"Error: cannot start: {tmp_path}/none/here: No such file or directory\n"
    )


def test_pods_that_do_not_fit_are_printed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text(BIG)
    result = CliRunner().invoke(demo, ["-f", str(tmp_path), "--nodes", "2", "-o", "json"])
    assert result.exit_code == 0, result.output
    (pod,) = json.loads(result.stdout)["pods"]
    assert (pod["node"], pod["phase"]) == ("", "Pending")
    assert pod["message"].startswith("0/2 nodes are available: 2 Insufficient cpu. ")


def test_demo_reports_a_port_in_use_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = CliRunner().invoke(demo, ["--port", str(taken.getsockname()[1])])
    assert result.exit_code == 1
    assert "cannot start" in result.stderr.splitlines()[-1]


DEVICES = """
driver: gpu.example.com
nodes: [node-2]
devices: [{name: gpu}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {extendedResourceName: example.com/gpu}
"""
USER = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: c, image: i, resources: {limits: {example.com/gpu: 1}}}]}
"""


def test_pods_are_placed_on_the_devices_of_a_file(tmp_path: Path) -> None:
    devices, pods = tmp_path / "devices.yaml", tmp_path / "pods.yaml"
    devices.write_text(DEVICES)
    pods.write_text("---".join(USER.replace("NAME", name) for name in ("first", "second")))
    result = CliRunner().invoke(demo, ["--devices", str(devices), "-f", str(pods), "-o", "json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["placed"], summary["pending"]) == (1, 1)
    assert {pod["node"] for pod in summary["pods"]} == {"node-2", ""}


def test_there_are_built_in_devices(tmp_path: Path) -> None:
    (tmp_path / "user.yaml").write_text(USER.replace("NAME", "user"))
    arguments = ["-f", str(tmp_path / "user.yaml"), "-o", "json", "--devices"]
    result = CliRunner().invoke(demo, arguments)
    assert result.exit_code == 0, result.output
    (pod,) = json.loads(result.stdout)["pods"]
    assert pod["node"] in ("node-1", "node-2")


def test_a_broken_file_of_devices_is_an_error_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "devices.yaml"
    for text, problem in (
        ("{driver: d.com}", "document 1: Object missing required field `devices`"),
        ("{apiVersion: v1, kind: Nothing, metadata: {}}", "unknown kind v1 Nothing"),
        ("{kind: DeviceClass}", "expected an object with apiVersion, kind and metadata"),
    ):
        broken.write_text(text)
        result = CliRunner().invoke(demo, ["--devices", str(broken)])
        assert result.exit_code == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"Error: {broken}")
        assert problem in line


LACKING = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: c, image: i}], resourceClaims: [{name: gpu, CLAIM}]}
"""


def test_a_demo_ends_though_pods_lack_their_resource_claims(tmp_path: Path) -> None:
    claims = {"a": "resourceClaimName: lost", "b": "resourceClaimTemplateName: nowhere"}
    pods = [LACKING.replace("NAME", name).replace("CLAIM", of) for name, of in claims.items()]
    (tmp_path / "pods.yaml").write_text("---".join(pods))
    result = CliRunner().invoke(demo, ["-f", str(tmp_path / "pods.yaml"), "-o", "json"])
    assert result.exit_code == 0, result.output
    assert [pod["message"] for pod in json.loads(result.stdout)["pods"]] == [
        'could not find ResourceClaim "default/lost"',
        'pod "default/b": ResourceClaim not created yet',
    ]


NEGOTIATED = """
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaim
metadata: {name: NAME}
spec: {resourceClassName: gpu}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers: [{name: c, image: i}]
  resourceClaims: [{name: gpu, resourceClaimName: NAME}]
"""
CLASS = """
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
metadata: {name: gpu}
driverName: gpu.example.com
"""


def test_devices_are_negotiated(tmp_path: Path) -> None:
    documents = [CLASS, *(NEGOTIATED.replace("NAME", name) for name in "abc")]
    (tmp_path / "cluster.yaml").write_text("---".join(documents))
    options = ["-f", str(tmp_path / "cluster.yaml"), "--nodes", "2", "-o", "json"]
    result = CliRunner().invoke(demo, [*options, "--negotiation"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["placed"], summary["pending"]) == (2, 1)
    (message,) = (pod["message"] for pod in summary["pods"] if not pod["node"])
    reason = "resourceclaim cannot be allocated for the node (unsuitable)"
    assert message.startswith(f"0/2 nodes are available: 2 {reason}.")


def test_an_unknown_gate_is_an_error_in_one_line() -> None:
    result = CliRunner().invoke(demo, ["--feature-gates", "BerthPod=true"])
    assert result.exit_code == 1
    assert result.output == "Error: feature gates: unrecognized feature gate: BerthPod\n"


def test_a_page_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(demo, ["--page-port", port])
    assert result.exit_code == 1
    assert "cannot start: Address already in use" in result.output
