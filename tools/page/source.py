"""What the page asks of a cluster and its scheduler. Whoever serves the page gives a Source."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

import msgspec

from berth.actors.wiring.glance import Glance

from .rows import NodeRow, PodRow
from .story import Story


class NodeGone(msgspec.Struct, frozen=True):
    name: str


class PodGone(msgspec.Struct, frozen=True):
    key: str


Change = NodeRow | PodRow | NodeGone | PodGone


class Source(Protocol):
    """A cluster and its scheduler, to be looked at. Nothing is followed before `changes` is
    iterated, so that a page that nobody looks at costs nothing.
    """

    def nodes(self) -> AsyncGenerator[Change]:
        """Yields each node as it is now, then its changes, without end."""
        ...

    def pods(self) -> AsyncGenerator[Change]:
        """Yields each pod as it is now, then its changes, without end."""
        ...

    async def glance(self) -> Glance:
        """Returns the queue's counts, and how the scheduler is."""
        ...

    async def story(self, namespace: str, name: str) -> Story | None:
        """Returns what is known of a pod; None if there is no such pod."""
        ...
