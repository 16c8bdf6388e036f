"""Sweeps in processes and on Ray, of which some are killed: no result is lost or different."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import anyio
import msgspec
import pytest

from berth.tools.answers.explain.cluster_source import Live
from berth.tools.answers.terminal.feature_gates import gates_from
from berth.tools.answers.whatif.sweep.cell import WhatIfs
from berth.tools.answers.whatif.sweep.definition import definition_of
from berth.tools.answers.whatif.sweep.plan import plan_of
from tests.kit.processes import berth, free_port, install

pytestmark = pytest.mark.full

WITH_RAY = pytest.mark.skipif(
    find_spec("ray") is None, reason="ray is not installed: pip install 'berth-scheduler[ray]'"
)
FILES = {
    "cluster": """
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
""",
    "web": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 12
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: "1500m"}}}]}
""",
    "trouble": """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Trouble}]}}}]
""",
    "sweep": """
cluster: [cluster.yaml]
workload: [web.yaml]
nodeTypes: [{name: small, like: node-1, price: 0.125}]
configurations: [{name: trouble, file: trouble.yaml}]
counts: 1-8
seeds: 0-2
""",
}
TROUBLE = """
import os, signal, time
from pathlib import Path
from berth.plugin import SUCCESS, NodeFilterPlugin

FOLDER = Path({folder!r})


class Trouble(NodeFilterPlugin):
    name = "Trouble"

    def filter_node(self, state, info, node):
        (FOLDER / f"{{os.getpid()}}.worker").touch()
        if (FOLDER / "slow").exists():
            time.sleep(0.003)
        while (FOLDER / "hold").exists():
            (FOLDER / f"{{os.getpid()}}.held").touch()
            time.sleep(0.01)
        if (FOLDER / "deaths").exists():
            left = int((FOLDER / "deaths").read_text())
            if left:
                (FOLDER / "deaths").write_text(str(left - 1))
                os.kill(os.getpid(), signal.SIGKILL)
        return SUCCESS
"""
# Prints the address of a cluster of two nodes of one core, and kills the second one on demand.
TWO_NODES = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for _ in sys.stdin:
    cluster.remove_node(node, allow_graceful=False)
    print("killed", flush=True)
cluster.shutdown()
"""
SECONDS = 120.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    install(
        tmp_path / "site",
        "trouble",
        TROUBLE.format(folder=str(tmp_path)),
        Trouble="trouble:Trouble",
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path


def in_this_process(folder: Path) -> list[bytes]:
    """Returns the lines of the results as they have to be, in order."""
    plan = plan_of(definition_of(folder / "sweep.yaml"), Live(), gates_from(()))
    what_ifs = WhatIfs(plan.encoded())
    results = [what_ifs.outcome(cell) for cell in plan.cells()]
    return sorted(msgspec.json.encode(result) for result in results)


def kept(folder: Path) -> list[bytes]:
    """Returns the lines of the file of results, in order. The last one may not have an end yet."""
    path = folder / "r.jsonl"
    return sorted(path.read_bytes().split(b"\n")[1:-1]) if path.exists() else []


def arguments(folder: Path, *more: str) -> list[str]:
    sweep = ["whatif", "sweep", str(folder / "sweep.yaml"), "--top", "3"]
    return [*sweep, "--results", str(folder / "r.jsonl"), *more]


def workers(folder: Path, suffix: str = "worker") -> list[int]:
    """Returns the processes that have tried a pod, or that hold one."""
    return [int(path.stem) for path in folder.glob(f"*.{suffix}")]


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def begun(folder: Path, results: int) -> None:
    """Waits until there are results, and the sweep goes on."""
    with anyio.fail_after(SECONDS):
        while len(kept(folder)) < results:
            await anyio.sleep(0.01)


async def test_a_worker_that_dies_costs_no_result(folder: Path) -> None:
    (folder / "deaths").write_text("2")
    async with berth(folder, *arguments(folder, "--jobs", "1"), site=folder / "site") as sweep:
        assert await sweep.end(SECONDS) == 0, sweep.output
    assert len(workers(folder)) == 3
    assert kept(folder) == in_this_process(folder)


async def test_a_cell_that_kills_its_worker_three_times_is_reported(folder: Path) -> None:
    (folder / "deaths").write_text("3")
    async with berth(folder, *arguments(folder, "--jobs", "1"), site=folder / "site") as sweep:
        assert await sweep.end(SECONDS) == 2, sweep.output
    assert "1 of the what-ifs failed: its worker died 3 times: signal SIGKILL" in sweep.output
    done = kept(folder)
    whole = in_this_process(folder)
    assert len(whole) == len(done) + 1
    assert set(done) < set(whole)
    # Failures are not kept: the next run tries the cell again.
    async with berth(folder, *arguments(folder), site=folder / "site") as sweep:
        assert await sweep.end(SECONDS) == 0, sweep.output
    assert kept(folder) == whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_a_sweep_that_is_stopped_leaves_no_process_and_goes_on(
    folder: Path, number: signal.Signals
) -> None:
    (folder / "slow").touch()
    async with berth(folder, *arguments(folder, "--jobs", "2"), site=folder / "site") as sweep:
        await begun(folder, 2)
        sweep.send(number)
        code = await sweep.end(SECONDS)
    pids = workers(folder)
    assert pids
    with anyio.fail_after(SECONDS):
        while any(map(runs, pids)):
            await anyio.sleep(0.01)
    if number is signal.SIGINT:
        assert code == 130
        assert sweep.output.startswith(f"stopped after {len(kept(folder))} of 24 what-ifs")
    assert 2 <= len(kept(folder)) < 24
    (folder / "slow").unlink()
    async with berth(folder, *arguments(folder), site=folder / "site") as sweep:
        assert await sweep.end(SECONDS) == 0, sweep.output
    assert kept(folder) == in_this_process(folder)


@contextmanager
def two_nodes(site: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yields the address of a Ray cluster and a function that kills one of its two nodes."""
    environment = {**os.environ, "PYTHONPATH": str(site), "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", TWO_NODES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as cluster:
        stdin, stdout = cluster.stdin, cluster.stdout
        assert stdin is not None
        assert stdout is not None

        def kill() -> None:
            print(file=stdin, flush=True)
            assert stdout.readline() == "killed\n"

        try:
            yield stdout.readline().strip(), kill
        finally:
            stdin.close()
            cluster.wait()


@WITH_RAY
async def test_on_ray_a_node_that_is_killed_costs_no_result(folder: Path) -> None:
    (folder / "slow").touch()
    with two_nodes(folder / "site") as (address, kill):
        engine = ["--engine", "ray", "--engine-address", address]
        async with berth(folder, *arguments(folder, *engine), site=folder / "site") as sweep:
            await begun(folder, 2)
            (folder / "hold").touch()
            with anyio.fail_after(SECONDS):
                while len(held := workers(folder, "held")) < 2:
                    await anyio.sleep(0.01)
                kill()
                while all(map(runs, held)):
                    await anyio.sleep(0.01)
            (folder / "hold").unlink()
            assert await sweep.end(SECONDS) == 0, sweep.output
    assert kept(folder) == in_this_process(folder)


@WITH_RAY
async def test_an_address_without_ray_is_refused_at_once(folder: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    engine = ["--engine", "ray", "--engine-address", address]
    async with berth(folder, *arguments(folder, *engine), site=folder / "site") as sweep:
        assert await sweep.end(SECONDS) == 2
    assert f"--engine-address {address}: [Errno 111] Connection refused" in sweep.output
