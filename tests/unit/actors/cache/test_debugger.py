"""The cache debugger heals and counts a difference that two comparisons in a row find, in the cache
and in the queue.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from berth.actors.binding.state import PodsInBinding
from berth.actors.cache.actor import CacheActor
from berth.actors.cache.debugger import LOOK_SECONDS, SLICE, CacheDebugger
from berth.actors.cache.state import CacheState
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import AssignedPodAdded, Assume, NodeAdded
from berth.actors.messages.comparison import Difference
from berth.actors.messages.queue import Done, NextPod, PendingPodAdded
from berth.actors.queue.actor import QueueActor
from berth.actors.queue.queues import QueueRules
from berth.actors.queue.state import QueueState
from berth.actors.runtime.ask import ask
from berth.actors.scheduling.framework.status import SUCCESS
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit import structs
from tests.kit.clock import VirtualClock
from tests.kit.instruments import unread
from tests.kit.logs import capture_logs
from tests.kit.queue import place_of


def node(name: str) -> Node:
    return msgspec.convert({"metadata": {"name": name}}, Node)


def pod(name: str, where: str = "", *, scheduler: str = "ours", phase: str = "", **uid: str) -> Pod:
    return structs.pod(name, node=where, schedulerName=scheduler, status={"phase": phase}, **uid)


class Room:
    """A cache, a queue, their debugger, and the objects at the API server, which a test changes."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.mailboxes = Mailboxes()
        self.cache, self.queue = self.mailboxes.cache, self.mailboxes.queue
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.cache_state = CacheState()
        rules = QueueRules(lambda info, at: (-info.priority, at), lambda _: SUCCESS, {"ours": {}})
        self.queue_state = QueueState(rules)
        self.debugger = CacheDebugger(
            self.mailboxes,
            lambda: self.nodes,
            lambda: self.pods,
            {"ours"},
            self.clock,
            PodsInBinding().statistics,
        )

    def put(self, *items: Node | Pod) -> None:
        """Puts objects at the API server, without a message to the cache or the queue."""
        for item in items:
            if isinstance(item, Node):
                self.nodes[item.metadata.name] = item
            else:
                self.pods[f"ns/{item.metadata.name}"] = item

    async def pass_time(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.clock.settle()

    @property
    def healed(self) -> tuple[int, int]:
        return self.cache_state.statistics().healed, self.queue_state.statistics().healed


@asynccontextmanager
async def room() -> AsyncIterator[Room]:
    running = Room()
    async with anyio.create_task_group() as group:
        mailboxes, clock = running.mailboxes, running.clock
        await group.start(CacheActor(mailboxes, running.cache_state).run)
        await group.start(QueueActor(mailboxes, running.queue_state, clock, unread(clock)).run)
        await group.start(running.debugger.run)
        yield running
        group.cancel_scope.cancel()
    running.cache_state.validate()
    running.queue_state.validate()
    running.mailboxes.close()


async def test_a_difference_in_two_comparisons_is_healed_and_counted() -> None:
    with capture_logs() as logs:
        async with room() as running:
            running.put(node("n"), node("missed"), pod("p", "n"), pod("missed", "n"))
            for fact in (
                NodeAdded(running.nodes["n"]),
                AssignedPodAdded(running.pods["ns/p"]),
                AssignedPodAdded(pod("gone", "n")),
            ):
                running.cache.tell(fact)
            await running.pass_time(LOOK_SECONDS + 1)
            assert running.healed == (0, 0)
            assert await running.debugger.compare() == (
                Difference("missed", "Node", "missed"),
                Difference("missed", "Pod", "ns/missed"),
                Difference("redundant", "Pod", "ns/gone"),
            )
            await running.pass_time(LOOK_SECONDS)
            assert running.healed == (3, 0)
            assert await running.debugger.compare() == ()
            await running.pass_time(3 * LOOK_SECONDS)
            statistics = running.cache_state.statistics()
            assert (statistics.nodes, statistics.pods, statistics.healed) == (2, 2, 3)
            await running.debugger.dump()
    expected = ["missed", "ns/missed", "ns/gone"]
    assert [entry["key"] for entry in logs if entry["event"] == "healed"] == expected
    dumped = {
        entry["name"]: [p["key"] for p in entry["pods"]] for entry in logs if "requested" in entry
    }
    assert dumped == {"missed": [], "n": ["ns/p", "ns/missed"]}


async def test_a_pending_pod_that_was_lost_returns_to_the_queue() -> None:
    async with room() as running:
        running.put(
            pod("lost"),
            pod("bound", "n"),
            pod("theirs", scheduler="theirs"),
            pod("over", phase="Failed"),
        )
        running.put(pod("again", uid="second"), pod("queued"))
        for pending in (pod("again", uid="first"), pod("queued"), pod("bound"), pod("gone")):
            running.queue.tell(PendingPodAdded(pending))
        running.cache.tell(AssignedPodAdded(running.pods["ns/bound"]))
        assert await running.debugger.compare() == (
            Difference("missed", "PendingPod", "ns/lost"),
            Difference("redundant", "PendingPod", "ns/bound"),
            Difference("redundant", "PendingPod", "ns/gone"),
            Difference("stale", "PendingPod", "ns/again"),
        )
        await running.pass_time(2 * LOOK_SECONDS + 1)
        assert running.healed == (0, 4)
        assert await running.debugger.compare() == ()
        for name in ("lost", "again", "queued"):
            assert place_of(running.queue_state, f"ns/{name}") == "active"
        assert running.queue_state.statistics().active == 3


@pytest.mark.parametrize("done", [False, True])
async def test_a_pod_in_flight_is_not_a_difference(done: bool) -> None:
    """Neither while its node is chosen, nor while its binding is written and it is assumed."""
    async with room() as running:
        running.put(node("n"), pod("p"))
        running.cache.tell(NodeAdded(running.nodes["n"]))
        running.queue.tell(PendingPodAdded(running.pods["ns/p"]))
        queued = await ask(running.queue, NextPod)
        if done:
            running.cache.tell(Assume(PodInfo(queued.info.pod), "n"))
            running.queue.tell(Done(queued.info.uid))
        assert await running.debugger.compare() == ()
        await running.pass_time(2 * LOOK_SECONDS + 1)
        assert running.healed == (0, 0)


async def test_a_change_during_a_comparison_is_not_a_difference() -> None:
    """Each slice is compared as it is when it is sent. So the cache never differs from it here."""
    async with room() as running:
        running.put(*(pod(f"p{number}", "n") for number in range(3 * SLICE)))
        for item in running.pods.values():
            running.cache.tell(AssignedPodAdded(item))
        comparisons: list[tuple[Difference, ...]] = []
        async with anyio.create_task_group() as group:

            async def compare() -> None:
                comparisons.append(await running.debugger.compare())

            group.start_soon(compare)
            turns = 0
            while not comparisons:
                turns += 1
                for number in (turns, 3 * SLICE - turns, 3 * SLICE + turns):
                    changed = pod(f"p{number}", "n", uid=f"{number} in turn {turns}")
                    running.put(changed)
                    running.cache.tell(AssignedPodAdded(changed))
                await anyio.lowlevel.checkpoint()
        assert comparisons == [()]
        assert turns > 3


async def test_a_comparison_leaves_no_reference_to_a_pod() -> None:
    """A pod may have a megabyte, and may be gone long before the next comparison."""
    async with room() as running:
        running.put(pod("p"), pod("bound", "n"))
        pods = tuple(running.pods.values())
        before = list(map(sys.getrefcount, pods))
        assert len(await running.debugger.compare()) == 2
        assert list(map(sys.getrefcount, pods)) == before
