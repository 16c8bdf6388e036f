"""Processes of `berth`, and the lines that they print."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count, cycle
from pathlib import Path

import anyio

from tests.kit.forks import Fork, fork

ROOT = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.01
_SERIAL = count()
# The system gives clients ports from 32,768 on. Each process of tests begins somewhere else.
_PORTS = cycle(range(20_000 + os.getpid() * 101 % 10_000, 32_000))


class Berth:
    """A running `berth`. Its standard output and standard error go to one file."""

    def __init__(self, process: Fork | subprocess.Popen[bytes], output: Path) -> None:
        self._process = process
        self._output = output

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self._output.read_text()

    def count(self, text: str) -> int:
        """Returns the number of lines that contain this text."""
        return sum(text in line for line in self.output.splitlines())

    def attempts(self, result: str) -> list[str]:
        """Returns the pods of the attempts with this result, in order. The log must be in JSON."""
        lines = (
            line for line in self.output.splitlines() if line.startswith("{") and line.endswith("}")
        )
        records = [record for record in map(json.loads, lines) if "result" in record]
        ended = (record["pod"] for record in records if record["result"] == result)
        return ["{namespace}/{name}".format_map(pod) for pod in ended]

    async def says(self, text: str, seconds: float = 60.0) -> str:
        """Waits for a line that contains this text and returns it. Fails the test if the process
        ends first.
        """
        with anyio.fail_after(seconds):
            while True:
                ended = self._process.poll() is not None
                for line in self.output.splitlines(keepends=True):
                    if text in line and line.endswith("\n"):
                        return line.rstrip()
                assert not ended, f"ended without saying {text!r}: {self.output}"
                await anyio.sleep(POLL_SECONDS)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self, seconds: float = 60.0) -> int:
        """Waits until the process ends by itself and returns its exit code."""
        with anyio.fail_after(seconds):
            while (code := self._process.poll()) is None:
                await anyio.sleep(POLL_SECONDS)
        return code

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@asynccontextmanager
async def berth(
    folder: Path,
    *arguments: str,
    site: Path | None = None,
    program: Sequence[str] = (),
    errors: Path | None = None,
) -> AsyncIterator[Berth]:
    """Runs `berth` with these arguments, and kills it at the end of the block. `site` is a folder
    of packages to add to its path, `program` a command to run instead of a fork of `berth`, and
    `errors` a file for its standard error.
    """
    output = folder / f"berth-{next(_SERIAL)}.log"
    path = {} if site is None else {"PYTHONPATH": str(site)}
    environment = {**os.environ, **path}
    process = _started(program, arguments, environment, output, errors or output)
    running = Berth(process, output)
    try:
        yield running
    finally:
        running.kill()


def _started(
    program: Sequence[str],
    arguments: Sequence[str],
    environment: dict[str, str],
    output: Path,
    errors: Path,
) -> Fork | subprocess.Popen[bytes]:
    with Path(os.devnull).open() as nothing, output.open("ab") as said, errors.open("ab") as wrong:
        files = (nothing.fileno(), said.fileno(), wrong.fileno())
        if not program:
            return fork(*arguments, folder=ROOT, environment=environment, files=files)
        command = (*program, *arguments)
        stdin, stdout, stderr = files
        return subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=ROOT, env=environment
        )


def install(
    site: Path,
    package: str,
    source: str,
    *,
    group: str = "berth.plugins",
    version: str = "1",
    **entries: str,
) -> None:
    """Writes a package of one module; `entries` maps names of entry points to their values."""
    info = site / f"{package}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {package}\nVersion: {version}\n")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    (site / f"{package}.py").write_text(source)


def free_port() -> int:
    """Returns a port of 127.0.0.1 that is free, and is given to nobody else before it is used: not
    to a client by the system, nor to another process of the tests.
    """
    while True:
        port = next(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
