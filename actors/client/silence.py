"""SilenceGuard: closes a stream that has been silent for too long.

The kernel notices a dead peer, but not a proxy that is alive and forwards nothing. An API server
that sends bookmarks sends one about every minute, even if nothing changes. If it has sent any, two
and a half minutes without a byte mean that the connection is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..runtime.clock import Clock

SILENCE_SECONDS = 150.0
CHECK_SECONDS = 1.0


class SilenceGuard:
    """A context manager that calls `close` once if nothing arrives for as long as `limit` says.

    `limit` returns seconds, or None while any silence is fine. A timer of the event loop checks
    every CHECK_SECONDS, so that `note_activity` only has to store the time.
    """

    def __init__(
        self, clock: Clock, limit: Callable[[], float | None], close: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._close = close
        self._active_at = clock.now()
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    def __enter__(self) -> SilenceGuard:
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def note_activity(self) -> None:
        """Records that something arrived."""
        self._active_at = self._clock.now()

    def _check(self) -> None:
        limit = self._limit()
        if limit is not None and self._clock.now() - self._active_at > limit:
            self.closed = True
            self._close()
        else:
            self._timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)
