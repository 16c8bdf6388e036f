"""The alarm: it rings at each time once, with few tasks."""

from __future__ import annotations

from math import inf

import anyio

from berth.tools.cluster.controllers.alarm import Alarm
from berth.tools.testing.virtual_time import LoopClock
from tests.kit.virtual_loop import in_virtual_time


class Owner:
    """Keeps times, and notes when the alarm rang and for how long it slept."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.times: list[float] = []
        self.rang: list[float] = []
        self.sleeps = 0

    def next_time(self) -> float:
        return min(self.times, default=inf)

    def ring(self, time: float) -> None:
        assert self.clock.now() >= time
        self.rang.append(self.clock.now())
        self.times = [each for each in self.times if each > self.clock.now()]

    async def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        await self.clock.sleep(seconds)


@in_virtual_time
async def test_it_rings_at_each_time_though_it_was_set_in_any_order() -> None:
    owner = Owner()
    async with anyio.create_task_group() as group:
        alarm = Alarm(group, owner.sleep, owner.clock.now, owner.next_time, owner.ring)
        alarm.set()  # no time yet
        for time in (30.0, 10.0, 20.0, 40.0):
            owner.times.append(time)
            alarm.set()
            alarm.set()
    assert owner.rang == [10.0, 20.0, 30.0, 40.0]
    assert owner.sleeps == 4


@in_virtual_time
async def test_a_time_that_is_over_is_rung_for_after_the_least_wait() -> None:
    owner = Owner()
    async with anyio.create_task_group() as group:
        alarm = Alarm(group, owner.sleep, owner.clock.now, owner.next_time, owner.ring, 0.5)
        owner.times.append(-3.0)
        alarm.set()
    assert owner.rang == [0.5]
