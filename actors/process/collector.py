"""Settings of the garbage collector: short pauses, and all garbage freed.

The objects that the scheduler keeps (of the cluster, pods, nodes) form no cycles and are freed by
their reference counts; cycles come from tasks and exceptions. By default CPython visits all kept
objects again and again, which takes a quarter of a second with 150,000 pods. Here a full collection
visits recent objects only: once there are more than MOST of them, the survivors are set aside
(gc.freeze), and are still freed by their counts. So a pause is bounded by MOST and by the objects
made between two collections, whatever the size of the cluster. In a small cluster nothing is ever
set aside.

CPython starts a collection when a certain number more objects were made than freed. An update frees
as many as it makes: all pods could be replaced, one by one, until a burst starts a collection that
visits all of them at once. Therefore young objects are also collected twice a second.

A cycle that becomes garbage after it was set aside is only found by a thorough collection, which
visits everything. That is the one long pause, a fifth of a second with 150,000 pods. It happens
once a day, when the process has little to do, and only if something was set aside since the last
one.

What was freed goes back to the system every ten seconds, if the process has little to do. By
itself, glibc keeps most of it: of large pods that are gone, a hundred megabytes.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio

from ..runtime.exceptions import ungrouped
from ..runtime.race import race

# A young collection for every 4,000 objects more, a middle one for every 24,000, and a full one for
# every 48,000: about 10 ms.
THRESHOLDS = (4_000, 5, 1)
MOST = 20_000  # objects that full collections visit again: about 5 ms
SECONDS = 0.5  # between two collections of young objects
FULL_EVERY = 20  # young collections are followed by a full one
THOROUGH_SECONDS = 86_400.0  # between two thorough collections, at least
IDLE_SHARE = 0.2  # of a processor: a process that uses less has little to do
PATIENCE = 6  # A process that always has much to do may put it off this many times as long.


def _visits_too_many() -> bool:
    """True if full collections visit more than MOST objects."""
    return len(gc.get_objects(generation=2)) > MOST


def _trim() -> None:
    """Returns free memory to the system, if the C library is glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class _SetAsideCallback:
    """A callback after each full collection; `times` counts how often it set objects aside."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2 and _visits_too_many():
            gc.freeze()
            self.times += 1


_set_aside = _SetAsideCallback()


def tune_collector() -> None:
    """Sets up the collector of this process. A second call has no effect."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _set_aside not in gc.callbacks:
        gc.callbacks.append(_set_aside)


async def collecting(work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work` to its end, with regular collections, and raises its exception."""
    with ungrouped():
        await race(_measure_rounds, work)


class Rounds:
    """The rounds of the garbage collector: which collection is due, by the time and the processor
    time so far, in seconds.
    """

    def __init__(self, now: float, used: float) -> None:
        self._now, self._used = now, used
        self._ticks = 0
        self._thorough_at = now
        self._aside = _set_aside.times

    def tick(self, now: float, used: float) -> None:
        """Runs the collection that is due, if one is. Call it every SECONDS."""
        idle = used - self._used < IDLE_SHARE * (now - self._now)
        self._now, self._used = now, used
        self._ticks += 1
        since = now - self._thorough_at
        if since >= THOROUGH_SECONDS and (idle or since >= PATIENCE * THOROUGH_SECONDS):
            self._thorough_at = now
            if _set_aside.times > self._aside:
                self._collect_all()
        else:
            gc.collect(1)
            if self._ticks % FULL_EVERY == 0 or _visits_too_many():
                gc.collect()
            if self._ticks % FULL_EVERY == 0 and idle:
                _trim()

    def _collect_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._aside = _set_aside.times


async def _measure_rounds() -> None:
    rounds = Rounds(time.monotonic(), time.process_time())
    while True:
        await anyio.sleep(SECONDS)
        rounds.tick(time.monotonic(), time.process_time())
