"""Virtual time: a clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

import anyio
import anyio.lowlevel


class VirtualClock:
    """Starts at 0 seconds, 2026-01-01 UTC. Sleepers wake in the order of their time while `advance` passes it."""

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._arrival = count()

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._now)

    async def sleep(self, seconds: float) -> None:
        event = anyio.Event()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._arrival), event))
        await event.wait()

    async def advance(self, seconds: float) -> None:
        """Let this much time pass; whoever wakes runs before time goes on."""
        until = self._now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            self._now, _, event = heapq.heappop(self._sleepers)
            event.set()
            await self.settle()
        self._now = until

    @staticmethod
    async def settle(turns: int = 20) -> None:
        """Let every task that can run do so."""
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
