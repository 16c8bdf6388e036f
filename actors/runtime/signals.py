"""Signals: SIGTERM and SIGINT ask for an orderly end. Once asked, a second one has its plain effect again.

SIGUSR2 asks for a dump of what the scheduler knows, as with kube-scheduler.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import anyio
import structlog
from anyio.abc import TaskStatus

log = structlog.get_logger(__name__)
SIGNALS = (signal.SIGTERM, signal.SIGINT)
DUMP = signal.SIGUSR2


async def until_signalled(work: Callable[[], Awaitable[None]]) -> None:
    """Run until it ends or a signal cancels it; raises what it raises."""
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_on_signal, group.cancel_scope)
            await work()
            group.cancel_scope.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def each_signal(
    number: signal.Signals,
    work: Callable[[], Awaitable[None]],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Do the work each time the signal comes, until cancelled."""
    with anyio.open_signal_receiver(number) as received:
        task_status.started()
        async for _ in received:
            await work()


async def _cancel_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(*SIGNALS) as received:
        async for number in received:
            log.info("stopping", signal=signal.Signals(number).name)
            scope.cancel()
            return
