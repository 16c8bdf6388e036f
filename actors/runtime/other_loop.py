"""Runs work in the event loop of another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class OtherLoop:
    """The event loop in which this object was made. A call from any other thread runs work in it.

    It returns the work's result or raises its exception.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def __call__(self, work: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await work()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))
