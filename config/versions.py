"""The minor versions of Kubernetes that berth can decide as, and what differs between them.

A version is data: the stages and defaults of its feature gates (gate_table.py), and the changes
that upstream made without a gate (change_table.py). Each change has a name and stands beside the
gates, so that the code asks `gates["ResizeFootprint"]` and never for a version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

COMPONENT = "kube"
_TEXT = re.compile(r"v?1\.([0-9]+)(?:\.0)?")


class Version(msgspec.Struct, frozen=True):
    """A minor version of Kubernetes. `release` is the patch release that berth was compared with.
    Of a preview not all changes are known or made. `beside` is the minor version of the oldest
    component of the control plane, if it is not the one before this.
    """

    minor: int
    release: str
    preview: bool = False
    beside: int | None = None

    @property
    def text(self) -> str:
        return f"1.{self.minor}"

    @property
    def oldest(self) -> int:
        """The minor version of the oldest component of the control plane."""
        return self.minor - 1 if self.beside is None else self.beside


VERSIONS: Mapping[int, Version] = {
    version.minor: version
    for version in (
        Version(36, "v1.36.2"),
        Version(37, "v1.37.0", preview=True),
        Version(38, "v1.38.0", preview=True),
    )
}
# The versions whose configuration files are known: one before the oldest to decide as, too.
CONFIGURED: Mapping[int, Version] = {35: Version(35, "v1.35.2"), **VERSIONS}
# The version that berth is, if no other is asked for: the newest that is complete.
CURRENT = max((v for v in VERSIONS.values() if not v.preview), key=lambda version: version.minor)
OLDEST = VERSIONS[min(VERSIONS)]
OLDEST_MINOR = CURRENT.minor - 3  # the oldest that kube-scheduler of the same version emulates


def minor_of(text: str) -> int:
    """Returns the minor version in a flag's text such as `1.36` or `kube=1.36`. Raises ValueError,
    which says what is wrong.
    """
    component, equals, number = text.rpartition("=")
    if equals and component.strip() != COMPONENT:
        raise ValueError(f"component not registered: {component.strip()}")
    read = _TEXT.fullmatch(number.strip())
    newest = max(VERSIONS)
    if read is None or not OLDEST_MINOR <= int(read[1]) <= newest:
        raise ValueError(f"expected 1.{OLDEST_MINOR} to 1.{newest}, got {text!r}")
    return int(read[1])


def emulated(text: str) -> Version:
    """Returns the version to decide as for `--emulated-version`; for one that is older than all
    that berth knows, the oldest. Raises ValueError.
    """
    return VERSIONS.get(minor_of(text), OLDEST)


def version_warnings(text: str) -> list[str]:
    """Returns the lines to print about a version that was asked for. Raises ValueError."""
    asked, version = minor_of(text), emulated(text)
    if asked < version.minor:
        return [f"--emulated-version={text}: berth decides as Kubernetes {version.text}"]
    if version.preview:
        return [f"--emulated-version={text} is a preview: not all of its changes are made"]
    return []
