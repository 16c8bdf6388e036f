"""Exponential backoff with jitter, as a value: no clock, the rng is given."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Rng(Protocol):
    def random(self) -> float: ...


class Backoff(msgspec.Struct, frozen=True):
    """Seconds: `initial`, doubling to `most`; each delay is stretched by up to `jitter` of
    itself.
    """

    initial: float
    most: float
    jitter: float = 0.0

    def delay(self, failures: int, rng: Rng) -> float:
        """How long to wait after this many failures in a row (1 is the first)."""
        assert failures >= 1
        doubled = self.initial * 2.0 ** min(failures - 1, 62)
        return min(doubled, self.most) * (1.0 + self.jitter * rng.random())
