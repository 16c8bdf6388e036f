"""Metrics about the process: its version, its feature gates, and its families of metrics.

Mirrors component-base's metrics/prometheus/{version,feature,compatversion} and the meta metrics of
its registry.
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Mapping

from berth.config.feature_gates import GA, Gate, gates_of
from berth.config.versions import Version

from ...process.version import BERTH, KUBERNETES, KUBERNETES_MAJOR, KUBERNETES_MINOR
from ...telemetry.measures import BETA, UNSPECIFIED, Registry

# As distributions of Kubernetes do: the version that berth corresponds to, and berth's own.
GIT_VERSION = f"{KUBERNETES}+berth.{BERTH}"
UNKNOWN_DATE = "1970-01-01T00:00:00Z"  # kube-scheduler says this if its build names no date
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def register_about(registry: Registry, version: Version, gates: Mapping[str, bool]) -> None:
    """Registers the families about the version, the gates and the metrics. `gates` has every gate
    of the version that berth decides as, with its value.
    """
    _version(registry, version)
    _gates(registry, gates_of(version), gates)
    _metrics(registry)


def _version(registry: Registry, version: Version) -> None:
    machine = platform.machine()
    info = {
        "major": str(KUBERNETES_MAJOR),
        "minor": str(KUBERNETES_MINOR),
        "git_version": GIT_VERSION,
        "git_commit": "",
        "git_tree_state": "",
        "build_date": UNKNOWN_DATE,
        "go_version": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{sys.platform}/{ARCHITECTURES.get(machine, machine)}",
    }
    registry.gauge(
        "kubernetes_build_info",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, git"
        " tree state, build date, Go version, and compiler from which Kubernetes was built, and"
        " platform on which it is running.",
        tuple(info),
        BETA,
    ).child(*info.values()).set(1)
    registry.gauge(
        "version_info",
        "Provides the compatibility version info of the component. The component label is the name"
        " of the component, usually kube, but is relevant for aggregated-apiservers.",
        ("component", "binary", "emulation", "min_compat"),
    ).child(
        "kube",
        KUBERNETES.removeprefix("v"),
        version.text,
        f"{KUBERNETES_MAJOR}.{version.oldest}",
    ).set(1)


def _gates(registry: Registry, known: Mapping[str, Gate], gates: Mapping[str, bool]) -> None:
    family = registry.gauge(
        "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
        BETA,
    )
    for name, gate in known.items():
        stage = "" if gate.stage == GA else gate.stage
        family.child(name, stage).set(float(gates[name]))


def _metrics(registry: Registry) -> None:
    """Counts the families by stability. None is hidden, because none is deprecated."""
    registered = registry.counter(
        "registered_metrics_total",
        "The count of registered metrics broken by stability level and deprecation version.",
        ("stability_level", "deprecated_version"),
        BETA,
    )
    disabled = registry.counter(
        "disabled_metrics_total", "The count of disabled metrics.", (), BETA
    )
    hidden = registry.counter("hidden_metrics_total", "The count of hidden metrics.", (), BETA)
    unexpected = registry.counter(
        "cardinality_enforcement_unexpected_categorizations_total",
        "The count of unexpected categorizations during cardinality enforcement.",
    )

    async def refresh() -> None:
        disabled.child().value = len(registry.disabled)
        hidden.child().value = len(registry.hidden())
        unexpected.child().value = registry.unexpected.value
        for stability, number in Counter(each.stability for each in registry.families()).items():
            if stability != UNSPECIFIED:
                registered.child(stability, "").value = number

    registry.refresh_by(refresh)
