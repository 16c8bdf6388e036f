"""Answers what-ifs about a toy cluster, and takes their steps for real."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from anyio import CapacityLimiter, to_thread

from berth.actors.client.access import Calls
from berth.actors.client.rest import ApiError
from berth.actors.server.request import JSON, Answer, Request
from berth.config.types import KubeSchedulerConfiguration

from ...answers.explain.cluster_source import SourceError, paths_of
from ...answers.whatif.answer_worker import answer
from ...answers.whatif.question import Answered, Question, RefusedError, question_of
from ...answers.whatif.start_cluster import BESIDES
from ...answers.whatif.steps import StepError
from ...answers.whatif.tried_documents import Documents
from ...answers.whatif.verbs import RealCluster, steps_of
from ...answers.whatif.whatif_endpoint import Arrivals
from .page_source import listed


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
        objects: list[dict[str, Any]] = []
        for (version, kind), path in paths_of((), BESIDES).items():
            objects += await listed(self._access, version, kind, path)
        body = await to_thread.run_sync(self._answer, parsed, objects, limiter=self._thread)
        return Answered(HTTPStatus.OK, msgspec.Raw(body))

    def _answer(self, question: Question, objects: list[dict[str, Any]]) -> bytes:
        documents = Documents(objects, self._configuration, self._gates)
        return msgspec.json.encode(answer(documents, question))


class RealSteps:
    """The steps that are taken for real, one after another, up to the first refusal."""

    def __init__(self, access: Calls) -> None:
        self._access = access
        self._arrivals = Arrivals()

    async def respond(self, request: Request) -> Answer:
        """Answers with a sentence for each step, or with an error about the wrong step."""
        sentences: list[str] = []
        try:
            question = question_of(await self._arrivals.whole(request.body))
            real = RealCluster(self._access, question.namespace)
            for step in steps_of(question.steps, files=False):
                sentences.append(await real.take(step))  # noqa: PERF401
        except RefusedError as refused:
            return refused.answer
        except StepError as problem:
            return _refused(problem.number - 1, str(problem))
        except (SourceError, ApiError) as problem:
            return _refused(len(sentences), " ".join((str(problem), *sentences)))
        return Answer(msgspec.json.encode(sentences), content_type=JSON)


def _refused(step: int, problem: str) -> Answer:
    return RefusedError(HTTPStatus.BAD_REQUEST, f"steps[{step}]", problem).answer
