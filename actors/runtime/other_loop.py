"""Runs work in the event loop of another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Elsewhere(Protocol):
    """Runs work in its own event loop, and returns its result or raises its exception."""

    async def __call__(self, work: Callable[[], Awaitable[T]]) -> T: ...


class OtherLoop:
    """Runs work in the event loop in which this object was made, from any other thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def __call__(self, work: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await work()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))


async def here(work: Callable[[], Awaitable[T]]) -> T:
    """Runs the work in the running event loop."""
    return await work()
