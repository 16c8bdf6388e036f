"""The supervisor: starts children in order, stops them in reverse order, and decides what follows
from a crash.

The next child begins only when the one before it reports that it has started; children of one stage
start and end side by side. A FATAL child that crashes or returns ends the process; a RETRY child is
run again after a backoff. Stopping goes in reverse, with a deadline for each child, so that a child
can rely on those before it until it has ended. The exception that ended the process is raised once,
and not in a group.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from ..scheduling.framework.logger import get_logger
from .backoff import Backoff, Rng
from .clock import Clock

log = get_logger(__name__)

BACKOFF = Backoff(0.5, 30.0, 0.5)
CANCELLED = float("-inf")  # the effective deadline of a task that was cancelled


class Run(Protocol):
    def __call__(self, *, task_status: TaskStatus[None]) -> Awaitable[None]: ...


class OnCrash(enum.Enum):
    FATAL = "fatal"
    RETRY = "retry"


class Child(msgspec.Struct, frozen=True):
    """A supervised part. Its clean-up may take `stop_deadline` seconds; then it is abandoned."""

    name: str
    run: Run
    on_crash: OnCrash = OnCrash.FATAL
    stop_deadline: float = 5.0


Stage = Child | tuple[Child, ...]  # the children of a tuple start, and end, side by side
_Running = tuple[Child, anyio.CancelScope, anyio.Event]  # the event of its end


class ChildEndedError(Exception):
    """A FATAL child returned, although it should run until it is cancelled."""


class Supervisor:
    """The children in their stages. `on_abandoned` is called when one is abandoned: `run` returns
    only once that child has ended, so somebody has to end the process if it never does.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        clock: Clock,
        rng: Rng,
        on_abandoned: Callable[[], None] = lambda: None,
    ) -> None:
        self._stages = stages
        self._on_abandoned = on_abandoned
        self._clock = clock
        self._rng = rng
        self._failure: Exception | None = None
        self._has_ended = False
        self._awaited = anyio.Event()  # the start of the next children, or the end

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Starts every child, then runs until cancelled or until a FATAL child ends. Raises the
        exception that ended that child.
        """
        running: list[list[_Running]] = []
        async with anyio.create_task_group() as group:
            try:
                for stage in self._stages:
                    children = (stage,) if isinstance(stage, Child) else stage
                    if not await self._start(group, children, running):
                        break
                else:
                    task_status.started()
                if not self._has_ended:
                    self._awaited = anyio.Event()
                    await self._awaited.wait()
            finally:
                with anyio.CancelScope(shield=True):
                    for side_by_side in reversed(running):
                        await self._stop(side_by_side)
                group.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    async def _start(
        self,
        group: TaskGroup,
        children: Sequence[Child],
        running: list[list[_Running]],
    ) -> bool:
        """Runs the children of a stage and waits until they have started; False if a FATAL child
        ended meanwhile.
        """
        running.append([])
        starting = {child.name for child in children}
        self._awaited = anyio.Event()

        def note_start(name: str) -> None:
            if name in starting:
                starting.discard(name)
                log.debug("started", child=name)
                if not starting:
                    self._awaited.set()

        for child in children:
            # Shielded, so that a cancellation from outside reaches them through us, in order.
            scope, gone = anyio.CancelScope(shield=True), anyio.Event()
            running[-1].append((child, scope, gone))
            started = partial(note_start, child.name)
            group.start_soon(self._run_and_retry, child, scope, gone, started)
        if starting:
            await self._awaited.wait()
        return not self._has_ended

    async def _stop(self, side_by_side: Sequence[_Running]) -> None:
        """Ends the children of a stage, or abandons those that take too long."""
        for _, scope, _ in reversed(side_by_side):
            scope.cancel()
        for child, scope, gone in reversed(side_by_side):
            with anyio.move_on_after(child.stop_deadline) as deadline:
                await gone.wait()
            if deadline.cancelled_caught:
                scope.shield = False
                log.warning("abandoned", child=child.name, after_seconds=child.stop_deadline)
                self._on_abandoned()
            else:
                log.debug("stopped", child=child.name)

    async def _run_and_retry(
        self,
        child: Child,
        scope: anyio.CancelScope,
        gone: anyio.Event,
        started: Callable[[], None],
    ) -> None:
        """Runs a child until its scope is cancelled. After a crash, runs it again if it may be
        retried.
        """
        try:
            with scope:
                failures = 0
                while True:
                    failure = await self._run_once(child, started)
                    if child.on_crash is OnCrash.FATAL:
                        self._failure = self._failure or failure
                        self._has_ended = True
                        self._awaited.set()
                        return
                    failures += 1
                    delay = BACKOFF.delay(failures, self._rng)
                    log.warning(
                        "crashed",
                        child=child.name,
                        error=str(failure),
                        again_in_seconds=round(delay, 1),
                    )
                    await self._clock.sleep(delay)
        finally:
            gone.set()

    @staticmethod
    async def _run_once(child: Child, started: Callable[[], None]) -> Exception:
        """Runs a child to its end, and returns the exception that ended it."""
        try:
            await child.run(task_status=_StartStatus(started))
        except Exception as failure:
            return failure
        except asyncio.CancelledError:
            if anyio.current_effective_deadline() == CANCELLED:
                raise
            return ChildEndedError(f"{child.name}: cancelled by itself")
        return ChildEndedError(child.name)


class _StartStatus(TaskStatus[None]):
    """A task status that reports each start of a child, however often the child is run."""

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report

    def started(self, value: None = None) -> None:
        self._report()
