"""The orderly end of a command that runs until it is interrupted."""

from __future__ import annotations

import signal

import anyio
from anyio.abc import TaskStatus

ASKED = (signal.SIGINT, signal.SIGTERM)


def signals_that_end() -> tuple[signal.Signals, ...]:
    """Returns the signals that ask a command to end. SIGHUP, which a closed terminal sends, is left
    out for a command that was started with nohup.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ASKED
    return *ASKED, signal.SIGHUP


async def cancel_at_signal(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    """Cancels the scope at the first of these signals. It has started once it receives them."""
    with anyio.open_signal_receiver(*signals_that_end()) as received:
        task_status.started()
        async for _ in received:
            scope.cancel()
            return


async def cancel_at_first_signal(
    scope: anyio.CancelScope, *, task_status: TaskStatus[None]
) -> None:
    """Cancels the scope at the first of these signals. From its end on, however that comes, Ctrl-C
    is ignored, so that a second one does not interrupt the final output.
    """
    try:
        await cancel_at_signal(scope, task_status=task_status)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
