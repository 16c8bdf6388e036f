"""Work for the event loop of another thread, asked for from this one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Elsewhere(Protocol):
    """Runs work where it belongs, and returns its result or raises its exception."""

    async def __call__(self, work: Callable[[], Awaitable[T]]) -> T: ...


class OtherLoop:
    """Elsewhere is the event loop that runs where this is made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def __call__(self, work: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await work()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))


async def here(work: Callable[[], Awaitable[T]]) -> T:
    """Elsewhere is this very event loop."""
    return await work()
