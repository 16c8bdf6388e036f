"""Waits for pods until there is no progress, and yields the turns of work that is done at a
rate.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping

import anyio

from .pod_counts import PodTracker

POLL_SECONDS = 0.05


class UnsupportedError(Exception):
    """The workload needs a feature that is not supported here."""


class StalledError(Exception):
    """Pods wait without any progress."""


class Waiting:
    """The waits of a workload. `stall` is the longest wait without progress, in seconds."""

    def __init__(self, pods: PodTracker, stall: float) -> None:
        self._pods = pods
        self._stall = stall

    async def until(
        self,
        numbers: Mapping[str, int],
        have: Callable[[str], int],
        what: str,
        step: str,
        report_progress: Callable[[], None],
    ) -> None:
        """Waits until each namespace has its number of pods.

        Raises StalledError.
        """
        moved, last, total = time.monotonic(), -1, sum(numbers.values())
        while True:
            present = sum(map(have, numbers))
            report_progress()
            if present >= total:
                return
            now = time.monotonic()
            if present != last:
                moved, last = now, present
            elif now - moved > self._stall:
                raise StalledError(
                    f"stalled in {step}: {total - present} of {total} pods in {', '.join(numbers)} "
                    "wait, and none was "
                    f"{what} for {self._stall:g} s: {self._pods.why(list(numbers))}"
                )
            await anyio.sleep(POLL_SECONDS)


async def ticks(interval: float) -> AsyncGenerator[None]:
    """Yields once per interval, after its end. Skips times that are already past."""
    due = time.monotonic() + interval
    while True:
        wait = due - time.monotonic()
        await anyio.sleep(max(wait, 0.0))
        due = max(due, time.monotonic() - interval) + interval
        yield
