"""The worker pool: how many workers there are, and what a stop does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import TaskGroup

from berth.actors.runtime.workers import Line, Workers


class Jobs(Line[str]):
    """Notes which jobs have begun and ended. A job ends when a test lets it, by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.tasks: set[asyncio.Task[None] | None] = set()
        self._gates: dict[str, anyio.Event] = {}

    async def do(self, job: str) -> None:
        self.begun.append(job)
        self.tasks.add(asyncio.current_task())
        await self._gates.setdefault(job, anyio.Event()).wait()
        self.ended.append(job)

    def let_end(self, *jobs: str) -> None:
        for job in jobs:
            self._gates.setdefault(job, anyio.Event()).set()


@asynccontextmanager
async def pool(
    most: float = 2, most_idle: float = 2
) -> AsyncIterator[tuple[Jobs, Workers[str], TaskGroup]]:
    jobs = Jobs()
    async with anyio.create_task_group() as group:
        yield jobs, Workers(group, jobs, jobs.do, most, most_idle), group
        group.cancel_scope.cancel()


async def test_one_wake_is_enough_for_several_jobs() -> None:
    async with pool() as (jobs, workers, _):
        jobs.extend("abc")
        workers.wake()
        await anyio.wait_all_tasks_blocked()
        assert jobs.begun == ["a", "b"], "two workers at most"
        jobs.let_end("a")
        await anyio.wait_all_tasks_blocked()
        assert (jobs.begun, jobs.ended) == (["a", "b", "c"], ["a"])


async def test_an_idle_worker_does_the_next_job() -> None:
    async with pool() as (jobs, workers, _):
        for job in "abc":
            jobs.append(job)
            jobs.let_end(job)
            workers.wake()
            await anyio.wait_all_tasks_blocked()
        assert jobs.ended == ["a", "b", "c"]
        assert len(jobs.tasks) == 1


async def test_no_more_workers_are_kept_than_may_be_idle() -> None:
    async with pool(most=5, most_idle=1) as (jobs, workers, _):
        for together in ("abc", "def"):
            jobs.extend(together)
            workers.wake()
            await anyio.wait_all_tasks_blocked()
            assert jobs.begun[-3:] == list(together)
            jobs.let_end(*together)
            await anyio.wait_all_tasks_blocked()
        assert len(jobs.tasks) == 5, "one of the first three did a second job"


async def test_a_wake_without_a_job_does_no_harm() -> None:
    async with pool() as (jobs, workers, _):
        for _round in range(3):
            workers.wake()
            workers.wake()
            await anyio.wait_all_tasks_blocked()
        jobs.append("a")
        workers.wake()
        await anyio.wait_all_tasks_blocked()
        assert jobs.begun == ["a"]


async def test_finish_waits_for_all_jobs_and_for_the_workers() -> None:
    async with pool() as (jobs, workers, group):
        await workers.finish()
        jobs.extend("abc")
        workers.wake()
        await anyio.wait_all_tasks_blocked()
        finished = anyio.Event()

        async def finish() -> None:
            await workers.finish()
            finished.set()

        group.start_soon(finish)
        jobs.let_end("a", "b")
        await anyio.wait_all_tasks_blocked()
        assert not finished.is_set()
        jobs.let_end("c")
        await anyio.wait_all_tasks_blocked()
        assert finished.is_set()


async def test_a_job_that_fails_ends_the_group() -> None:
    async def fail(job: str) -> None:
        raise ZeroDivisionError(job)

    async def work() -> None:
        async with anyio.create_task_group() as group:
            Workers(group, Line("a"), fail, most=1).wake()

    with pytest.raises(ExceptionGroup) as failure:
        await work()
    assert failure.group_contains(ZeroDivisionError, match="a")
