"""An event loop in virtual time, for parts that talk by calls or through sockets in one process.

When no task can run and no socket has data, the loop's time jumps to its next timer. A pause or a
time-out of any length costs a few real milliseconds and takes its exact length in the loop's time,
however busy the machine is.

Both ends of every socket must be in the same loop. The loop waits for a thread only if
`run_in_executor` started it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

import anyio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)  # the time of day at 0 seconds
# The time that data may take through the kernel, from one socket of the loop to another.
TRANSIT_SECONDS = 0.001
# Real seconds without any progress, after which the loop ends with an error.
MOST_SECONDS = 60.0


class _Selector(selectors.DefaultSelector):
    def __init__(self, transit: float) -> None:
        super().__init__()
        self.now = 0.0
        self.in_threads = 0
        self._transit = transit

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0) if self._transit or self.in_threads else []
        if timeout is None or self.in_threads:
            ready = super().select(MOST_SECONDS)
            assert ready, "no task can run, and no timer or thread will wake one"
            return ready
        ready = super().select(self._transit) if self._transit else []
        if not ready:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, which starts at 0 seconds.

    `transit` is the time that data may take through the kernel; 0 if no part uses sockets.
    """

    def __init__(self, transit: float = TRANSIT_SECONDS) -> None:
        self._virtual = _Selector(transit)
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def stand_still(self, seconds: float) -> None:
        """Lets time pass in which no task of the loop runs."""
        self._virtual.now += seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        self._virtual.in_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Waits without a limit: the limit of a runner would be over in virtual time at once."""
        await super().shutdown_default_executor()

    def _thread_ended(self, _: object) -> None:
        self._virtual.in_threads -= 1


class LoopClock:
    """The time of a loop, by default the running one, as a clock for actors and clients."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop

    def now(self) -> float:
        return (self._loop or asyncio.get_running_loop()).time()

    def wall(self) -> datetime:
        return BEGAN + timedelta(seconds=self.now())

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))


def virtual_loop() -> VirtualLoop:
    """Returns a loop in virtual time whose parts do not talk through sockets."""
    return VirtualLoop(transit=0.0)


def run_virtually(
    story: Callable[[], Coroutine[Any, Any, T]],
    loop: Callable[[], asyncio.AbstractEventLoop] = virtual_loop,
) -> T:
    """Runs a story in the time of a loop."""
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(story())
