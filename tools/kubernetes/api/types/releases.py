"""What the API server serves as a minor version of Kubernetes: its kinds, and their fields.

The versions are data: marks of fields in types.txt, `since` and `until` of kinds in resources.py.
"""

from __future__ import annotations

from functools import cached_property

from berth.config.versions import CURRENT, VERSIONS, Version

from .resources import KINDS, SERVED, Kind
from .schema import Shape, types_of

NEWEST_MINOR = 37  # whose kinds and fields are known


class Release:
    """The API of a version. Each version has one, so releases are compared by identity."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.kinds = tuple(kind for kind in KINDS if self.serves(kind))
        self.served = tuple(kind for kind in SERVED if self.serves(kind))

    def serves(self, kind: Kind) -> bool:
        return kind.since <= self.version.minor <= (kind.until or self.version.minor)

    @cached_property
    def types(self) -> dict[str, Shape]:
        """The types by name, each with the fields that this version has."""
        return types_of(self.version.minor)


RELEASES = {
    version.text: Release(version) for version in VERSIONS.values() if version.minor <= NEWEST_MINOR
}


def release_of(version: Version) -> Release:
    """Returns the API of a version; that of the newest known one for a later version."""
    return RELEASES.get(version.text, RELEASES[VERSIONS[NEWEST_MINOR].text])


CURRENT_RELEASE = release_of(CURRENT)
