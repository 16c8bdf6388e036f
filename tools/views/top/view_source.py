"""The source of the views of `berth top`: a cluster and its scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from ...answers.feed.story import Story
from .cluster_model import Event


class LostError(Exception):
    """The connection is lost, or could not be made."""


class ViewSource(Protocol):
    async def watch(self, take: Callable[[Event], None]) -> NoReturn:
        """Passes the present cluster to `take`, and then its changes. Raises LostError when the
        feed ends.
        """
        ...

    async def story(self, key: str) -> Story | None:
        """Returns the story of a pod; None if there is no such pod. Raises LostError."""
        ...
