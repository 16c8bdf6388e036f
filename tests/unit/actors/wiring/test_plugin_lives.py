"""The life of a plugin: its start, its tasks with and without the lease, and its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import nan
from random import Random
from typing import ClassVar

import anyio
import pytest

from berth.actors.wiring import plugin_lives
from berth.actors.wiring.plugin_lives import CLOSE_SECONDS, START_SECONDS, PluginLives
from berth.plugin import SUCCESS, CycleState, Plugin, PluginScope, PodInfo, ReservePlugin, Status
from berth.testing import Cluster, pod, run_virtually
from tests.kit.clock import VirtualClock
from tests.kit.handle import NoApi
from tests.kit.logs import capture_logs
from tests.kit.tasks import started


class Told:
    """What happened, with the time of the virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.lines: list[tuple[float, str]] = []

    def add(self, what: str) -> None:
        self.lines.append((self.clock.now() - self.began, what))

    began = 0.0

    def take(self) -> list[tuple[float, str]]:
        lines, self.lines = self.lines, []
        return lines


class Alive(ReservePlugin):
    """A plugin with a life, which a test gives its start and its end."""

    name = "Alive"
    told: Told

    async def start(self, scope: PluginScope) -> None:
        self.told.add("start")
        scope.every(15, lambda: self.told.add("tick"))

    async def close(self) -> None:
        self.told.add("close")

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        return SUCCESS

    def unreserve(self, state: CycleState, info: PodInfo, node: str) -> None:
        pass


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def told(clock: VirtualClock) -> Told:
    return Told(clock)


def made(kind: type[Alive], told: Told) -> Alive:
    plugin = kind({}, NoApi())
    plugin.told = told
    told.began = told.clock.now()
    return plugin


def lives_of(*plugins: Plugin, clock: VirtualClock) -> PluginLives:
    return PluginLives(lambda: plugins, clock, Random(1))


async def test_a_plugin_is_started_its_tasks_run_and_it_is_closed(
    clock: VirtualClock, told: Told
) -> None:
    lives = lives_of(made(Alive, told), clock=clock)
    async with started(lives.run):
        await clock.settle()
        assert told.take() == [(0.0, "start"), (0.0, "tick")]
        await clock.advance(31)
        assert told.take() == [(15.0, "tick"), (30.0, "tick")]
    assert told.take() == [(31.0, "close")]
    await clock.advance(60)
    assert not told.take()


async def test_what_a_task_raises_is_told_with_the_plugins_name(
    clock: VirtualClock, told: Told
) -> None:
    class Failing(Alive):
        async def start(self, scope: PluginScope) -> None:
            scope.every(15, self.tick)
            scope.run(self.once)

        def tick(self) -> None:
            self.told.add("tick")
            raise OSError("no answer")

        async def once(self) -> None:
            self.told.add("once")
            if len([line for line in self.told.lines if line[1] == "once"]) < 3:
                raise SystemExit(3)

    with capture_logs() as lines:
        async with started(lives_of(made(Failing, told), clock=clock).run):
            await clock.advance(31)
    told_of = [what for _, what in told.take()]
    assert told_of == ["tick", "once", "once", "once", "tick", "tick", "close"]
    errors = {(each["plugin"], each["point"], each["error"]) for each in lines}
    assert errors == {
        ("Alive", "Task", "OSError: no answer"),
        ("Alive", "Task", "SystemExit: 3"),
    }


@pytest.mark.parametrize("seconds", [0, -1, 1e-9, nan])
async def test_a_function_without_a_rest_is_refused(
    seconds: float, clock: VirtualClock, told: Told
) -> None:
    class Busy(Alive):
        async def start(self, scope: PluginScope) -> None:
            scope.every(seconds, lambda: self.told.add("tick"))

    with capture_logs() as lines:
        async with started(lives_of(made(Busy, told), clock=clock).run):
            await clock.advance(1)
    error = f"ValueError: expected 0.01 seconds or more, got {seconds}"
    assert {line["error"] for line in lines} == {error}
    assert [what for _, what in told.take()] == ["close"]


async def test_a_start_that_fails_is_repeated_and_its_tasks_end(
    clock: VirtualClock, told: Told
) -> None:
    class Late(Alive):
        failures = 2

        async def start(self, scope: PluginScope) -> None:
            scope.every(1000, lambda: self.told.add("tick"))
            await anyio.lowlevel.checkpoint()
            self.failures -= 1
            if self.failures >= 0:
                raise OSError("not yet")
            self.told.add("started")

    with capture_logs() as lines:
        async with started(lives_of(made(Late, told), clock=clock).run):
            await clock.advance(10)
            assert [what for _, what in told.take()] == ["tick"] * 3 + ["started"]
            await clock.advance(1000)
            assert [what for _, what in told.take()] == ["tick"]
    assert [(each["plugin"], each["point"]) for each in lines] == [("Alive", "Start")] * 2


