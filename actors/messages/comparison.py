"""Differences of the queue and the cache from the API server, which are reported and healed."""

from __future__ import annotations

import msgspec


class Difference(msgspec.Struct, frozen=True, order=True):
    """A difference from the API server. `what` is missed, redundant or stale.

    `kind` is Node or Pod for the cache, PendingPod for the queue.
    """

    what: str
    kind: str
    key: str


class Healed(msgspec.Struct, frozen=True):
    """A difference was removed. For the log."""

    difference: Difference
