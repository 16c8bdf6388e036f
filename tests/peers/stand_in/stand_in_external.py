"""Two tests of pytest-kubernetes with its provider for clusters that exist already."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

HELLO = Path(os.environ["BERTH_CHECKOUT"]) / "tests" / "fixtures" / "hello.yaml"


@pytest.fixture
def cluster(k8s_manager: Any) -> Any:
    class External(k8s_manager("external")):  # type: ignore[misc]
        _kubeconfig = os.environ["BERTH_KUBECONFIG"]

    manager = External("external")
    manager.create()
    return manager


def test_the_cluster_gets_ready(cluster: Any) -> None:
    assert cluster.ready(20)


def test_a_workload_is_applied(cluster: Any) -> None:
    cluster.apply(HELLO.resolve())
    cluster.wait("deployments/hello-nginxdemo", "condition=Available=True", timeout=30)
    assert cluster.kubectl(["get", "deployment", "hello-nginxdemo"])["status"]["readyReplicas"]
