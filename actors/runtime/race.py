"""A race of tasks, of which only the first to end matters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


async def race(*runners: Callable[[], Awaitable[object]]) -> None:
    """Runs all of them until the first returns, and cancels the rest."""
    async with anyio.create_task_group() as group:

        async def run(runner: Callable[[], Awaitable[object]]) -> None:
            await runner()
            group.cancel_scope.cancel()

        *beside, last = runners
        for runner in beside:
            group.start_soon(run, runner)
        await run(last)
