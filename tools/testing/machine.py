"""The machine that a program of a cluster runs on, as far as it can fail: its clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from berth.actors.runtime.clock import Clock


class Machine:
    """A clock whose program can be stopped, as by SIGSTOP, and goes on later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0
        # as attributes, because programs ask for the time more often than for anything else
        self.now: Callable[[], float] = clock.now
        self.wall: Callable[[], datetime] = clock.wall

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self.running()

    def stop(self, seconds: float) -> None:
        """Stops the program for a time."""
        self._until = max(self._until, self.now() + seconds)

    async def running(self) -> None:
        """Returns once the program is not stopped."""
        while self._until and (left := self._until - self.now()) > 0:
            await self._clock.sleep(left)
