"""A source of the page's rows, which a test fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from berth.actors.wiring.glance import Glance
from berth.tools.answers.feed.feed_source import Change
from berth.tools.answers.feed.rows import NodeRow, PodRow
from berth.tools.answers.feed.story import Story

QUIET = Glance(0, 0, 0, 0, 0, 0, 0, (), (), leads=True, problems=(), still_seconds=0.0)


def node_of(name: str, **fields: Any) -> NodeRow:
    whole = {
        "labels": {},
        "taints": (),
        "cordoned": False,
        "problems": (),
        "allocatable": {"cpu": 8000, "memory": 32 << 30, "pods": 110},
    }
    return NodeRow(name, **{**whole, **fields})


def pod_of(key: str, node: str = "", **fields: Any) -> PodRow:
    whole = {
        "phase": "Running" if node else "Pending",
        "workload": key,
        "priority": 0,
        "created": 0.0,
        "scheduled": 0.0,
        "requests": {"cpu": 500, "memory": 1 << 30, "pods": 1},
        "message": "",
    }
    return PodRow(key, node, **{**whole, **fields})


class FilledSource:
    """The rows of these changes and of those put later. `following` counts who follows."""

    schedules = True

    def __init__(self, *changes: Change) -> None:
        self.following = 0
        self.quick = QUIET
        self.stories: dict[str, Story] = {}
        self._changes = list(changes)
        self._news = anyio.Event()

    def put(self, *changes: Change) -> None:
        self._changes += changes
        self._news.set()

    async def follow(self, put: Callable[[Change], None]) -> None:
        self.following += 1
        seen = 0
        try:
            while True:
                for change in self._changes[seen:]:
                    put(change)
                seen = len(self._changes)
                self._news = anyio.Event()
                await self._news.wait()
        finally:
            self.following -= 1

    async def glance(self) -> Glance:
        return self.quick

    async def story(self, namespace: str, name: str, *, decides: bool = True) -> Story | None:
        return self.stories.get(f"{namespace}/{name}")
