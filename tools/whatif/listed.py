"""An embedded cluster that questions are about: it is listed anew for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from berth.actors.client.rest import ApiError
from berth.config.types import KubeSchedulerConfiguration

from ..explain.source import paths_of
from ..hollow.embedded import Embedded
from .documents import Document, Documents
from .source import BESIDES

T = TypeVar("T")


class Listed:
    """One question is answered at a time, in a thread. Between questions it costs nothing."""

    def __init__(
        self,
        access: Embedded,
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
    ) -> None:
        self._access = access
        self._configuration = configuration
        self._gates = gates
        self._thread = CapacityLimiter(1)

    async def ask(self, question: Callable[[Documents], T]) -> T:
        """Returns the answer of a function."""
        objects: list[Document] = []
        for (version, kind), path in paths_of((), BESIDES).items():
            objects += await self._listed(version, kind, path)
        return await to_thread.run_sync(self._answered, question, objects, limiter=self._thread)

    def _answered(self, question: Callable[[Documents], T], objects: list[Document]) -> T:
        return question(Documents(objects, self._configuration, self._gates))

    async def _listed(self, version: str, kind: str, path: str) -> list[Document]:
        try:
            listed = await self._access.call("GET", path, dict)
        except ApiError as refused:
            if refused.code == 404:  # The kind is not served.
                return []
            raise
        return [{**item, "apiVersion": version, "kind": kind} for item in listed["items"]]
