"""Pauses of the garbage collector are recorded by generation and window, and so are late timers."""

from __future__ import annotations

import asyncio
import gc
from itertools import count

import anyio
import pytest

from berth.tools.bench.measure import Stopwatch
from berth.tools.bench.pauses import PauseMeter
from tests.kit.tasks import beside
from tests.kit.virtual_loop import in_virtual_time


@in_virtual_time
async def test_pauses_and_stalls_of_each_window(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, held_up, reads = asyncio.get_running_loop(), 0.0, count()

    def now() -> float:
        """Returns the loop's time and its delay, plus a microsecond for each reading."""
        return loop.time() + held_up + next(reads) / 1e6

    monkeypatch.setattr("berth.tools.bench.pauses.time.perf_counter", now)
    meter = PauseMeter(Stopwatch(profile=False))
    with meter.listening():
        async with beside(meter.tick):
            cycle: list[object] = []
            cycle.append(cycle)
            del cycle
            gc.collect()
            await anyio.sleep(0.01)
            held_up = 0.1
            await anyio.sleep(0.01)
            first = (await meter.stop()).pauses
            await meter.start()
            await anyio.sleep(0.01)
            second = (await meter.stop()).pauses
    assert first is not None
    assert second is not None
    full = first.collections[2]
    assert (full.generation, full.number) == (2, 1)
    assert full.freed >= 1
    assert 0 < full.p99_ms == full.longest_ms
    assert 95 < first.latest_ms < 101
    assert second.collections[2].number == 0
    assert second.latest_ms < 1
    assert not any(getattr(callback, "__self__", None) is meter for callback in gc.callbacks)
