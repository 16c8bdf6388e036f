"""Pauses are noted by generation and window, and so is a loop that comes late."""

from __future__ import annotations

import gc
import time

import anyio
from berth.tools.bench.measure import Stopwatch
from berth.tools.bench.pauses import PauseMeter


async def test_pauses_and_stalls_of_each_window() -> None:
    meter = PauseMeter(Stopwatch(profile=False))
    with meter.listening():
        async with anyio.create_task_group() as group:
            group.start_soon(meter.tick)
            cycle: list[object] = []
            cycle.append(cycle)
            del cycle
            gc.collect()
            await anyio.sleep(0.01)
            time.sleep(0.1)  # noqa: ASYNC251 - what is to be noticed
            await anyio.sleep(0.01)
            first = (await meter.stop()).pauses
            await meter.start()
            await anyio.sleep(0.01)
            second = (await meter.stop()).pauses
            group.cancel_scope.cancel()
    assert first is not None
    assert second is not None
    full = first.collections[2]
    assert (full.generation, full.number) == (2, 1)
    assert full.freed >= 1
    assert 0 < full.p99_ms == full.longest_ms
    assert 80 < first.latest_ms < 1000
    assert second.collections[2].number == 0
    assert second.latest_ms < first.latest_ms
    assert not any(getattr(callback, "__self__", None) is meter for callback in gc.callbacks)
