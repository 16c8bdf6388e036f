"""Virtual time: a clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

import anyio

MOST_TURNS = 100_000
QUIET_TURNS = 5  # an answer may be on its way between two sockets


class VirtualClock:
    """Starts at 0 seconds, 2026-01-01 UTC. `advance` wakes sleepers in the order of their times."""

    def __init__(self) -> None:
        self._now = 0.0
        self.wall_step = timedelta()  # how far the time of day was set
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._arrival = count()

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._now) + self.wall_step

    async def sleep(self, seconds: float) -> None:
        event = anyio.Event()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._arrival), event))
        await event.wait()

    async def advance(self, seconds: float) -> None:
        """Moves the time forward. Each sleeper that wakes runs until it waits again before time
        goes on.
        """
        until = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._now, _, event = heapq.heappop(self._sleepers)
            event.set()
            await self.settle()
        self._now = until

    @staticmethod
    async def settle() -> None:
        """Runs the other tasks until every one of them is blocked."""
        # What the loop calls next. A walk over all tasks would take most of a test's time.
        ready, quiet = vars(asyncio.get_running_loop())["_ready"], 0
        for _ in range(MOST_TURNS):
            await asyncio.sleep(0)
            quiet = 0 if ready else quiet + 1
            if quiet == QUIET_TURNS:
                return
        raise AssertionError(f"a task is busy after {MOST_TURNS} turns")
