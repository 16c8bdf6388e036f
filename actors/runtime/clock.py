"""The clocks that actors are given: monotonic seconds for decisions, wall time for people."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import anyio

# CLOCK_BOOTTIME goes on while the machine sleeps. macOS has none; its CLOCK_MONOTONIC goes on too.
seconds_since_boot = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds; only their differences have a meaning."""
        ...

    def wall(self) -> datetime:
        """The time of day, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Returns at once if the delay is zero or negative."""
        ...


class SystemClock:
    """The machine's clock."""

    now = staticmethod(time.monotonic)  # read a dozen times a pod, so without a Python frame

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))


class BootClock(SystemClock):
    """The machine's clock, including the time for which the machine slept. For the lease, which
    runs out meanwhile.

    `sleep` does not count that time, so its caller must read the clock again afterwards.
    """

    now = staticmethod(seconds_since_boot)
