"""A pool of worker tasks for the jobs of an actor that have to wait.

A worker is made when one is needed, and kept for the next job, because a new task costs more than a
wake-up. A job wakes one worker, which wakes the next one if more jobs wait: so a job never waits
for a worker that is busy while there may be another, and one message wakes at most one task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup

from .bell import Bell

J = TypeVar("J")
J_co = TypeVar("J_co", covariant=True)


class Jobs(Protocol[J_co]):
    """The waiting jobs of an actor."""

    def take(self) -> J_co | None:
        """Removes the next job and returns it; None if no job can be done now."""
        ...

    def __len__(self) -> int: ...


class Line(deque[J]):
    """Jobs that are done in the order of their arrival."""

    def take(self) -> J | None:
        return self.popleft() if self else None


class Workers(Generic[J]):
    """At most `most` workers for the `jobs`; at most `most_idle` of them are kept while there is
    none.

    They run in `group`, which an exception of `do` ends.
    """

    def __init__(
        self,
        group: TaskGroup,
        jobs: Jobs[J],
        do: Callable[[J], Awaitable[None]],
        most: float,
        most_idle: float = float("inf"),
    ) -> None:
        self._group = group
        self._jobs = jobs
        self._do = do
        self._most = most
        self._most_idle = most_idle
        self._count = 0
        self._idle: list[Bell] = []  # of the workers that wait for a job
        self._woken = False  # a worker is about to look for a job
        self._ended: anyio.Event | None = None

    def wake(self) -> None:
        """Makes a worker look for a job. Call it for every new job."""
        if self._woken:
            return
        if self._idle:
            self._woken = True
            self._idle.pop().ring()
        elif self._count < self._most:
            self._woken = True
            self._count += 1
            self._group.start_soon(self._work)

    def start_no_more(self) -> None:
        """Starts no more workers. Whoever puts jobs back calls it before the group is cancelled:
        each worker would start the next one for the job that it put back. Binding and preemption
        put none back: there, the chain ends with the line.
        """
        self._most = 0

    async def finish(self) -> None:
        """Does the jobs that wait, and returns when all workers have ended."""
        self._most_idle = 0
        while self._idle:
            self._idle.pop().ring()
        if self._count:
            self._ended = anyio.Event()
            await self._ended.wait()

    async def _work(self) -> None:
        bell = Bell()
        try:
            while True:
                self._woken = False
                while (job := self._jobs.take()) is not None:
                    if self._jobs:
                        self.wake()
                    await self._do(job)
                if len(self._idle) >= self._most_idle:
                    return
                self._idle.append(bell)
                await bell.wait()
        finally:
            self._count -= 1
            if self._ended is not None and not self._count:
                self._ended.set()
