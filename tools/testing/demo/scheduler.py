"""The demo's side of its scheduler: it starts the process, questions it and ends it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import click
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.text import TextReceiveStream

from berth.actors.attempt.attempts_page import AttemptsPage
from berth.actors.wiring.glance import Glance

from ...answers.feed.story import NOTHING_RECORDED
from ...answers.whatif.answer_process import GONE

LONGEST_LINE = 64 << 20
T = TypeVar("T")


class Start(msgspec.Struct, frozen=True):
    """The order to start: the kubeconfig of the API server, the configuration as JSON, the minor
    version of Kubernetes to decide as, each of its gates and changes with its value, and the port
    of 127.0.0.1 for the scheduler's own pages.

    The pages are open to everybody; port 0 serves none. With `reload_plugins`, changed files of
    plugins are taken into use.
    """

    kubeconfig: str
    configuration: dict[str, Any]
    minor: int
    feature_gates: dict[str, bool]
    secure_port: int
    reload_plugins: bool = False


class SchedulerEndedError(Exception):
    """The scheduler's process has ended by itself."""


class Scheduler:
    """A scheduler in a process of its own. It answers one question at a time, once it is told to
    start and has synced. All methods raise SchedulerEndedError.
    """

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._questions = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)
        self._log = process.stderr
        self._started = anyio.Event()
        self._turn = anyio.Lock()

    @classmethod
    @asynccontextmanager
    async def started(cls) -> AsyncIterator[Scheduler]:
        """Starts the process for the block."""
        command = [sys.executable, "-P", "-m", "berth.tools.testing.demo.scheduler_process"]
        # In a session of its own: Ctrl-C is for the demo.
        async with await anyio.open_process(command, start_new_session=True) as process:
            scheduler = cls(process)
            try:
                yield scheduler
            finally:
                scheduler._end()

    async def run(self, start: Start) -> None:
        """Schedules until cancelled, which ends the process. The log goes to standard error."""
        try:
            await self._questions.send(msgspec.json.encode(start) + b"\n")
        except GONE:
            raise await self._ended_error() from None
        self._started.set()
        try:
            async for text in TextReceiveStream(self._log, errors="replace"):
                click.echo(text, nl=False, err=True)
        except BaseException:
            self._end()  # A question under way would wait for its answer.
            raise
        raise await self._ended_error()

    async def glance(self) -> Glance:
        return await self._ask(None, Glance)

    async def recorded(self, key: str) -> AttemptsPage:
        """Returns the recorded attempts of a pod (namespace/name)."""
        return await self._ask(key, AttemptsPage)

    async def _ask(self, key: str | None, answer: type[T]) -> T:
        await self._started.wait()
        async with self._turn:
            try:
                # A question that is given up would leave its answer to the next one.
                with anyio.CancelScope(shield=True):
                    await self._questions.send(msgspec.json.encode(key) + b"\n")
                    line = await self._answers.receive_until(b"\n", LONGEST_LINE)
            except GONE:
                await anyio.lowlevel.checkpoint()  # Whoever has given up asks no longer.
                raise await self._ended_error() from None
        return msgspec.json.decode(line, type=answer)

    def _end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    async def _ended_error(self) -> SchedulerEndedError:
        code = await self._process.wait()
        return SchedulerEndedError(f"the scheduler's process has ended with exit code {code}")


class NoScheduler:
    """In place of a Scheduler where somebody else runs one, which cannot be asked."""

    async def run(self, start: Start) -> None:
        """Starts nothing."""

    async def glance(self) -> None:
        return None

    async def recorded(self, key: str) -> AttemptsPage:
        return NOTHING_RECORDED
