"""Threads beside the main event loop: one with its own loop, for work that must go on while the
main loop is blocked, and one for a call that may never return.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import anyio

T = TypeVar("T")
STOP_SECONDS = 5.0


async def in_daemon_thread(call: Callable[[], T], name: str) -> T:
    """Makes a call in another thread, and returns its result or raises its exception.

    A cancellation leaves the thread alone: it ends with the process.
    """
    return await asyncio.wrap_future(_started(call, name))


def _started(call: Callable[[], T], name: str) -> Future[T]:
    """Starts a thread that makes the call."""
    ended: Future[T] = Future()
    ended.set_running_or_notify_cancel()  # so that cancelling the wait cannot cancel the future

    def run() -> None:
        try:
            result = call()
        except BaseException as failure:  # raised in the thread that waits
            ended.set_exception(failure)
        else:
            ended.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return ended


async def in_own_thread(work: Callable[[], Awaitable[None]], name: str) -> None:
    """Runs `work` in an event loop in another thread, and raises its exception. A cancellation is
    passed on to it.

    Its clean-up may take five seconds. If it takes longer, it ends with the process.
    """
    running = _CancellableWork(work)
    ended = _started(lambda: anyio.run(running.run), name)
    try:
        await asyncio.wrap_future(ended)
    finally:
        if not ended.done():
            running.cancel()
            with anyio.move_on_after(STOP_SECONDS, shield=True):
                await asyncio.wrap_future(ended)


class _CancellableWork:
    """Work that another thread may cancel at any time, even before it has begun."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._cancelled = False
        self._cancel: Callable[[], object] | None = None

    async def run(self) -> None:
        with anyio.CancelScope() as scope:
            with self._lock:
                self._cancel = partial(
                    asyncio.get_running_loop().call_soon_threadsafe, scope.cancel
                )
                if self._cancelled:
                    scope.cancel()
            try:
                await self._work()
            finally:
                with self._lock:
                    self._cancel = None  # its event loop is about to close

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            if self._cancel is not None:
                self._cancel()
