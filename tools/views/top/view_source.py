"""What `berth top` looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from ...answers.feed.story import Story
from .cluster_model import Event


class LostError(Exception):
    """There is no connection."""


class ViewSource(Protocol):
    async def watch(self, take: Callable[[Event], None]) -> NoReturn:
        """Gives `take` the present cluster, then its changes. Raises LostError when the feed
        ends.
        """
        ...

    async def story(self, key: str) -> Story | None:
        """Returns the story of a pod; None if there is no such pod. Raises LostError."""
        ...
