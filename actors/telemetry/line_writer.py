"""Writes the lines of the log in a thread of its own, so that a reader that hangs delays nobody.

Lines wait in a queue of at most MOST_BYTES. If it is full, or a line cannot be written, the line is
dropped and counted; the first lines that can be written are followed by one with their number.
"""

from __future__ import annotations

import os
import select
import threading

from ..scheduling.framework.logger import get_logger

log = get_logger(__name__)

MOST_BYTES = 4 << 20  # of lines that wait


class LineWriter:
    """A writer to a file descriptor, for all threads. `dropped` counts lost lines."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        self.dropped = 0
        self._unreported = 0
        self._descriptor = descriptor
        self._encoding = encoding
        self._lines: list[bytes] = []
        self._size = 0
        self._writing = False
        # Its lock is reentrant: a finalizer may log at any time, also within these methods.
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def write(self, line: str) -> None:
        data = f"{line}\n".encode(self._encoding, "backslashreplace")
        with self._changed:
            if self._lines and self._size + len(data) > MOST_BYTES:
                self._drop(1)
                return
            self._lines.append(data)
            self._size += len(data)
            self._changed.notify_all()

    def flush(self, seconds: float) -> None:
        """Waits until all lines are written or dropped, for at most this time."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines and not self._writing, seconds)

    def _drop(self, number: int) -> None:
        self.dropped += number
        self._unreported += number

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                lines, self._lines, self._size = self._lines, [], 0
                self._writing = True
            written = self._write_all(b"".join(lines))
            with self._changed:
                if written:
                    lost, self._unreported = self._unreported, 0
                else:
                    lost = 0
                    self._drop(len(lines))
            if lost:
                log.warning("log lines dropped", lines=lost)
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _write_all(self, data: bytes) -> bool:
        """Writes all bytes, however long that takes. Returns False if nobody reads, or the disk is
        full.
        """
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # another process has made the pipe so
                select.select([], [self._descriptor], [])
            except OSError:
                return False
        return True
