"""The garbage collector, set so that it never holds the scheduler up.

What the scheduler keeps (objects of the cluster, pods, nodes) is acyclic and freed by reference counts; cycles come
from tasks and exceptions, and are young. CPython's default looks at all that is kept again and again, which with
150,000 pods is a pause of a quarter of a second. Here a full collection looks at what came since the last one alone:
what has survived it is set aside for good (gc.freeze), and still freed by its count. So a pause is bounded by what is
allocated between two of them, whatever the size of the cluster.

CPython begins a collection when so many more objects were made than freed. An update frees as many as it makes: pods
could be replaced one by one, every one of them, until a burst lets the collector look at all of them at once. So there
is a full collection twice a second as well, which finds little to look at.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Literal

import anyio

# A young collection each 4,000 objects more, a middle one each 28,000, a full one each 84,000: about 10 ms.
THRESHOLDS = (4_000, 6, 2)
SECONDS = 0.5  # between two full collections


def tune_collector() -> None:
    """For the whole process; once is enough."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _set_aside not in gc.callbacks:
        gc.callbacks.append(_set_aside)


async def collecting(work: Callable[[], Awaitable[None]]) -> None:
    """Run until the work ends, with a full collection now and then; raises what it raises."""
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_now_and_then)
            await work()
            group.cancel_scope.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _now_and_then() -> None:
    while True:
        await anyio.sleep(SECONDS)
        gc.collect()


def _set_aside(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
