"""An alarm that rings at the earliest of several times, which its owner keeps in a heap.

A task waits for a time only if none waits for that time or for an earlier one. So an alarm has
hardly more than one task, however many times there are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf

from anyio.abc import TaskGroup


class Alarm:
    """The alarm of an owner. Times are seconds of any clock.

    `now` returns the time, `next_time` the earliest time for which the owner waits, infinity for
    none. `ring` is called with a time that has come, and `sleep` waits for at least `least`
    seconds.
    """

    def __init__(
        self,
        group: TaskGroup,
        sleep: Callable[[float], Awaitable[None]],
        now: Callable[[], float],
        next_time: Callable[[], float],
        ring: Callable[[float], None],
        least: float = 0.0,
    ) -> None:
        self._group = group
        self._sleep = sleep
        self._now = now
        self._next_time = next_time
        self._ring = ring
        self._least = least
        self._awaited: set[float] = set()

    def set(self) -> None:
        """Sets the alarm to the earliest time. Call it when that time may have changed."""
        if (time := self._time_to_await()) < inf:
            self._group.start_soon(self._wait, time)

    def _time_to_await(self) -> float:
        """Returns the earliest time, to be waited for; infinity if a task already waits for it or
        for an earlier one.
        """
        time = self._next_time()
        if time >= min(self._awaited, default=inf):
            return inf
        self._awaited.add(time)
        return time

    async def _wait(self, time: float) -> None:
        """Waits for a time, rings, and continues with the next time."""
        while time < inf:
            await self._sleep(max(time - self._now(), self._least))
            self._awaited.discard(time)
            self._ring(time)
            time = self._time_to_await()
