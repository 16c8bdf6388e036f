"""The cache debugger: what differs for two looks is put right and counted, once."""

from __future__ import annotations

import anyio
import msgspec
import structlog

from actors.cache.actor import CacheActor
from actors.cache.debugger import LOOK_SECONDS, CacheDebugger
from actors.cache.state import CacheState
from actors.kube.core import Node, Pod
from actors.messages import AssignedPodAdded, BindingMessage, CacheMessage, Difference, NodeAdded, QueueMessage
from actors.runtime.mailbox import Mailbox
from tests.kit.clock import VirtualClock


def node(name: str) -> Node:
    return msgspec.convert({"metadata": {"name": name}}, Node)


def pod(name: str, where: str) -> Pod:
    document = {"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": {"nodeName": where}}
    return msgspec.convert(document, Pod)


async def test_what_differs_for_two_looks_is_healed_and_counted() -> None:
    cache: Mailbox[CacheMessage] = Mailbox("cache", None)
    queue: Mailbox[QueueMessage] = Mailbox("queue", None)
    binding: Mailbox[BindingMessage] = Mailbox("binding", None)
    clock = VirtualClock()
    actor = CacheActor(cache, CacheState(), clock, queue, binding)
    nodes, pods = {"n": node("n"), "missed": node("missed")}, {"ns/p": pod("p", "n"), "ns/missed": pod("missed", "n")}
    debugger = CacheDebugger(cache, lambda: nodes, lambda: pods, clock, {"cache": lambda: actor.statistics().cache})
    with structlog.testing.capture_logs() as logs:
        async with anyio.create_task_group() as group:
            await group.start(actor.run)
            for fact in (NodeAdded(nodes["n"]), AssignedPodAdded(pods["ns/p"]), AssignedPodAdded(pod("gone", "n"))):
                await cache.tell(fact)
            await group.start(debugger.run)
            await clock.advance(LOOK_SECONDS + 1)
            assert actor.statistics().cache.healed == 0
            assert await debugger.compare(heal=False) == (
                Difference("missed", "Node", "missed"),
                Difference("missed", "Pod", "ns/missed"),
                Difference("redundant", "Pod", "ns/gone"),
            )
            await clock.advance(LOOK_SECONDS)
            assert actor.statistics().cache.healed == 3
            assert await debugger.compare(heal=False) == ()
            await clock.advance(3 * LOOK_SECONDS)
            statistics = actor.statistics().cache
            assert (statistics.nodes, statistics.pods, statistics.healed) == (2, 2, 3)
            await debugger.dump()
            group.cancel_scope.cancel()
    assert [entry["key"] for entry in logs if entry["event"] == "healed"] == ["missed", "ns/missed", "ns/gone"]
    dumped = {entry["name"]: [p["key"] for p in entry["pods"]] for entry in logs if "requested" in entry}
    assert dumped == {"missed": [], "n": ["ns/p", "ns/missed"]}
    for mailbox in (cache, queue, binding):
        mailbox.close()
