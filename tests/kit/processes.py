"""Processes of `berth`, and the lines that they print."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import IO

import anyio
from anyio.abc import Process

ROOT = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.01
_SERIAL = count()


class Berth:
    """A running `berth`. Its standard output and standard error go to one file."""

    def __init__(self, process: Process, output: Path) -> None:
        self._process = process
        self._output = output

    @property
    def pid(self) -> int:
        return self._process.pid

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
                ended = self._process.returncode is not None
                for line in self.output.splitlines(keepends=True):
                    if text in line and line.endswith("\n"):
                        return line.rstrip()
                assert not ended, f"ended without saying {text!r}: {self.output}"
                await anyio.sleep(POLL_SECONDS)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self, seconds: float = 10.0) -> int:
        """Waits until the process ends by itself and returns its exit code."""
        with anyio.fail_after(seconds):
            return await self._process.wait()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def berth(
    folder: Path,
    *arguments: str,
    site: Path | None = None,
    program: Sequence[str] = (sys.executable, "-m", "berth.actors"),
) -> AsyncIterator[Berth]:
    """Runs `berth` with these arguments, and kills it at the end of the block. `site` is a folder
    of packages to add to its path, and `program` the command that runs `berth`.
    """
    output = folder / f"berth-{next(_SERIAL)}.log"
    with output.open("wb") as file:
        process = await _open(file, (*program, *arguments), site)
        running = Berth(process, output)
        try:
            yield running
        finally:
            with anyio.CancelScope(shield=True):
                await running.kill()
                await process.aclose()


def install(
    site: Path, package: str, source: str, *, group: str = "berth.plugins", **entries: str
) -> None:
    """Writes a package of one module; `entries` maps names of entry points to their values."""
    info = site / f"{package}-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {package}\nVersion: 1\n")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    (site / f"{package}.py").write_text(source)


async def _open(file: IO[bytes], command: tuple[str, ...], site: Path | None) -> Process:
    path = {} if site is None else {"PYTHONPATH": str(site)}
    environment = {**os.environ, **path}
    return await anyio.open_process(
        command, stdin=None, stdout=file, stderr=file, cwd=ROOT, env=environment
    )


def free_port() -> int:
    """Returns a port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
