"""Work in a second thread: its end, its exception and its cancellation are the caller's."""

from __future__ import annotations

import threading
import time

import anyio
import pytest

from berth.actors.runtime.own_thread import in_daemon_thread, in_own_thread


async def test_it_goes_on_while_this_loop_is_blocked() -> None:
    done = threading.Event()

    async def work() -> None:
        assert threading.current_thread().name == "beside"
        await anyio.sleep(0.01)
        done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(in_own_thread, work, "beside")
        await anyio.sleep(0)  # noqa: ASYNC115
        assert done.wait(10)  # without giving this loop a turn


async def test_its_exception_is_raised_to_the_caller() -> None:
    async def work() -> None:
        await anyio.sleep(0)  # noqa: ASYNC115
        raise ZeroDivisionError("there")

    with pytest.raises(ZeroDivisionError, match="there"):
        await in_own_thread(work, "failing")


@pytest.mark.parametrize("begun", [False, True])
async def test_a_cancellation_waits_for_its_clean_up(begun: bool) -> None:
    story: list[str] = []

    async def work() -> None:
        try:
            story.append("begun")
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
            story.append("cleaned up")

    async with anyio.create_task_group() as group:
        group.start_soon(in_own_thread, work, "cancelled")
        if begun:
            while not story:
                await anyio.sleep(0.01)
        else:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert story in ([["begun", "cleaned up"]] if begun else [[], ["begun", "cleaned up"]])


@pytest.mark.full("wall clock")
async def test_a_clean_up_that_never_ends_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.actors.runtime.own_thread.STOP_SECONDS", 0.1)
    let_go, began = threading.Event(), time.monotonic()

    async def work() -> None:
        let_go.wait(20)

    async with anyio.create_task_group() as group:
        group.start_soon(in_own_thread, work, "stubborn")
        await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    assert time.monotonic() - began < 10
    let_go.set()


async def test_a_call_returns_or_raises_in_the_callers_loop() -> None:
    assert await in_daemon_thread(lambda: threading.current_thread().name, "beside") == "beside"
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 // 0, "beside")


async def test_a_call_that_does_not_return_is_left_alone() -> None:
    over = threading.Event()
    with anyio.move_on_after(0.01) as scope:
        await in_daemon_thread(lambda: over.wait(10), "beside")
    assert scope.cancelled_caught
    over.set()
