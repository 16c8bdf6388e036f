"""Group commit: one fsync for all that wait for what they have written.

The fsync runs in a thread, so nothing else waits for the disk. What is written meanwhile waits for
the next one. After a failed fsync nobody knows what is on the disk, so nothing is put on it any
more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

Told = Callable[[bool], None]


class GroupCommit:
    """Counts the writes to a file, and puts them on the disk for those who wait.

    `failure` is why that failed; None while it works.
    """

    def __init__(self, put_on_disk: Callable[[], None]) -> None:
        """`put_on_disk` is called in a thread, one call after the other. It may raise OSError."""
        self._put_on_disk = put_on_disk
        self._written = 0
        self._on_disk = 0  # of the writes
        self._waiting: list[tuple[int, Told]] = []
        self._is_busy = False
        self.failure: OSError | None = None

    @property
    def pending(self) -> bool:
        """True if something that is written is not on the disk yet."""
        return self._on_disk < self._written

    def note(self) -> None:
        """Counts a write."""
        self._written += 1

    def when_on_disk(self, tell: Told) -> None:
        """Calls `tell` once all that is written now is on the disk: with True, or with False if it
        could not be put there.
        """
        self._waiting.append((self._written, tell))
        if not self._is_busy:
            self._is_busy = True
            # not at once: the requests that arrived together share it
            asyncio.get_running_loop().call_soon(self._begin)

    async def settled(self) -> bool:
        """Waits until all that is written now is on the disk. False if that failed."""
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.when_on_disk(lambda works: None if told.done() else told.set_result(works))
        return await told

    def _begin(self) -> None:
        if self.failure is not None:
            self._tell()
            return
        running = asyncio.get_running_loop().run_in_executor(None, self._put_on_disk)
        running.add_done_callback(partial(self._end, self._written))

    def _end(self, written: int, running: asyncio.Future[None]) -> None:
        if running.cancelled():
            return
        failure = running.exception()
        if failure is None:
            self._on_disk = written
        elif isinstance(failure, OSError):
            self.failure = failure
        else:
            raise failure
        self._tell()

    def _tell(self) -> None:
        """Tells those whose writes are on the disk; all, if nothing will be put there any more."""
        waiting, self._waiting = self._waiting, []
        for written, tell in waiting:
            if written <= self._on_disk:
                tell(True)
            elif self.failure is not None:
                tell(False)
            else:
                self._waiting.append((written, tell))
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._begin()
