"""The garbage collector, set so that it hardly holds the scheduler up, and leaves no garbage behind
for good.

What the scheduler keeps (objects of the cluster, pods, nodes) is acyclic and freed by reference
counts; cycles come from tasks and exceptions. CPython's default looks at all that is kept again and
again, which with 150,000 pods is a pause of a quarter of a second. Here a full collection looks at
what came lately: once that is more than MOST, all that has survived is set aside (gc.freeze), and
still freed by its count. So a pause is bounded by MOST and what is made between two collections,
whatever the size of the cluster, and a small cluster is never set aside at all.

CPython begins a collection when so many more objects were made than freed. An update frees as many
as it makes: pods could be replaced one by one, every one of them, until a burst lets the collector
look at all of them at once. So there are collections by the clock as well, of what is young twice a
second.

A cycle that was alive when it was set aside and is garbage since is found by a thorough collection
only, which looks at everything. It is the one long pause, a fifth of a second with 150,000 pods:
once a day, when the process has little to do, and only where something was set aside since the last
one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio

# A young collection each 4,000 objects more, a middle one each 24,000, a full one each 48,000:
# about 10 ms.
THRESHOLDS = (4_000, 5, 1)
MOST = 20_000  # objects that full collections look at again: about 5 ms
SECONDS = 0.5  # between two collections of what is young
FULL_EVERY = 20  # of them a full one follows
THOROUGH_SECONDS = 86_400.0  # between two thorough collections, at least
IDLE_SHARE = 0.2  # of a processor: the process has little to do
PATIENCE = 6  # times as long is it put off for a process that always has much to do


def _is_much() -> bool:
    """Whether full collections have enough to look at."""
    return len(gc.get_objects(generation=2)) > MOST


class _SetAside:
    """What is done after each full collection; `times` is how often there was enough to set
    aside.
    """

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2 and _is_much():
            gc.freeze()
            self.times += 1


_set_aside = _SetAside()


def tune_collector() -> None:
    """For the whole process; once is enough."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _set_aside not in gc.callbacks:
        gc.callbacks.append(_set_aside)


async def collecting(work: Callable[[], Awaitable[None]]) -> None:
    """Run until the work ends, with collections now and then; raises what it raises."""
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_now_and_then)
            await work()
            group.cancel_scope.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


class Rounds:
    """Which collection is due; told of the time and the processor time that were used so far, in
    seconds.
    """

    def __init__(self, now: float, used: float) -> None:
        self._now, self._used = now, used
        self._ticks = 0
        self._thorough_at = now
        self._aside = _set_aside.times

    def tick(self, now: float, used: float) -> None:
        """Collect what is due; to be called every SECONDS."""
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
            if self._ticks % FULL_EVERY == 0 or _is_much():
                gc.collect()

    def _collect_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._aside = _set_aside.times


async def _now_and_then() -> None:
    rounds = Rounds(time.monotonic(), time.process_time())
    while True:
        await anyio.sleep(SECONDS)
        rounds.tick(time.monotonic(), time.process_time())
