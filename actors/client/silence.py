"""Silence on a stream that should not be silent: the connection is taken for dead, and closed.

The kernel notices a dead peer, but not a proxy that lives and forwards nothing. An API server that
sends bookmarks does so about once a minute, however little happens; where they have come before,
two and a half minutes without a byte say that nothing will come any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from berth.actors.runtime.clock import Clock

SILENCE_SECONDS = 150.0
LOOK_SECONDS = 1.0


class SilenceGuard:
    """While it is entered, calls `close` once if nothing was heard for too long although it was
    `expected` to be.

    It looks by the event loop's timer now and then, so that hearing something costs no more than
    the time.
    """

    def __init__(
        self, clock: Clock, expected: Callable[[], bool], close: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._expected = expected
        self._close = close
        self._heard_at = clock.now()
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    def __enter__(self) -> SilenceGuard:
        self._look()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def heard(self) -> None:
        self._heard_at = self._clock.now()

    def _look(self) -> None:
        if self._expected() and self._clock.now() - self._heard_at > SILENCE_SECONDS:
            self.closed = True
            self._close()
        else:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
