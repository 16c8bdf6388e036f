"""Other tasks run while a long list is delivered."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncGenerator, Mapping

import anyio
import msgspec

from berth.actors.client.watch import ObjectChanged, ObjectDeleted, ObjectsListed
from berth.actors.informer.actor import SECONDS, SLICE, InformerActor
from berth.actors.informer.routing import route_node
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages.cache import CacheMessage
from berth.actors.scheduling.kube.core import Node
from tests.kit.inbox import Inbox

NODES = 4 * SLICE


class Source:
    def __init__(self, nodes: int = NODES) -> None:
        self._nodes = nodes

    async def changes(
        self, before: Mapping[str, Node]
    ) -> AsyncGenerator[ObjectsListed[Node] | ObjectChanged[Node] | ObjectDeleted[Node]]:
        yield ObjectsListed(
            tuple(
                msgspec.convert({"metadata": {"name": f"n{i}"}}, Node) for i in range(self._nodes)
            )
        )
        await anyio.sleep_forever()


async def test_other_tasks_run_while_a_list_is_delivered() -> None:
    cache: Inbox[CacheMessage] = Inbox("cache")
    informer = InformerActor(Source(), route_node, Mailboxes(cache=cache))
    seen: list[int] = []

    async def look() -> None:
        while True:
            assert len(informer.objects()) == len(
                cache.messages
            )  # Everything in the store was sent.
            seen.append(len(informer.objects()))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        await group.start(informer.run)
        group.cancel_scope.cancel()
    assert {SLICE, 2 * SLICE, 3 * SLICE} <= set(seen)
    assert len(informer.objects()) == NODES


async def test_other_tasks_run_soon_if_objects_take_long() -> None:
    def slow(node: Node) -> Node:
        time.sleep(SECONDS)
        return node

    cache: Inbox[CacheMessage] = Inbox("cache")
    informer = InformerActor(Source(5), route_node, Mailboxes(cache=cache), read=slow)
    seen: set[int] = set()

    async def look() -> None:
        while True:
            seen.add(len(informer.objects()))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        await group.start(informer.run)
        group.cancel_scope.cancel()
    assert seen & {1, 2, 3, 4}


class Steps:
    """A source that yields each update once the test has looked at what the last one made."""

    def __init__(self, *updates: ObjectsListed[Node] | ObjectChanged[Node] | ObjectDeleted[Node]):
        self._updates = updates
        self.go_on = anyio.Event()

    async def changes(
        self, before: Mapping[str, Node]
    ) -> AsyncGenerator[ObjectsListed[Node] | ObjectChanged[Node] | ObjectDeleted[Node]]:
        for update in self._updates:
            yield update
            self.go_on = anyio.Event()
            await self.go_on.wait()
        await anyio.sleep_forever()


def node_at(name: str, version: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "resourceVersion": version}}, Node)


async def test_the_resource_version_is_that_of_the_latest_change() -> None:
    listed = ObjectsListed((node_at("a", "9"), node_at("b", "12"), node_at("c", "10")))
    changed, gone = ObjectChanged(node_at("a", "15")), ObjectDeleted(node_at("b", "17"))
    source = Steps(listed, changed, gone, ObjectsListed((node_at("a", "15"),)), ObjectsListed(()))
    informer = InformerActor(source, route_node, Mailboxes())
    assert informer.resource_version() == ""
    seen = []
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        for _ in range(5):
            await anyio.wait_all_tasks_blocked()
            seen.append(informer.resource_version())
            source.go_on.set()
        group.cancel_scope.cancel()
    assert seen == ["12", "15", "17", "15", ""]


class Forgetful:
    """A source that keeps nothing of what it has yielded."""

    def __init__(self, *updates: ObjectsListed[Node] | ObjectChanged[Node] | ObjectDeleted[Node]):
        self._updates = [*updates]

    async def changes(
        self, before: Mapping[str, Node]
    ) -> AsyncGenerator[ObjectsListed[Node] | ObjectChanged[Node] | ObjectDeleted[Node]]:
        while self._updates:
            yield self._updates.pop(0)
        await anyio.sleep_forever()


async def test_an_object_that_is_gone_is_let_go() -> None:
    gone = node_at("a", "15")
    before = sys.getrefcount(gone)
    source = Forgetful(ObjectsListed(()), ObjectChanged(gone), ObjectDeleted(gone))
    informer = InformerActor(source, lambda _: ([], []), Mailboxes())
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await anyio.wait_all_tasks_blocked()
        assert informer.resource_version() == "15"
        assert sys.getrefcount(gone) == before
        group.cancel_scope.cancel()
