"""The newest version of a kind that was seen, and what becomes of a list from before it. Pure.

A list without a resourceVersion is a consistent read, so an older one is a fault: of several
servers, one whose cache is behind. It would make the reader forget what it knows, such as pods that
are bound, so it is asked for again a few times. Then it is taken: the server may have lost writes,
as one that was restored from a backup without a new beginning of its versions. client-go takes it
at once.
"""

from __future__ import annotations

from ..scheduling.kube.meta import version_number

MOST_TRIES = 3


class SeenVersion:
    """The newest version; resourceVersions of one kind are numbers that can be compared."""

    def __init__(self) -> None:
        self._newest = 0
        self.refused = 0  # older lists in a row

    def see(self, version: str) -> None:
        """Notes the version of an event or of a list that was taken."""
        self._newest = max(self._newest, version_number(version))

    def takes(self, version: str) -> bool:
        """True if a list of this version is to be taken; it is noted."""
        if 0 < version_number(version) < self._newest and self.refused < MOST_TRIES:
            self.refused += 1
            return False
        self._newest, self.refused = version_number(version), 0
        return True
