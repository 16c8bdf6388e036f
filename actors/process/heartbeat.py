"""The heartbeat of an event loop, by which every thread can tell for how long the loop has been
blocked.

One task writes the time a few times a second, and a question compares it with the current time. So
the heartbeat slows no other work, takes no lock, and can be asked while a call blocks the loop. If
the whole process was stopped (SIGSTOP), the loop counts as blocked until its next beat.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import anyio
from anyio.abc import TaskStatus

BEAT_SECONDS = 0.2


class Heartbeat:
    """A sign of life of an event loop. `now` returns monotonic seconds in any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._thread: int | None = None  # that of the loop
        self._due_at: float | None = None  # time of the next beat; None while `run` does not run

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Beats in the event loop of the caller, until cancelled."""
        self._thread = threading.get_ident()
        self._beat()
        task_status.started()
        try:
            while True:
                await anyio.sleep(BEAT_SECONDS)
                self._beat()
        finally:
            self._due_at = None

    def still_for(self) -> float:
        """Returns the seconds for which the loop has been blocked; 0 while it runs, before the
        first beat, and after the last.

        Any thread may call it. The first BEAT_SECONDS of a block may not be counted.
        """
        due_at = self._due_at
        return 0.0 if due_at is None else max(self._now() - due_at, 0.0)

    def frame(self) -> FrameType | None:
        """Returns the innermost frame of the loop's thread, which may be running."""
        frames = sys._current_frames()  # noqa: SLF001 - the only way to another thread's stack
        return None if self._thread is None else frames.get(self._thread)

    def _beat(self) -> None:
        self._due_at = self._now() + BEAT_SECONDS
