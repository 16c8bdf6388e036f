"""Waits for pods, ending if there is no progress, and for the turns of work done at a rate."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping

import anyio

from .pods import PodTracker

POLL_SECONDS = 0.05


class UnsupportedError(Exception):
    """The workload needs a feature that is not supported here."""


class StalledError(Exception):
    """Pods wait without any progress."""


class Waiting:
    """`stall` is the number of seconds that a wait may last without progress."""

    def __init__(self, pods: PodTracker, stall: float) -> None:
        self._pods = pods
        self._stall = stall

    async def until(
        self,
        wanted: Mapping[str, int],
        have: Callable[[str], int],
        what: str,
        step: str,
        report_progress: Callable[[], None],
    ) -> None:
        """Waits until each namespace has the wanted number of pods.

        Raises StalledError.
        """
        moved, last, total = time.monotonic(), -1, sum(wanted.values())
        while True:
            found = sum(map(have, wanted))
            report_progress()
            if found >= total:
                return
            now = time.monotonic()
            if found != last:
                moved, last = now, found
            elif now - moved > self._stall:
                raise StalledError(
                    f"stalled in {step}: {total - found} of {total} pods in {', '.join(wanted)} "
                    "wait, and none was "
                    f"{what} for {self._stall:g} s: {self._pods.why(list(wanted))}"
                )
            await anyio.sleep(POLL_SECONDS)


async def ticks(interval: float) -> AsyncGenerator[None]:
    """One turn per interval, the first after one interval; late turns are not made up for."""
    due = time.monotonic() + interval
    while True:
        wait = due - time.monotonic()
        await anyio.sleep(max(wait, 0.0))
        due = max(due, time.monotonic() - interval) + interval
        yield
