"""Ordered start, reverse stop, and what a crash means; all in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
import pytest
from anyio.abc import TaskStatus

from berth.actors.runtime.supervisor import Child, ChildEndedError, OnCrash, Run, Stage, Supervisor
from tests.kit.clock import VirtualClock
from tests.kit.tasks import started


def child(name: str, story: list[str]) -> Child:
    async def run(*, task_status: TaskStatus[None]) -> None:
        story.append(f"{name} begins")
        await anyio.lowlevel.checkpoint()
        story.append(f"{name} started")
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            story.append(f"{name} stops")

    return Child(name, run)


def failing(error: Exception | None, *, started: bool) -> Run:
    async def run(*, task_status: TaskStatus[None]) -> None:
        if started:
            task_status.started()
        await anyio.lowlevel.checkpoint()
        if error is not None:
            raise error

    return run


class NoJitter:
    def random(self) -> float:
        return 0.0


def supervise(*stages: Stage, clock: VirtualClock | None = None) -> Supervisor:
    return Supervisor(stages, clock or VirtualClock(), NoJitter())


async def test_starts_in_order_and_stops_in_reverse() -> None:
    story: list[str] = []
    async with started(supervise(child("a", story), child("b", story)).run):
        assert story == ["a begins", "a started", "b begins", "b started"]
    assert story[4:] == ["b stops", "a stops"]


async def test_children_of_a_stage_start_side_by_side() -> None:
    story: list[str] = []
    async with anyio.create_task_group() as group:
        stages = (child("a", story), (child("b", story), child("c", story)), child("d", story))
        await group.start(supervise(*stages).run)
        group.cancel_scope.cancel()
    assert story[:2] == ["a begins", "a started"]
    assert story[2:6] == ["b begins", "c begins", "b started", "c started"]
    assert story[6:8] == ["d begins", "d started"]
    assert story[8:] == ["d stops", "c stops", "b stops", "a stops"]


async def test_somebody_is_told_of_a_child_that_ignores_its_end() -> None:
    may_end = anyio.Event()

    async def stubborn(*, task_status: TaskStatus[None]) -> None:
        task_status.started()
        while not may_end.is_set():
            with suppress(anyio.get_cancelled_exc_class()):
                await may_end.wait()

    children = (Child("a", stubborn, stop_deadline=0.0),)
    async with started(Supervisor(children, VirtualClock(), NoJitter(), may_end.set).run):
        pass
    assert may_end.is_set()


async def test_a_fatal_crash_ends_a_stage_that_starts() -> None:
    story: list[str] = []

    async def never(*, task_status: TaskStatus[None]) -> None:
        await anyio.sleep_forever()

    crash = Child("b", failing(ZeroDivisionError("the cause"), started=False))
    with pytest.raises(ZeroDivisionError, match="the cause"):
        await supervise((Child("a", never), crash), child("c", story)).run()
    assert not story


@pytest.mark.parametrize("started", [True, False])
async def test_a_fatal_crash_ends_everything_and_is_raised_once(started: bool) -> None:
    story: list[str] = []
    with pytest.raises(ZeroDivisionError, match="the cause"):
        await supervise(
            child("a", story), Child("b", failing(ZeroDivisionError("the cause"), started=started))
        ).run()
    assert story[-1] == "a stops"


async def test_a_fatal_child_that_returns_ends_the_process() -> None:
    with pytest.raises(ChildEndedError, match="b"):
        await supervise(Child("b", failing(None, started=True))).run()


async def test_a_retried_child_is_run_again_after_a_backoff() -> None:
    clock, runs = VirtualClock(), []

    async def run(*, task_status: TaskStatus[None]) -> None:
        runs.append(clock.now())
        task_status.started()
        raise OSError("down")

    async with started(supervise(Child("watch", run, OnCrash.RETRY), clock=clock).run):
        await clock.advance(12)
    assert runs == [0, 0.5, 1.5, 3.5, 7.5]


async def test_a_child_that_cancels_itself_has_crashed() -> None:
    async def run(*, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await anyio.lowlevel.checkpoint()
        raise asyncio.CancelledError

    story: list[str] = []
    with anyio.fail_after(10), pytest.raises(ChildEndedError, match="b"):
        await supervise(child("a", story), Child("b", run)).run()
    assert story[-1] == "a stops"
