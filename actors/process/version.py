"""The version of this process, and the version of Kubernetes whose scheduler it replaces."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import msgspec

from berth.config.versions import CURRENT


def _version_of_berth() -> str:
    """Returns the version of the installed distribution: of berth-scheduler, or of the smaller one
    that has the API server alone.
    """
    try:
        return version("berth-scheduler")
    except PackageNotFoundError:
        return version("berth-apiserver")


BERTH = _version_of_berth()
KUBERNETES = CURRENT.release
KUBERNETES_MAJOR, KUBERNETES_MINOR = 1, CURRENT.minor
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}  # as Go names them
_SYSTEM = f"{sys.platform}/{_MACHINES.get(platform.machine(), platform.machine())}"
# The part before the first slash is the field manager of what the scheduler writes.
USER_AGENT = f"kube-scheduler/{KUBERNETES} (berth {BERTH}; {_SYSTEM})"


class Versions(msgspec.Struct, frozen=True, rename="camel"):
    """`kubernetes` is the version whose kube-scheduler makes the same decisions."""

    berth: str = BERTH
    kubernetes: str = KUBERNETES
    python: str = platform.python_version()
    platform: str = f"{sys.platform}/{platform.machine()}"


def described(*, raw: bool = False) -> str:
    """Returns the versions in words, with kube-scheduler's line first; `raw` has everything."""
    if raw:
        fields = msgspec.structs.asdict(Versions())
        shown = ", ".join(f'{name.capitalize()}:"{value}"' for name, value in fields.items())
        numbers = f'Major:"{KUBERNETES_MAJOR}", Minor:"{KUBERNETES_MINOR}"'
        return f'version.Info{{{numbers}, GitVersion:"{KUBERNETES}", {shown}}}'
    return f"Kubernetes {KUBERNETES}\nberth {BERTH}"
