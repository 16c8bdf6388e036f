"""A context that is open in a task of its own.

A task group must be left by the task that entered it. Fixtures of pytest-asyncio and the asyncSetUp
of IsolatedAsyncioTestCase are left in another one.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self


class OwnTask:
    """Keeps a context open until any task leaves it. If it ends before, the task that entered it is
    cancelled if it is still there, and whoever leaves gets the error.
    """

    def __init__(self, context: AbstractAsyncContextManager[None]) -> None:
        self._context = context
        self._end = asyncio.Event()
        self._has_cancelled = False

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._owner = asyncio.current_task()
        started = loop.create_future()
        self._life = loop.create_task(self._live(started))
        try:
            await started
        except BaseException:
            self._life.cancel()
            await asyncio.wait((self._life,))
            raise
        self._life.add_done_callback(self._ended)
        return self

    async def _live(self, started: asyncio.Future[None]) -> None:
        try:
            async with self._context:
                started.set_result(None)
                await self._end.wait()
        except Exception as error:
            if started.done():
                raise
            started.set_exception(error)

    def _ended(self, _: asyncio.Task[None]) -> None:
        if not self._end.is_set() and self._owner is not None and not self._owner.done():
            self._has_cancelled = True
            self._owner.cancel()

    def check(self) -> None:
        """Raises what the context raised, if it has ended."""
        if self._life.done():
            self._life.result()

    async def sleep(self, seconds: float) -> None:
        """Sleeps as long as the context is open. Raises what it raised."""
        await asyncio.wait((self._life,), timeout=seconds)
        self.check()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        if self._has_cancelled and self._owner is not None:
            self._owner.uncancel()
        await asyncio.wait((self._life,))
        self._life.result()
