"""The loop in virtual time: timers do not wait, and sockets come before timers."""

from __future__ import annotations

import asyncio
import time

import anyio
import pytest

from berth.tools.testing.virtual_time import LoopClock
from tests.kit.virtual_loop import in_virtual_time


@in_virtual_time
async def test_time_jumps_to_the_next_timer() -> None:
    clock, woken = LoopClock(), []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.now()))

    async with anyio.create_task_group() as group:
        for seconds in (3600.0, 0.5, 86_400.0):
            group.start_soon(sleep, seconds)
    assert woken == [(0.5, 0.5), (3600.0, 3600.0), (86_400.0, 86_400.0)]
    assert clock.wall().isoformat() == "2026-01-02T00:00:00+00:00"


@in_virtual_time
async def test_a_time_out_ends_what_hangs() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(600):
            await anyio.sleep_forever()
    assert anyio.current_time() == 600


@in_virtual_time
async def test_data_in_a_socket_comes_before_any_timer() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1000):
            writer.write(piece)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        async with asyncio.timeout(0.001):
            for _ in range(100):
                writer.write(b"ping")
                assert await reader.readexactly(4) == b"ping"
        writer.close()
        await writer.wait_closed()
    assert anyio.current_time() == 0


@in_virtual_time
async def test_time_stands_still_while_a_thread_works() -> None:
    running = asyncio.get_running_loop()
    async with asyncio.timeout(0.001):
        await running.run_in_executor(
            None, time.sleep, 0.05
        )  # longer than the loop waits before a jump
    assert anyio.current_time() == 0
