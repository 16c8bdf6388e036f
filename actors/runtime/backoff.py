"""Exponential backoff with jitter. Pure: it has no clock, and takes its random generator."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Rng(Protocol):
    def random(self) -> float: ...


class Backoff(msgspec.Struct, frozen=True):
    """Delays in seconds: the first is `initial`, each further one is twice as long, up to `most`.
    To each, up to `jitter` times the delay is added.
    """

    initial: float
    most: float
    jitter: float = 0.0

    def delay(self, failures: int, rng: Rng) -> float:
        """Returns the seconds to wait after this many failures in a row; at least 1."""
        assert failures >= 1
        doubled = self.initial * 2.0 ** min(failures - 1, 62)
        return min(doubled, self.most) * (1.0 + self.jitter * rng.random())
