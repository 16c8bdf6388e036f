"""The heartbeat of an event loop: it beats as long as the loop runs, and any thread may ask how
long it has not.

One task writes the time a few times a second; whoever asks compares it with the time now. So it
costs the loop's work nothing, takes no lock, and answers while the loop is held up by a call that
does not return. A process that was stopped as a whole (SIGSTOP) has stood still too, until the next
beat.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
from anyio.abc import TaskStatus

BEAT_SECONDS = 0.2


class Heartbeat:
    """`now` is monotonic seconds, and read from any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due_at: float | None = None  # when the next beat is due; None while nobody beats

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Beat in the loop that calls this, until cancelled."""
        self._beat()
        task_status.started()
        try:
            while True:
                await anyio.sleep(BEAT_SECONDS)
                self._beat()
        finally:
            self._due_at = None

    def still_for(self) -> float:
        """Seconds for which the loop has stood still; 0 while it runs, before it has begun to beat,
        and after its end.

        May be called from every thread. Up to BEAT_SECONDS of a standstill are not counted.
        """
        due_at = self._due_at
        return 0.0 if due_at is None else max(self._now() - due_at, 0.0)

    def _beat(self) -> None:
        self._due_at = self._now() + BEAT_SECONDS
