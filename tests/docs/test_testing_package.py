"""A suite of somebody else, beside the wheel: it passes, in several workers too, and mypy reads its
types from the public modules alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, write_files
from tests.kit.installations import Environment, built

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


def test_the_types_of_a_suite_are_strict(installed: Environment, tmp_path: Path) -> None:
    suite = tmp_path / "test_suite.py"
    suite.write_text(SUITE)
    cache = str(tmp_path / "cache")
    said = installed.run("-m", "mypy", "--strict", "--cache-dir", cache, str(suite))
    assert said.startswith("Success")


def test_a_suite_passes_beside_the_wheel(installed: Environment, tmp_path: Path) -> None:
    write_files(ROOT / "docs/testing.md", tmp_path)
    (tmp_path / "test_kubectl.py").unlink()
    (tmp_path / "test_suite.py").write_text(SUITE)
    options = ("-q", "-p", "no:cacheprovider", "-n2", "--rootdir", str(tmp_path))
    said = installed.run("-m", "pytest", *options, str(tmp_path))
    assert "failed" not in said
