"""The processes of a measurement: the worker with the scheduler, the embedded API server."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import IO, TypeVar

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from berth.config.versions import CURRENT

from .measure import CheckResult, Effort
from .worker import (
    Answer,
    CheckDecisions,
    DecisionsChecked,
    MeasuringStopped,
    NotRun,
    Order,
    Ready,
    StartMeasuring,
    StopMeasuring,
    WorkerProgress,
)

LONGEST_LINE = 16 << 20
STOP_SECONDS = 10.0
LOG_LINES = 5
_ANSWERS = msgspec.json.Decoder(Answer)
T = TypeVar("T")


class ProcessEndedError(Exception):
    """A process of the measurement has ended; the message has the last lines of its log."""


@asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[tuple[Process, IO[bytes]]]:
    """Starts Python with these arguments; yields the process and its log file."""
    with tempfile.TemporaryFile() as log:
        process = await anyio.open_process([sys.executable, "-P", *arguments], stderr=log)
        try:
            yield process, log
        finally:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.terminate()
                    with anyio.move_on_after(STOP_SECONDS):
                        await process.wait()
                if process.returncode is None:
                    process.kill()
                await process.aclose()


class Worker:
    """A worker process, and the requests that it answers."""

    def __init__(self, process: Process, log: IO[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._log = log
        self._input = process.stdin
        self._output = BufferedByteReceiveStream(process.stdout)

    async def send(self, order: Order) -> None:
        try:
            await self._input.send(msgspec.json.encode(order) + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise self._ended_error() from None

    async def answer(self) -> Answer:
        """Reads the next answer. Raises ProcessEndedError."""
        try:
            answer: Answer = _ANSWERS.decode(await self._output.receive_until(b"\n", LONGEST_LINE))
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
            raise self._ended_error() from None
        return answer

    async def wait(self) -> None:
        """Waits until the process ends, which is an error."""
        await self._process.wait()
        raise self._ended_error()

    async def start(self) -> None:
        await self.send(StartMeasuring())
        await self._expect(Ready)

    async def stop(self) -> Effort:
        await self.send(StopMeasuring())
        return (await self._expect(MeasuringStopped)).effort

    async def check(self, report: Callable[[str, int, int], None]) -> list[CheckResult]:
        """Stops the scheduler and repeats the recorded decisions."""
        await self.send(CheckDecisions())
        while True:
            match await self.answer():
                case WorkerProgress(step, done, total):
                    report(step, done, total)
                case DecisionsChecked(windows):
                    return windows
                case other:
                    raise ProcessEndedError(
                        f"unexpected answer from the scheduler's process: {other}"
                    )

    async def ready(self) -> None:
        await self._expect(Ready)

    async def _expect(self, kind: type[T]) -> T:
        match await self.answer():
            case NotRun(reason):
                raise ProcessEndedError(reason)
            case WorkerProgress() as other:
                raise ProcessEndedError(f"unexpected answer from the scheduler's process: {other}")
            case answer:
                assert isinstance(answer, kind)
                return answer

    def _ended_error(self) -> ProcessEndedError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()[-LOG_LINES:]
        return ProcessEndedError("\n".join(("the scheduler's process has ended:", *lines)))


@asynccontextmanager
async def worker(order: Order) -> AsyncIterator[Worker]:
    """Starts a worker with this order."""
    async with _process("-m", "berth.tools.bench.worker") as (process, log):
        started = Worker(process, log)
        await started.send(order)
        yield started


@asynccontextmanager
async def api_server(version: str = CURRENT.text) -> AsyncIterator[str]:
    """Starts an API server as `berth apiserver --version` does; yields its URL.

    Raises ProcessEndedError if it does not start.
    """
    command = ("-m", "berth.actors", "apiserver", "--port", "0", "--version", version)
    async with _process(*command) as (process, log):
        assert process.stdout is not None
        try:
            line = await BufferedByteReceiveStream(process.stdout).receive_until(
                b"\n", LONGEST_LINE
            )
        except (anyio.IncompleteRead, anyio.EndOfStream):
            log.seek(0)
            raise ProcessEndedError(
                f"the API server did not start: {log.read().decode(errors='replace')}"
            ) from None
        yield line.decode().split()[-1]
