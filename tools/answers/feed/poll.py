"""Follows objects by comparing them at intervals.

Objects are replaced and never changed, so that two looks are compared by identity, which costs
little even in a large cluster. What changes several times between two looks is told once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import chain
from typing import Generic, TypeVar

from berth.actors.runtime.clock import Clock

from .feed_source import Change, NodeGone, PodGone

LOOK_SECONDS = 0.5
MOST_SECONDS = 4.0  # between two looks
SHARE = 40  # the time between two looks, in times of what a look takes
AT_ONCE = 200  # objects, between which other threads have their turn
REST_SECONDS = 0.002
T = TypeVar("T")
Look = tuple[Mapping[str, T], Mapping[str, T]]  # nodes by name, and pods by namespace/name


class _Kind(Generic[T]):
    """The objects of a kind as they were at the last look. `row` returns None for an object that
    cannot be shown.
    """

    def __init__(self, row: Callable[[T], Change | None], gone: Callable[[str], Change]) -> None:
        self._row = row
        self._gone = gone
        self._seen: Mapping[str, T] = {}

    def changes(self, now: Mapping[str, T]) -> Iterator[Change]:
        before, self._seen = self._seen, now
        stayed = 0
        for name, item in now.items():
            old = before.get(name)
            stayed += old is not None
            if old is not item:
                row = self._row(item)
                yield self._gone(name) if row is None else row
        if stayed < len(before):
            for name in before.keys() - now.keys():
                yield self._gone(name)


async def follow(
    look: Callable[[], Awaitable[Look[T]]],
    node_row: Callable[[T], Change | None],
    pod_row: Callable[[T], Change | None],
    put: Callable[[Change], None],
    clock: Clock,
) -> None:
    """Puts all nodes, then all pods, and then every change, until cancelled."""
    nodes, pods = _Kind(node_row, NodeGone), _Kind(pod_row, PodGone)
    pause = LOOK_SECONDS
    first = True
    while True:
        seen_nodes, seen_pods = await look()
        began, rested = clock.now(), 0
        for number, change in enumerate(
            chain(nodes.changes(seen_nodes), pods.changes(seen_pods)), 1
        ):
            put(change)
            if number % AT_ONCE == 0:
                rested += 1
                await clock.sleep(REST_SECONDS)
        took = clock.now() - began - rested * REST_SECONDS
        pause = LOOK_SECONDS if first else min(max(LOOK_SECONDS, took * SHARE), MOST_SECONDS)
        first = False
        await clock.sleep(pause)
