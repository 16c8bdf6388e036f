"""Following objects by looking at them again and again."""

from __future__ import annotations

from itertools import pairwise

import anyio

from berth.tools.answers.feed.feed_source import Change, NodeGone, PodGone
from berth.tools.answers.feed.poll import AT_ONCE, LOOK_SECONDS, Look, follow
from tests.kit.clock import VirtualClock
from tests.kit.page import node_of, pod_of


async def test_nodes_come_first_and_only_what_was_replaced_is_put_again() -> None:
    nodes = {name: node_of(name) for name in ("a", "b")}
    pods = {f"x/{number}": pod_of(f"x/{number}") for number in range(AT_ONCE)}
    looks: list[Look[Change]] = [
        (nodes, pods),
        (dict(nodes), dict(pods)),
        ({"b": node_of("b")}, {**pods, "x/1": pod_of("x/1", "b"), "x/new": pod_of("x/new")}),
        ({"b": nodes["b"]}, {}),
    ]
    put: list[Change] = []
    ends = []

    async def look() -> Look[Change]:
        ends.append(len(put))
        if not looks:
            await anyio.sleep_forever()
        return looks.pop(0)

    def row(item: Change) -> Change | None:
        return None if item == pod_of("x/new") else item

    clock = VirtualClock()
    async with anyio.create_task_group() as group:
        group.start_soon(follow, look, row, row, put.append, clock)
        await clock.advance(5 * LOOK_SECONDS)
        group.cancel_scope.cancel()
    first, second, third, fourth = (put[start:end] for start, end in pairwise(ends))
    assert first == [*nodes.values(), *pods.values()]
    assert second == []
    assert third == [node_of("b"), NodeGone("a"), pod_of("x/1", "b"), PodGone("x/new")]
    assert fourth[0] == nodes["b"]
    assert set(fourth[1:]) == {PodGone(key) for key in (*pods, "x/new")}
