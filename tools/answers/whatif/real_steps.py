"""Takes the steps of a what-if for real, in a toy cluster: by requests, as those of kubectl."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from berth.actors.client.access import Calls
from berth.actors.client.rest import ApiError
from berth.actors.server.request import JSON, Answer, Request

from ..explain.cluster_source import SourceError
from .question import question_of
from .question_refusals import Arrivals, RefusedError
from .steps import StepError
from .verbs import RealCluster, steps_of


class RealSteps:
    """The answers to requests to take steps. Steps are taken one after another, up to the first
    that is refused.
    """

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
