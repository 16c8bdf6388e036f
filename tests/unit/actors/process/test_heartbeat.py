"""The heartbeat: another thread sees that a loop is blocked, and that one that runs is not."""

from __future__ import annotations

import threading

import anyio

from berth.actors.process.heartbeat import BEAT_SECONDS, Heartbeat
from tests.kit.tasks import started


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_without_a_heartbeat_no_loop_counts_as_blocked() -> None:
    time = Time()
    heartbeat = Heartbeat(time)
    time.now += 60
    assert heartbeat.still_for() == 0
    async with started(heartbeat.run):
        assert heartbeat.still_for() == 0
    time.now += 60
    assert heartbeat.still_for() == 0


async def test_another_thread_sees_a_loop_as_blocked_until_it_runs_again() -> None:
    time = Time()
    heartbeat, seen = Heartbeat(time), []
    async with started(heartbeat.run):
        time.now += 7 + BEAT_SECONDS
        asker = threading.Thread(target=lambda: seen.append(heartbeat.still_for()))
        asker.start()
        asker.join()  # which holds the loop up
        assert seen == [7]
        with anyio.fail_after(10):
            while heartbeat.still_for():
                await anyio.sleep(BEAT_SECONDS)
