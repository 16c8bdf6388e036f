"""The bell: each ring ends one wait, and a task can wait again, even after it was cancelled."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from berth.actors.runtime.bell import Bell
from tests.kit.tasks import beside


async def test_each_ring_ends_one_wait() -> None:
    bell, woken = Bell(), 0

    async def wait_on() -> None:
        nonlocal woken
        while True:
            await bell.wait()
            woken += 1

    async with beside(wait_on):
        bell.ring()  # no task waits yet, so the ring is lost
        for rings in range(3):
            await anyio.wait_all_tasks_blocked()
            assert woken == rings
            bell.ring()
            bell.ring()  # for the same wait
        await anyio.wait_all_tasks_blocked()
        assert woken == 3


async def test_a_cancelled_wait_leaves_the_bell_usable() -> None:
    bell = Bell()
    with anyio.move_on_after(0) as scope:
        await bell.wait()
    assert scope.cancelled_caught
    async with anyio.create_task_group() as group:
        group.start_soon(bell.wait)
        await anyio.lowlevel.checkpoint()
        bell.ring()
