"""A plugin of pytest: suites get the cluster of $BERTH_KUBECONFIG in place of kind or k3d, and what
comes of each test is told in $BERTH_OUTCOMES.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from types import ModuleType
from typing import Any

KUBECONFIG = os.environ["BERTH_KUBECONFIG"]
NOT_RUN = os.environ["BERTH_NOT_RUN"].split()


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
if released := os.environ["BERTH_RELEASED"]:
    own = Path(os.environ["BERTH_CHECKOUT"]) / released
    importlib.import_module(released).__path__.append(str(own))


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--keep-cluster", action="store_true", dest="keep_cluster")


def pytest_configure(config: Any) -> None:
    if hasattr(config.option, "k8s_kubeconfig"):  # of pytest-kubernetes
        config.option.k8s_kubeconfig = KUBECONFIG
    plugin = sys.modules.get("cloudcoil._testing.plugin")
    if plugin is not None:
        plugin.KindCluster = plugin.K3DCluster = Cluster  # type: ignore[attr-defined]
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(), "berth_outcomes")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leaves out what would wait for minutes."""
    not_run = [item for item in items if {item.name, item.name.partition("[")[0]} & {*NOT_RUN}]
    if not_run:
        config.hook.pytest_deselected(items=not_run)
        items[:] = [item for item in items if item not in not_run]


class _Outcomes:
    """Tells what came of each test, one line of JSON each; the last one about a test counts."""

    def __init__(self) -> None:
        self._outcomes: dict[str, tuple[str, str]] = {}

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._tell(report.nodeid, "failed", _last_line(report))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "setup":
            self._outcomes[report.nodeid] = ("passed", "")
        if report.outcome != "passed":
            self._outcomes[report.nodeid] = (report.outcome, _last_line(report))
        if report.when == "teardown" and self._outcomes[report.nodeid][0] != "rerun":
            self._tell(report.nodeid, *self._outcomes[report.nodeid])

    def _tell(self, test: str, outcome: str, says: str) -> None:
        line = json.dumps({"test": test, "outcome": outcome, "says": says})
        with Path(os.environ["BERTH_OUTCOMES"]).open("a") as told:
            told.write(f"{line}\n")


def _last_line(report: Any) -> str:
    """Returns what a test that failed or was skipped said."""
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    if isinstance(report.longrepr, tuple):  # of a skipped one: file, line and reason
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr).strip().partition("\n")[0]
