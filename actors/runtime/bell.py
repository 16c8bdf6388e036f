"""The bell: an idle task waits for its ring. It can ring any number of times.

One task waits at a time. A ring is lost if no task waits, so a task looks for work before it waits.
"""

from __future__ import annotations

import asyncio


class Bell:
    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Waits for the next ring."""
        assert self._waiter is None, "two wait at one bell"
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def ring(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
