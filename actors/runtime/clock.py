"""The clocks of the actors: monotonic seconds for decisions, wall time for people."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import anyio

# CLOCK_BOOTTIME goes on while the machine sleeps. On macOS, CLOCK_MONOTONIC does so itself.
seconds_since_boot = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)


class Clock(Protocol):
    def now(self) -> float:
        """Returns monotonic seconds; only their differences have a meaning."""
        ...

    def wall(self) -> datetime:
        """Returns the time of day, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleeps; returns at once if the delay is zero or negative."""
        ...


class SystemClock:
    """The machine's clock."""

    now = staticmethod(time.monotonic)  # read a dozen times a pod, so without a Python frame

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))


class BootClock(SystemClock):
    """The machine's clock, including the time for which the machine slept. The lease needs it,
    because the lease runs out meanwhile.

    `sleep` does not count that time, so its caller must read the clock again afterwards.
    """

    now = staticmethod(seconds_since_boot)
