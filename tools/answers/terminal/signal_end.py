"""How a command that runs until it is interrupted ends in order."""

from __future__ import annotations

import signal

import anyio
from anyio.abc import TaskStatus

ASKED = (signal.SIGINT, signal.SIGTERM)


def signals_that_end() -> tuple[signal.Signals, ...]:
    """Returns the signals that ask for an end. SIGHUP comes when the terminal is closed; a command
    that was started with nohup goes on then.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ASKED
    return *ASKED, signal.SIGHUP


async def cancel_at_signal(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    """Cancels the scope at the first of these signals. Starts once it receives them."""
    with anyio.open_signal_receiver(*signals_that_end()) as received:
        task_status.started()
        async for _ in received:
            scope.cancel()
            return
