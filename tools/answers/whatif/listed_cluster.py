"""An embedded cluster that questions are about: it is listed anew for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from anyio import CapacityLimiter, to_thread

from berth.actors.client.access import Calls
from berth.actors.client.rest import ApiError
from berth.config.types import KubeSchedulerConfiguration

from ..explain.cluster_source import paths_of
from .answer_process import Answered
from .question import Question, answer, question_of
from .start_cluster import BESIDES
from .tried_documents import Document, Documents


class ListedCluster:
    """A Cluster of listed objects. One question is answered at a time, in a thread; between
    questions there is no work.
    """

    def __init__(
        self,
        access: Calls,
        configuration: KubeSchedulerConfiguration,
        gates: Mapping[str, bool],
    ) -> None:
        self._access = access
        self._configuration = configuration
        self._gates = gates
        self._thread = CapacityLimiter(1)

    async def ask(self, question: bytes) -> Answered:
        """Returns the answer to the body of a question. Raises RefusedError."""
        parsed = question_of(question)
        objects: list[Document] = []
        for (version, kind), path in paths_of((), BESIDES).items():
            objects += await self._listed(version, kind, path)
        body = await to_thread.run_sync(self._answer, parsed, objects, limiter=self._thread)
        return Answered(HTTPStatus.OK, msgspec.Raw(body))

    def _answer(self, question: Question, objects: list[Document]) -> bytes:
        documents = Documents(objects, self._configuration, self._gates)
        return msgspec.json.encode(answer(documents, question))

    async def _listed(self, version: str, kind: str, path: str) -> list[Document]:
        try:
            listed = await self._access.call("GET", path, dict)
        except ApiError as refused:
            if refused.code == 404:  # The kind is not served.
                return []
            raise
        return [{**item, "apiVersion": version, "kind": kind} for item in listed["items"]]
