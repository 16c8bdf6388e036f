"""Nothing in the snapshot changes while it is lent, however long a decision takes."""

from __future__ import annotations

from itertools import pairwise

import anyio
import msgspec
import pytest

from berth.actors.cache.actor import SLICE, CacheActor
from berth.actors.cache.state import CacheState
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import (
    AssignedPodAdded,
    CountCached,
    NodeAdded,
    NodeDeleted,
    Nominate,
    ReturnSnapshot,
    TakeSnapshot,
)
from berth.actors.runtime.ask import ask
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit.tasks import started

NODES = 8 * SLICE


async def test_changes_wait_while_the_snapshot_is_lent() -> None:
    node = msgspec.convert(
        {"metadata": {"name": "n"}, "status": {"allocatable": {"pods": 10}}}, Node
    )
    pod = msgspec.convert({"metadata": {"name": "p", "uid": "p"}, "spec": {"nodeName": "n"}}, Pod)
    pending = msgspec.convert({"metadata": {"name": "q", "uid": "q"}}, Pod)
    mailboxes = Mailboxes()
    cache = mailboxes.cache
    state = CacheState()
    async with started(CacheActor(mailboxes, state).run):
        cache.tell(NodeAdded(node))
        snapshot = await ask(cache, TakeSnapshot)
        info = snapshot.columns.infos[snapshot.columns.row_of["n"]]
        assert info is not None
        for change in (AssignedPodAdded(pod), Nominate(PodInfo(pending), "n"), NodeDeleted(node)):
            cache.tell(change)
        await anyio.wait_all_tasks_blocked()
        assert info.node is node
        assert not info.pods
        assert not snapshot.nominations
        assert (await ask(cache, CountCached)).pods == 0, "metrics need not wait for a decision"
        cache.tell(ReturnSnapshot())
        snapshot = await ask(cache, TakeSnapshot)
        assert not len(snapshot)
        assert snapshot.nominations
        assert (await ask(cache, CountCached)).pods == 1
    state.validate()
    mailboxes.close()


async def caught_up(state: CacheState, given_back: bool) -> tuple[list[int], bool]:
    """Take a snapshot of many new nodes. Returns how many nodes it was behind in each turn, and
    whether it was lent.
    """
    mailboxes = Mailboxes()
    cache = mailboxes.cache
    behind: list[int] = []
    lent = False
    async with anyio.create_task_group() as group:
        await group.start(CacheActor(mailboxes, state).run)
        for number in range(NODES):
            cache.tell(NodeAdded(msgspec.convert({"metadata": {"name": f"n{number}"}}, Node)))

        async def take() -> None:
            nonlocal lent
            snapshot = await ask(cache, TakeSnapshot)
            lent = len(snapshot) == NODES + 1

        group.start_soon(take)
        while not lent and (not behind or behind[-1]) and len(behind) < NODES:
            await anyio.lowlevel.checkpoint()
            behind.append(state.behind)
            if len(behind) == 3:
                cache.tell(NodeAdded(msgspec.convert({"metadata": {"name": "late"}}, Node)))
                if given_back:
                    cache.tell(ReturnSnapshot())
        group.cancel_scope.cancel()
    state.validate()
    mailboxes.close()
    return behind, lent


async def test_a_large_update_takes_several_turns_and_includes_changes_that_come_meanwhile() -> (
    None
):
    behind, lent = await caught_up(CacheState(), given_back=False)
    assert lent
    assert max(before - after for before, after in pairwise(behind)) <= SLICE + 1
    assert len(set(behind)) >= NODES // SLICE


async def test_nothing_is_lent_after_the_snapshot_was_returned_early() -> None:
    behind, lent = await caught_up(CacheState(), given_back=True)
    assert not lent
    assert behind[-1] > NODES - 4 * SLICE, "the update goes on without a receiver"


async def test_a_snapshot_that_nobody_takes_lets_go_of_what_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("berth.actors.cache.actor.SECONDS", 0.01)
    mailboxes, state = Mailboxes(), CacheState()
    async with started(CacheActor(mailboxes, state).run):
        for number in range(NODES):
            mailboxes.cache.tell(
                NodeAdded(msgspec.convert({"metadata": {"name": f"n{number}"}}, Node))
            )
        await anyio.wait_all_tasks_blocked()
        assert state.behind == NODES
        with anyio.fail_after(60):
            while state.behind:
                await anyio.sleep(0.01)
    state.validate()
    mailboxes.close()


async def test_what_changes_during_an_idle_update_waits_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("berth.actors.cache.actor.SECONDS", 0)
    mailboxes, state = Mailboxes(), CacheState()
    async with started(CacheActor(mailboxes, state).run):
        for number in range(20):
            node = msgspec.convert({"metadata": {"name": f"n{number}"}}, Node)
            mailboxes.cache.tell(NodeAdded(node))
            await anyio.lowlevel.checkpoint()
            monkeypatch.setattr("berth.actors.cache.actor.SECONDS", 3600)
        assert state.behind > 10
    mailboxes.close()
