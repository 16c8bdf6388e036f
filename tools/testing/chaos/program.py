"""A process of berth that can be killed, stopped and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread

START_SECONDS = 180.0  # on a machine that is busy
LOOK_SECONDS = 0.05
BERTH = (sys.executable, "-m", "berth.actors")


class ProgramError(Exception):
    """A process did not start; the message has the end of its output."""


class ChaosProgram:
    """A process on a leash, so that it does not outlive this one. Its output is a file."""

    def __init__(self, name: str, folder: Path, arguments: tuple[str, ...], ready: str) -> None:
        """`ready` is what its output says once it has started."""
        self.name = name
        self._arguments = arguments
        self._ready = ready
        self._output = folder / f"{name}.log"
        self._leash: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self.starts = 0

    async def start(self) -> str:
        """Starts the process, and returns the line that says that it has. Raises ProgramError."""
        before = self._output.stat().st_size if self._output.exists() else 0
        await anyio.to_thread.run_sync(self._start)
        with anyio.move_on_after(START_SECONDS):
            while not self.has_ended:
                for line in self._said(before).splitlines():
                    if self._ready in line:
                        return line
                await anyio.sleep(LOOK_SECONDS)
        raise ProgramError(f"{self.name} did not start: {self._said(before)[-500:]}")

    def _start(self) -> None:
        self.kill()  # of one that has ended, what is left
        module = "berth.tools.testing.chaos.leash"
        leash = subprocess.Popen(  # noqa: S603 - this package
            [sys.executable, "-m", module, str(self._output), *BERTH, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert leash.stdout is not None
        number = leash.stdout.readline()
        if not number:
            leash.communicate()
            raise ProgramError(f"{self.name} did not start: its leash has failed")
        self._leash, self._pid = leash, int(number)
        self.starts += 1

    @property
    def has_ended(self) -> bool:
        """True if the process has ended by itself or was killed."""
        return self._leash is None or self._leash.poll() is not None

    def _said(self, since: int) -> str:
        if not self._output.exists():
            return ""
        with self._output.open("rb") as output:
            output.seek(since)
            return output.read().decode("utf-8", "replace")

    def count(self, text: str) -> int:
        """Returns how often its output has a text, over all its starts."""
        return self._said(0).count(text)

    def kill(self) -> None:
        """Kills the process at once."""
        self.send(signal.SIGKILL)
        if self._leash is not None:
            self._leash.wait()
            for pipe in (self._leash.stdin, self._leash.stdout):
                assert pipe is not None
                pipe.close()
            self._leash = None

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if not self.has_ended:
                os.kill(self._pid, number)
