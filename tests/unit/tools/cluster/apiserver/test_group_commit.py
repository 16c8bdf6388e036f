"""Group commit: how many fsyncs the waiting writes share, and what a failure tells them."""

from __future__ import annotations

import asyncio
import errno
import threading

from berth.tools.cluster.apiserver.group_commit import GroupCommit


class SlowDisk:
    """A disk that puts on what is written once it is let."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)
        self.times = 0
        self.failure: OSError | None = None

    def put(self) -> None:
        self.times += 1
        self.begun.release()
        assert self.let.acquire(timeout=10)
        if self.failure is not None:
            raise self.failure


async def test_all_that_wait_share_one_fsync() -> None:
    disk = SlowDisk()
    commit = GroupCommit(disk.put)
    disk.let.release()
    waiting = []
    for _ in range(100):
        commit.note()
        waiting.append(asyncio.ensure_future(commit.settled()))
    assert commit.pending
    assert all(await asyncio.gather(*waiting))
    assert (disk.times, commit.pending) == (1, False)


async def test_what_is_written_during_an_fsync_waits_for_the_next() -> None:
    disk = SlowDisk()
    commit = GroupCommit(disk.put)
    commit.note()
    first = asyncio.ensure_future(commit.settled())
    await asyncio.to_thread(disk.begun.acquire)
    commit.note()
    later = [asyncio.ensure_future(commit.settled()) for _ in range(3)]
    disk.let.release()
    assert await first
    await asyncio.to_thread(disk.begun.acquire)
    assert not any(each.done() for each in later)
    assert commit.pending
    disk.let.release()
    assert all(await asyncio.gather(*later))
    assert (disk.times, commit.pending) == (2, False)


async def test_a_failure_is_told_to_all_that_wait_and_ever_after() -> None:
    disk = SlowDisk()
    disk.failure = OSError(errno.EIO, "broken")
    commit = GroupCommit(disk.put)
    commit.note()
    first = asyncio.ensure_future(commit.settled())
    await asyncio.to_thread(disk.begun.acquire)
    commit.note()
    second = asyncio.ensure_future(commit.settled())
    disk.let.release()
    assert not any(await asyncio.gather(first, second))
    disk.failure = None
    assert not await commit.settled()
    assert (disk.times, commit.failure and commit.failure.errno) == (1, errno.EIO)
