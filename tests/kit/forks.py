"""Processes of `berth` that need not import it, because they are forked from one that has.

They are processes like others: they have an environment, a folder and files of their own, and end
on signals. What only a start of Python's own shows is for the tests that name a program.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from tests.kit import fork_server
from tests.kit.fork_server import NUMBER

ROOT = Path(__file__).resolve().parents[2]


class Fork:
    """A running `berth`, with the names of subprocess.Popen."""

    def __init__(self, pid: int, answers: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._answers = answers

    def poll(self) -> int | None:
        """Returns the exit code; None while the process runs."""
        if self.returncode is None and select.select([self._answers], [], [], 0)[0]:
            self._ended()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for so many seconds until the process has ended. Returns its exit code."""
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("berth", timeout or 0.0)
            self._ended()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self) -> None:
        with self._answers:
            self.returncode = _number(self._answers)


def fork(
    *arguments: str,
    folder: Path,
    environment: Mapping[str, str],
    files: tuple[int, int, int],
    module: str = "berth.actors",
) -> Fork:
    """Runs `berth` with these arguments in a session of its own. The files are its standard input,
    output and error; `module` is another one to run in its place.
    """
    request = {
        "module": module,
        "arguments": arguments,
        "folder": str(folder),
        "environment": dict(environment),
    }
    ours, its_end = socket.socketpair()
    with its_end:
        line = f"{json.dumps(request)}\n".encode()
        sent = socket.send_fds(_server(), [line], [*files, its_end.fileno()])
        _server().sendall(line[sent:])
    return Fork(_number(ours), ours)


def ran(*arguments: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """Runs `berth` until it ends. Returns its exit code, its output and its errors."""
    with TemporaryFile() as nothing, TemporaryFile() as output, TemporaryFile() as errors:
        files = (nothing.fileno(), output.fileno(), errors.fileno())
        process = fork(*arguments, folder=folder, environment=environment, files=files)
        try:
            code = process.wait(60)
        finally:
            process.kill()
        for file in (output, errors):
            file.seek(0)
        return code, output.read().decode(), errors.read().decode()


def _number(answers: socket.socket) -> int:
    answer = answers.recv(NUMBER.size)
    assert answer, "the server has ended"
    number: int
    (number,) = NUMBER.unpack(answer)
    return number


@cache
def _server() -> socket.socket:
    """Returns the socket of this process's server, which ends with this process."""
    ours, its_end = socket.socketpair()
    with its_end:
        number = its_end.fileno()
        server = subprocess.Popen(
            [sys.executable, "-m", fork_server.__name__, str(number)], cwd=ROOT, pass_fds=[number]
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours
