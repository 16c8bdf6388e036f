"""Signals: SIGTERM and SIGINT ask for an orderly end. After the first one, they have their default
effect again.

SIGUSR2 asks for a dump of the cache, as with kube-scheduler. SIGHUP asks for the configuration file
to be read again.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import anyio
from anyio.abc import TaskStatus

from ..runtime.exceptions import ungrouped
from ..scheduling.framework.logger import get_logger
from .watchdog import ENDING, Watchdog

log = get_logger(__name__)
DUMP = signal.SIGUSR2
RELOAD = signal.SIGHUP


async def until_signalled(work: Callable[[], Awaitable[None]], watchdog: Watchdog) -> None:
    """Runs `work` until it ends or a signal cancels it, and raises its exception. The watchdog ends
    the process if `work` does not end.
    """
    with ungrouped(), watchdog.watching():
        # The heartbeat goes on until the very end, as the work may get stuck while it stops.
        async with anyio.create_task_group() as beating:
            await beating.start(watchdog.heartbeat.run)
            async with anyio.create_task_group() as group:
                await group.start(_cancel_on_signal, group.cancel_scope, watchdog)
                await work()
                group.cancel_scope.cancel()
            beating.cancel_scope.cancel()


async def each_signal(
    number: signal.Signals,
    work: Callable[[], Awaitable[None]],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Runs `work` each time the signal arrives, until cancelled."""
    with anyio.open_signal_receiver(number) as received:
        task_status.started()
        async for _ in received:
            await work()


async def _cancel_on_signal(
    scope: anyio.CancelScope,
    watchdog: Watchdog,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    received: list[signal.Signals] = []
    woken = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end(number: signal.Signals) -> None:
        watchdog.asked_to_end()
        received.append(number)
        loop.call_soon_threadsafe(woken.set)

    with _first_signal(end):
        task_status.started()
        await woken.wait()
        watchdog.acted_upon()
        log.info("stopping", signal=received[0].name)
        scope.cancel()


@contextmanager
def _first_signal(end: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Calls `end` for the first of the signals ENDING, whatever the main thread is doing then.
    Later signals have their default effect.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        restore()
        end(signal.Signals(number))

    def restore() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    for number in ENDING:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
