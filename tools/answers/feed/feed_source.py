"""The interface of the page to a cluster and its scheduler, which each server of pages
implements.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """A cluster and its scheduler, for a page.

    Nothing is called while nobody looks at the page. `schedules` is False if there is no scheduler,
    and therefore no glance.
    """

    @property
    def schedules(self) -> bool: ...

    async def follow(self, put: Callable[[Change], None]) -> None:
        """Puts all nodes, then all pods, and then every change, until cancelled."""
        ...

    async def glance(self) -> Glance | None:
        """Returns the queue's counts, and the state of the scheduler."""
        ...

    async def story(
        self, namespace: str, name: str, *, decides: bool = True
    ) -> Story | msgspec.Raw | None:
        """Returns the story of a pod, perhaps as JSON; None if there is no such pod. It has a
        decision only if `decides`.
        """
        ...
