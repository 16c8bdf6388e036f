"""Late children: children that are started while others run."""

from __future__ import annotations

import anyio
from anyio.abc import TaskStatus

from ..runtime.backoff import Rng
from ..runtime.clock import Clock
from ..runtime.supervisor import Child, Supervisor


class LateChildren:
    """A child that runs further children."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._waiting: list[tuple[tuple[Child, ...], anyio.Event]] = []
        self._woken = anyio.Event()

    async def start(self, children: tuple[Child, ...]) -> None:
        """Starts the children side by side, and returns once they have started."""
        if not children:
            return
        started = anyio.Event()
        self._waiting.append((children, started))
        self._woken.set()
        await started.wait()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Runs the children until cancelled."""
        async with anyio.create_task_group() as group:
            task_status.started()
            while True:
                await self._woken.wait()
                self._woken = anyio.Event()
                waiting, self._waiting = self._waiting, []
                for children, started in waiting:
                    group.start_soon(self._run, children, started)

    async def _run(self, children: tuple[Child, ...], started: anyio.Event) -> None:
        async with anyio.create_task_group() as group:
            await group.start(Supervisor((children,), self._clock, self._rng).run)
            started.set()
