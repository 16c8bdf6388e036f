"""The page `/whatif` of a running scheduler: what-ifs about the cluster as the scheduler sees it.

A process beside the scheduler answers, so that decisions wait for no what-if. It ends when nobody
has asked for IDLE_SECONDS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.whole import json_of
from berth.actors.server.request import (
    JSON,
    NOT_FOUND,
    Answer,
    BodyTooLongError,
    Request,
)
from berth.actors.server.site import Page
from berth.actors.wiring.view import View
from berth.config.types import KubeSchedulerConfiguration

from .answer_process import AnswerProcess, Objects
from .question_refusals import Arrivals, RefusedError, TooLargeError, Turns

IDLE_SECONDS = 900.0


def make(view: View) -> Page:
    return _Answers(view.shared(beside)).show


def beside(view: View) -> AnswerProcess:
    return AnswerProcess(Viewed(view), IDLE_SECONDS)


class Viewed:
    """The Cluster of a view."""

    def __init__(self, view: View) -> None:
        self._view = view

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        return self._view.feature_gates

    async def configuration(self) -> KubeSchedulerConfiguration:
        return await self._view.configuration()

    async def objects(self) -> Objects:
        """Raises NoAnswerError."""
        objects = await self._view.objects()
        return {(kind.api_version, kind.kind): items for kind, items in objects.items()}

    def json_of(self, item: object) -> msgspec.Raw:
        if isinstance(item, Pod | Node):
            return json_of(item)
        return msgspec.Raw(msgspec.json.encode(item))

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._view.start(work)


class _Answers:
    def __init__(self, beside: AnswerProcess) -> None:
        self._beside = beside
        self._arrivals = Arrivals()
        self._turns = Turns()

    async def show(self, request: Request) -> Answer:
        try:
            match request.method, request.path:
                case (("GET" | "HEAD"), "/whatif/schema"):
                    from .question import schema  # Imports much, of which a page needs nothing.

                    return _answer(200, msgspec.json.encode(schema()))
                case "POST", "/whatif":
                    body = await self._arrivals.whole(request.body)
                    with self._turns.taken():
                        answered = await self._beside.ask(body)
                        return _answer(answered.status, bytes(answered.body))
                case _, "/whatif/schema":
                    return _not_allowed("GET, HEAD")
                case _, "/whatif":
                    return _not_allowed("POST")
                case _:
                    return NOT_FOUND
        except BodyTooLongError:
            return _refused(TooLargeError())
        except RefusedError as refused:
            return _refused(refused)


def _answer(status: int, body: bytes, **headers: str) -> Answer:
    return Answer(body, status, JSON, (*headers.items(), ("X-Content-Type-Options", "nosniff")))


def _not_allowed(methods: str) -> Answer:
    return _answer(405, b"", Allow=methods)


def _refused(refused: RefusedError) -> Answer:
    return _answer(refused.status, msgspec.json.encode(refused.refusal), **refused.headers)
