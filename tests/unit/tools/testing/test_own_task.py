"""Clusters in real time that another task leaves than the one that entered them."""

from __future__ import annotations

import asyncio
import unittest

import pytest
from anyio.abc import TaskStatus

from berth.testing import Cluster, pod


def test_a_cluster_is_left_in_another_task() -> None:
    cluster = Cluster(nodes=1)
    with asyncio.Runner() as runner:
        runner.run(cluster.__aenter__())
        runner.run(cluster.add(pod("a")))
        runner.run(cluster.until(cluster.pod("a").running, "20s"))
        runner.run(cluster.__aexit__(None, None, None))


def test_a_test_case_enters_a_cluster_as_it_sets_up() -> None:
    class Case(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self) -> None:
            self.cluster = await self.enterAsyncContext(Cluster(nodes=1))

        async def test_placed(self) -> None:
            await self.cluster.add(pod("a"))
            await self.cluster.until(self.cluster.pod("a").placed_on, "20s")

    result = unittest.TestResult()
    Case("test_placed").run(result)
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Makes the controllers fail once this is set."""
    full = asyncio.Event()

    async def fail(*_: object, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await full.wait()
        raise OSError("the disk is full")

    monkeypatch.setattr("berth.tools.testing.parts.run_controllers", fail)
    return full


def test_a_part_that_fails_ends_the_wait_of_another_task(failing: asyncio.Event) -> None:
    cluster = Cluster(nodes=1)
    with asyncio.Runner() as runner:
        runner.run(cluster.__aenter__())
        failing.set()
        with pytest.raises(ExceptionGroup) as raised:
            runner.run(cluster.run_for("1h"))
        assert raised.group_contains(OSError, match="the disk is full")
        with pytest.raises(ExceptionGroup):
            runner.run(cluster.__aexit__(None, None, None))


def test_a_part_that_fails_ends_the_block_of_its_cluster(failing: asyncio.Event) -> None:
    async def story() -> None:
        async with Cluster(nodes=1):
            failing.set()
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(story())
    assert raised.group_contains(OSError, match="the disk is full")


def test_a_block_that_raises_or_is_cancelled_ends_its_cluster() -> None:
    async def story() -> None:
        with pytest.raises(LookupError, match="mine"):
            async with Cluster():
                raise LookupError("mine")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), Cluster():
                await asyncio.Event().wait()

    asyncio.run(story())
