"""The snapshot is lent: nothing in it changes while a decision is made, however long that takes."""

from __future__ import annotations

import anyio
import msgspec

from actors.cache.actor import CacheActor
from actors.cache.state import CacheState
from actors.kube.core import Node, Pod
from actors.messages import (
    AssignedPodAdded,
    BindingMessage,
    CacheMessage,
    NodeAdded,
    NodeDeleted,
    Nominate,
    QueueMessage,
    ReturnSnapshot,
    TakeSnapshot,
)
from actors.model.pod_info import PodInfo
from actors.runtime.ask import ask
from actors.runtime.mailbox import Mailbox
from tests.kit.clock import VirtualClock


async def test_what_comes_while_the_snapshot_is_lent_waits_for_its_return() -> None:
    node = msgspec.convert({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": 10}}}, Node)
    pod = msgspec.convert({"metadata": {"name": "p", "uid": "p"}, "spec": {"nodeName": "n"}}, Pod)
    pending = msgspec.convert({"metadata": {"name": "q", "uid": "q"}}, Pod)
    cache: Mailbox[CacheMessage] = Mailbox("cache", None)
    queue: Mailbox[QueueMessage] = Mailbox("queue", None)
    binding: Mailbox[BindingMessage] = Mailbox("binding", None)
    state = CacheState()
    async with anyio.create_task_group() as group:
        await group.start(CacheActor(cache, state, VirtualClock(), queue, binding).run)
        await cache.tell(NodeAdded(node))
        snapshot = await ask(cache, TakeSnapshot)
        info = snapshot.columns.infos[snapshot.columns.row_of["n"]]
        assert info is not None
        for change in (AssignedPodAdded(pod), Nominate(PodInfo(pending), "n"), NodeDeleted(node)):
            await cache.tell(change)
        await anyio.wait_all_tasks_blocked()
        assert info.node is node
        assert not info.pods
        assert not snapshot.nominations
        await cache.tell(ReturnSnapshot())
        snapshot = await ask(cache, TakeSnapshot)
        assert not len(snapshot)
        assert snapshot.nominations
        group.cancel_scope.cancel()
    state.validate()
    for mailbox in (cache, queue, binding):
        mailbox.close()
