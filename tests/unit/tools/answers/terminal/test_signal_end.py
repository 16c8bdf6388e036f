"""The signals that end a command."""

from __future__ import annotations

import signal
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from berth.tools.answers.terminal.signal_end import (
    cancel_at_first_signal,
    cancel_at_signal,
    signals_that_end,
)


def test_a_command_under_nohup_goes_on_when_its_terminal_is_closed() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert {*signals_that_end()} == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert {*signals_that_end()} == {signal.SIGINT, signal.SIGTERM}
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("by_signal", [True, False])
@pytest.mark.parametrize(
    ("ending", "then"),
    [(cancel_at_first_signal, signal.SIG_IGN), (cancel_at_signal, signal.default_int_handler)],
)
async def test_ctrl_c_while_the_end_is_printed(
    ending: Callable[..., Coroutine[Any, Any, Any]], then: object, by_signal: bool
) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                await group.start(ending, group.cancel_scope)
                if by_signal:
                    signal.raise_signal(signal.SIGTERM)
                else:
                    group.cancel_scope.cancel()
        assert signal.getsignal(signal.SIGINT) == then
    finally:
        signal.signal(signal.SIGINT, before)
