"""A plugin of pytest: suites get the cluster of $BERTH_KUBECONFIG in place of kind or k3d."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from types import ModuleType
from typing import Any

KUBECONFIG = os.environ["BERTH_KUBECONFIG"]


class Cluster:
    """The cluster, as pytest-kind and the plugin of cloudcoil know theirs."""

    kubeconfig_path = Path(KUBECONFIG)
    kubectl_path = Path(which("kubectl") or "kubectl")

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def create(self) -> None: ...
    def delete(self) -> None: ...
    def load_docker_image(self, image: str) -> None: ...

    def kubectl(self, *words: str, **more: Any) -> str:
        command, environment = ["kubectl", *words], {**os.environ, "KUBECONFIG": KUBECONFIG}
        return str(subprocess.check_output(command, env=environment, encoding="utf-8", **more))

    create_cluster, remove_cluster = create, delete

    def get_kubeconfig(self) -> Path:
        return self.kubeconfig_path


_kind = ModuleType("pytest_kind")
_module = ModuleType("pytest_kind.cluster")
_module.KindCluster = _kind.KindCluster = Cluster  # type: ignore[attr-defined]
_kind.cluster = _module  # type: ignore[attr-defined]
sys.modules |= {"pytest_kind": _kind, "pytest_kind.cluster": _module}


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--keep-cluster", action="store_true", dest="keep_cluster")


def pytest_configure(config: Any) -> None:
    if hasattr(config.option, "k8s_kubeconfig"):  # of pytest-kubernetes
        config.option.k8s_kubeconfig = KUBECONFIG
    plugin = sys.modules.get("cloudcoil._testing.plugin")
    if plugin is not None:
        plugin.KindCluster = plugin.K3DCluster = Cluster  # type: ignore[attr-defined]
