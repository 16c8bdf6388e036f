"""What `berth top` looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from .model import Event
from .told import Told


class LostError(Exception):
    """There is no connection."""


class Watched(Protocol):
    async def watch(self, take: Callable[[Event], None]) -> NoReturn:
        """Yields the present cluster, then its changes. Raises LostError when the feed ends."""
        ...

    async def story(self, key: str) -> Told | None:
        """Returns the story of a pod; None if there is no such pod. Raises LostError."""
        ...
