"""The bell: what an idle task waits at until there is work. An event that is used again and again.

One task waits at a time; a ring that finds nobody waiting is lost, so who waits looks for work
first.
"""

from __future__ import annotations

import asyncio


class Bell:
    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Until the next ring."""
        assert self._waiter is None, "two wait at one bell"
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def ring(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
