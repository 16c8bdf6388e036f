"""An event loop whose time runs faster than real time, for tests with programs of their own.

Time passes only while no task can run and no socket has data, so a busy machine does not let leases
run out. A program in another process, such as kubectl, sees minutes pass in seconds.
"""

from __future__ import annotations

import asyncio
import selectors
import time

SPEED = 40.0


class _Selector(selectors.DefaultSelector):
    def __init__(self, speed: float) -> None:
        super().__init__()
        self.now = 0.0
        self.speed = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        began, speed = time.monotonic(), self.speed
        ready = super().select(timeout / speed)
        passed = (time.monotonic() - began) * speed if ready else timeout
        self.now += min(passed, timeout)
        return ready


class PacedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time starts at 0 seconds and runs `speed` times as fast."""

    def __init__(self, speed: float = SPEED) -> None:
        self._paced = _Selector(speed)
        super().__init__(self._paced)

    def pace(self, speed: float) -> None:
        """Changes the speed, from a handler of a signal too."""
        self._paced.speed = speed

    def time(self) -> float:
        return self._paced.now
