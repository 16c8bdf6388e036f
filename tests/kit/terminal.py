"""A `berth` on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kit.forks import Fork, fork
from tests.kit.processes import ROOT


class Terminal:
    """The terminal's other end. `said` is all that came from the process, with its control
    sequences.
    """

    def __init__(self, process: Fork, end: int) -> None:
        self.process = process
        self.said = ""
        self._end = end

    def press(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def says(self, text: str, seconds: float = 60.0) -> None:
        """Waits until the process has said a text; what it said before is forgotten."""
        until = time.monotonic() + seconds
        while text not in self.said:
            assert time.monotonic() < until, f"did not say {text!r}: {self.said[-3000:]}"
            if not self._read():
                assert text in self.said, f"ended without saying {text!r}: {self.said[-3000:]}"
                break
        self.said = self.said[self.said.index(text) + len(text) :]

    def close(self) -> None:
        """Closes the terminal, which the process is told by SIGHUP."""
        if self._end >= 0:
            os.close(self._end)
            self._end = -1
        self.process.send_signal(signal.SIGHUP)

    def ends(self, seconds: float = 60.0) -> int:
        """Waits until the process ends, and returns its exit code."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._read():
            pass
        return self.process.wait(seconds)

    def _read(self) -> bool:
        """Reads for a moment; returns False once nothing more can come."""
        if not select.select([self._end], [], [], 0.1)[0]:
            if self.process.poll() is None:
                return True
            if not select.select([self._end], [], [], 0)[0]:  # perhaps it has said something since
                return False
        try:
            said = os.read(self._end, 1 << 16)
        except OSError:  # Linux says so when the last process has closed the terminal
            return False
        self.said += said.decode(errors="replace")
        return bool(said)


@contextmanager
def terminal(*arguments: str, size: tuple[int, int] = (80, 24)) -> Iterator[Terminal]:
    """Runs `berth` with these arguments on a terminal of so many columns and lines, and kills it at
    the end of the block.
    """
    ours, its_end = pty.openpty()
    fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    files = (its_end, its_end, its_end)
    process = fork(*arguments, folder=ROOT, environment=environment, files=files)
    os.close(its_end)
    opened = Terminal(process, ours)
    try:
        yield opened
    finally:
        process.kill()
        process.wait()
        opened.close()
