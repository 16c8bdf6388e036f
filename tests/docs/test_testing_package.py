"""What others write beside the wheel: a suite passes, in several workers too, and mypy reads the
types of suites and plugins from the public modules alone.
"""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
from click.testing import CliRunner

from berth.tools.testing.plugin_commands.plugin_command import plugin
from berth.tools.testing.plugin_commands.plugin_kinds import KINDS
from tests.docs.blocks import PLUGINS, ROOT, write_files
from tests.kit.installations import Environment, built, ran

pytestmark = pytest.mark.full("processes")

SUITE = """
from pathlib import Path

import pytest

from berth.testing import (
    BlockingCluster,
    Cluster,
    ServedCluster,
    claim,
    decide,
    deployment,
    device_claim,
    devices,
    nodes,
    pod,
    stateful_set,
)


async def test_rollout(cluster: Cluster) -> None:
    await cluster.add(nodes(3, cpu=4), deployment("web", replicas=3, cpu=3))
    await cluster.settled()
    assert cluster.pod("web").placed_on("node-1", "node-2", "node-3")
    names: list[str] = cluster.pod("web").names
    assert len(names) == 3


@pytest.mark.cluster(nodes=1)
def test_without_asyncio(cluster: BlockingCluster) -> None:
    gpu = device_claim("gpu", "gpu.nvidia.com")
    cluster.add(devices("nvidia-h100", count=1), gpu, pod("a", devices=[gpu]))
    cluster.add(stateful_set("db", claims=[claim("data")]))
    cluster.settled()
    assert cluster.devices_of("a") == ["node-1/gpu-0"]
    assert cluster.pods().bound_once()


@pytest.mark.cluster(nodes=1)
def test_served(apiserver: ServedCluster, kubeconfig: Path) -> None:
    assert apiserver.url in kubeconfig.read_text()
    apiserver.call(lambda cluster: cluster.add(pod("a")))
    apiserver.call(lambda cluster: cluster.until(cluster.pod("a").running))


@pytest.mark.parametrize("number", range(3))
def test_decision(number: int) -> None:
    decision = decide(pod("a", cpu=2), nodes(2, cpu=4), pod("b", cpu=3, node="node-1"))
    node: str = decision.node
    assert node == "node-2"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(
        tmp_path_factory.mktemp("env"), "berth-scheduler", "pytest", "pytest-xdist", "mypy"
    )
    environment.install(built(ROOT, "wheel", tmp_path_factory.mktemp("wheel")))
    return environment


def test_suites_and_plugins_pass_a_strict_type_check(
    installed: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All in one run, since mypy reads all of berth first."""
    monkeypatch.chdir(tmp_path)
    Path("suite").mkdir()
    Path("suite/test_suite.py").write_text(SUITE)
    write_files(PLUGINS, tmp_path / "page")
    copytree(ROOT / "tools/docs/examples", "copied", ignore=ignore_patterns("*.pyc"))
    for kind in KINDS:
        CliRunner().invoke(plugin, ("new", f"my-{kind}", "--kind", kind))
    folders = ("suite", "page", *(f"my-{kind}" for kind in KINDS))
    monkeypatch.setenv("MYPYPATH", ":".join(str(tmp_path / folder) for folder in folders))
    strict = ("mypy", "--strict", "--explicit-package-bases", "--exclude=my-.*/tests/", ".")
    assert ran(installed.python, "-m", *strict, folder=tmp_path).startswith("Success")


def test_a_suite_passes_beside_the_wheel(installed: Environment, tmp_path: Path) -> None:
    write_files(ROOT / "docs/testing.md", tmp_path)
    (tmp_path / "test_kubectl.py").unlink()
    (tmp_path / "test_suite.py").write_text(SUITE)
    options = ("-q", "-p", "no:cacheprovider", "-n2", "--rootdir", str(tmp_path))
    said = installed.run("-m", "pytest", *options, str(tmp_path))
    assert "failed" not in said
