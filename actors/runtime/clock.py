"""The clocks that actors are given: monotonic seconds for decisions, wall time for what people
read.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import anyio

# Runs on while the machine sleeps. CLOCK_MONOTONIC does so too where there is no CLOCK_BOOTTIME
# (macOS).
seconds_since_boot = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds; only differences mean anything."""
        ...

    def wall(self) -> datetime:
        """The time of day, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Not at all for less than nothing."""
        ...


class SystemClock:
    """The machine's own clock."""

    now = staticmethod(time.monotonic)  # read a dozen times a pod: no frame of its own

    def wall(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))  # until a time that is over is no wait


class BootClock(SystemClock):
    """The machine's own clock, for what must not last longer because the machine slept: the lease.

    Waiting does not count the sleep, so whoever waited looks at the time again.
    """

    now = staticmethod(seconds_since_boot)
