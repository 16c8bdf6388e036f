"""A long list holds nobody up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import anyio
import msgspec
from berth.actors.client.watch import Changed, Deleted, Listed
from berth.actors.informer.actor import SLICE, InformerActor
from berth.actors.informer.routing import route_node
from berth.actors.mailboxes import Mailboxes
from berth.actors.messages import CacheMessage
from berth.actors.scheduling.kube.core import Node

from tests.kit.inbox import Inbox

NODES = 4 * SLICE


class Source:
    async def changes(
        self, known: Mapping[str, Node]
    ) -> AsyncGenerator[Listed[Node] | Changed[Node] | Deleted[Node]]:
        yield Listed(
            tuple(msgspec.convert({"metadata": {"name": f"n{i}"}}, Node) for i in range(NODES))
        )
        await anyio.sleep_forever()


async def test_others_have_their_turn_while_a_list_is_told() -> None:
    cache: Inbox[CacheMessage] = Inbox("cache")
    informer = InformerActor(Source(), route_node, Mailboxes(cache=cache))
    seen: list[int] = []

    async def look() -> None:
        while True:
            assert len(informer.objects()) == len(cache.messages)  # what is known has been told
            seen.append(len(informer.objects()))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        await group.start(informer.run)
        group.cancel_scope.cancel()
    assert {SLICE, 2 * SLICE, 3 * SLICE} <= set(seen)
    assert len(informer.objects()) == NODES
