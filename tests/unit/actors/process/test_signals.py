"""Signals that end a process: the first asks, and later ones have their default effect."""

from __future__ import annotations

import signal
import time

import anyio
import anyio.lowlevel
import pytest

from berth.actors.process.heartbeat import Heartbeat
from berth.actors.process.signals import until_signalled
from berth.actors.process.watchdog import ENDING, Watchdog


@pytest.mark.parametrize("number", ENDING)
async def test_the_first_signal_cancels_the_work_and_gives_the_signals_back(
    number: signal.Signals,
) -> None:
    watchdog = Watchdog(Heartbeat(time.monotonic), lambda _: {}, lambda _: None)
    left: list[object] = []

    async def work() -> None:
        signal.raise_signal(number)
        left.extend(map(signal.getsignal, ENDING))
        await anyio.sleep_forever()

    await until_signalled(work, watchdog)
    assert left == [signal.SIG_DFL, signal.default_int_handler]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


async def test_work_that_ends_by_itself_leaves_the_signals_as_they_were() -> None:
    watchdog = Watchdog(Heartbeat(time.monotonic), lambda _: {}, lambda _: None)
    await until_signalled(anyio.lowlevel.checkpoint, watchdog)
    assert [*map(signal.getsignal, ENDING)] == [signal.SIG_DFL, signal.default_int_handler]