async def test_nobody_waits_for_ever_for_a_start_or_an_end(clock: VirtualClock, told: Told) -> None:
    class Hanging(Alive):
        async def start(self, scope: PluginScope) -> None:
            await anyio.sleep_forever()

    async def ready() -> None:
        async with started(lives.run):
            told.add("started")

    lives = lives_of(made(Hanging, told), clock=clock)
    with capture_logs() as lines:
        async with anyio.create_task_group() as group:
            group.start_soon(ready)
            await clock.advance(START_SECONDS + 1)
    assert told.take() == [(START_SECONDS, "started"), (START_SECONDS, "close")]
    assert [(each["plugin"], each["log_level"]) for each in lines] == [("Alive", "warning")]
    assert CLOSE_SECONDS < 10


async def test_a_plugin_that_cancels_its_own_task_has_failed(
    clock: VirtualClock, told: Told
) -> None:
    def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    class Cancelling(Alive):
        starts = 0

        async def start(self, scope: PluginScope) -> None:
            self.starts += 1
            if self.starts == 1:
                cancel()
                await anyio.sleep_forever()
            scope.every(15, self.tick)

        async def tick(self) -> None:
            self.told.add("tick")
            cancel()
            await anyio.sleep_forever()

        async def close(self) -> None:
            cancel()
            await anyio.sleep_forever()

    lives = lives_of(made(Cancelling, told), clock=clock)
    with capture_logs() as lines:
        async with started(lives.run):
            await clock.advance(20)
    points = [(each["point"], each["error"]) for each in lines]
    assert points == [(point, "CancelledError") for point in ("Start", "Task", "Task", "Close")]
    assert len(told.take()) == 2


async def test_tasks_that_need_the_lease_run_while_it_is_held(
    clock: VirtualClock, told: Told
) -> None:
    class Leading(Alive):
        async def start(self, scope: PluginScope) -> None:
            scope.every(10, lambda: self.told.add("leads"), leading=True)
            scope.run(self.until_cancelled, leading=True)

        async def until_cancelled(self) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                self.told.add("ended")

    lives = lives_of(made(Leading, told), clock=clock)
    async with started(lives.run):
        await clock.advance(30)
        assert not told.take()
        async with started(lives.lead):
            await clock.advance(11)
            assert told.take() == [(30.0, "leads"), (40.0, "leads")]
        assert told.take() == [(41.0, "ended")]
        await clock.advance(60)
        async with started(lives.lead):
            await clock.settle()
            assert told.take() == [(101.0, "leads")]
    assert told.take() == [(101.0, "ended"), (101.0, "close")]


async def test_a_swap_starts_the_new_ones_and_closes_those_that_are_gone(
    clock: VirtualClock, told: Told
) -> None:
    class Second(Alive):
        name = "Second"

        async def start(self, scope: PluginScope) -> None:
            self.told.add("second starts")

        async def close(self) -> None:
            self.told.add("second closes")

    first, second = made(Alive, told), made(Second, told)
    lives = lives_of(first, clock=clock)
    async with started(lives.run):
        await clock.settle()
        told.take()
        await lives.start([first, second])
        await lives.keep([second])
        assert [what for _, what in told.take()] == ["second starts", "close"]
        await clock.advance(60)
        assert not told.take()
    assert [what for _, what in told.take()] == ["second closes"]


async def test_a_plugin_whose_end_ignores_its_cancellation_is_left_to_itself(
    clock: VirtualClock, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_lives, "CLOSE_SECONDS", 0.0)
    may_end = anyio.Event()

    class Stubborn(Alive):
        async def close(self) -> None:
            while not may_end.is_set():
                with suppress(anyio.get_cancelled_exc_class()):
                    await may_end.wait()
            self.told.add("close")

    lives = lives_of(made(Stubborn, told), clock=clock)
    with capture_logs() as lines:
        async with started(lives.run):
            await lives.keep([])
            assert [line["event"] for line in lines] == [
                "plugin is not closed; it is left to itself"
            ]
            may_end.set()
    assert [what for _, what in told.take()] == ["start", "tick", "close"]


class InCluster(Alive):
    name = "InCluster"
    events: ClassVar[list[str]] = []

    async def start(self, scope: PluginScope) -> None:
        self.events.append("start")
        scope.every(15, lambda: self.events.append("tick"), leading=True)

    async def close(self) -> None:
        self.events.append("close")

    def reserve(self, state: CycleState, info: PodInfo, node: str) -> Status:
        self.events.append("reserve")
        return SUCCESS


def test_plugins_live_in_a_cluster() -> None:
    InCluster.events.clear()

    async def story() -> None:
        async with Cluster(pod("a"), nodes=1, plugins=[InCluster]) as cluster:
            await cluster.run_for(16)
            assert cluster.pod("a").placed_on("node-1")

    run_virtually(story)
    assert sorted(InCluster.events[:3]) == ["reserve", "start", "tick"]
    assert InCluster.events[0] == "start"
    assert InCluster.events[3:] == ["tick", "close"]
