"""Measures the delays of a scheduler: pauses of the garbage collector, and a late event loop.

A meter in the scheduler's process. The first window is open from the beginning, so that the start
of the scheduler is measured as well. A pause lasts from the start of a collection to the end of all
the work that the collection causes.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import anyio
import msgspec

from .measure import Collections, Effort, Meter, Pauses, nearest_rank

GENERATIONS = 3
TICK_SECONDS = 0.002


class PauseMeter:
    """A meter that adds the pauses of its process to the measurement of another meter."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._began = 0.0
        self._pauses: list[list[float]] = [[] for _ in range(GENERATIONS)]
        self._freed = [0] * GENERATIONS
        self._late: list[float] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        gc.callbacks.append(self._note)
        try:
            yield
        finally:
            gc.callbacks.remove(self._note)

    async def tick(self) -> None:
        """Sleeps for short times, and records how late each wake-up is."""
        while True:
            due = time.perf_counter() + TICK_SECONDS
            await anyio.sleep(TICK_SECONDS)
            self._late.append(time.perf_counter() - due)

    async def start(self) -> None:
        self._forget()
        await self._meter.start()

    async def stop(self) -> Effort:
        collections = tuple(
            Collections(
                generation,
                len(pauses),
                freed,
                _milliseconds(pauses, 99),
                _milliseconds(pauses, 100),
            )
            for generation, (pauses, freed) in enumerate(
                zip(self._pauses, self._freed, strict=True)
            )
        )
        late = self._late
        measured = Pauses(collections, _milliseconds(late, 99), _milliseconds(late, 100))
        self._forget()
        return msgspec.structs.replace(await self._meter.stop(), pauses=measured)

    def _forget(self) -> None:
        self._pauses = [[] for _ in range(GENERATIONS)]
        self._freed = [0] * GENERATIONS
        self._late = []

    def _note(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._began = now
        else:
            self._pauses[info["generation"]].append(now - self._began)
            self._freed[info["generation"]] += info["collected"]


def _milliseconds(seconds: list[float], percent: int) -> float:
    return nearest_rank(sorted(seconds), percent) * 1e3 if seconds else 0.0
