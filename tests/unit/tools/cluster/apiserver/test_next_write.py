"""Waits for the next write: those that are given up leave nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from berth.tools.cluster.apiserver.next_write import next_write
from tests.kit.documents import pod
from tests.kit.hollow_streams import POD
from tests.kit.stores import fresh_store


async def test_a_wait_ends_with_the_next_write() -> None:
    store = fresh_store()
    waits = [asyncio.create_task(next_write(store, POD)) for _ in range(2)]
    await asyncio.sleep(0)
    store.create(POD, pod("p"))
    async with asyncio.timeout(5):
        await asyncio.gather(*waits)


async def test_a_wait_that_is_given_up_is_forgotten() -> None:
    store = fresh_store()
    for _ in range(100):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await next_write(store, POD)
    assert len(store._shelf(POD).waiting) == 0
