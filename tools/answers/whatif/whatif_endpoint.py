"""What-ifs over HTTP: the page `/whatif`.

In a running scheduler they are about the cluster as the scheduler sees it. A process beside the
scheduler answers, so that decisions wait for no what-if. It ends when nobody has asked for
IDLE_SECONDS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Protocol

import anyio
import msgspec

from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.whole import json_of
from berth.actors.server.request import (
    JSON,
    MOST_BYTES,
    NOSNIFF,
    NOT_FOUND,
    Answer,
    BodyTooLongError,
    Request,
    UnreadableBodyError,
)
from berth.actors.server.site import Page
from berth.actors.wiring.view import View
from berth.config.types import KubeSchedulerConfiguration

from ..feed.page_actions import Verbs, Weights
from .answer_process import AnswerProcess, Objects
from .question import Answered, RefusedError

IDLE_SECONDS = 900.0
BODY_SECONDS = 10.0  # in which a question arrives
MOST_ARRIVING = 32
MOST_AT_ONCE = 4


def make(view: View) -> Page:
    return WhatIfs(view.shared(answer_process_of)).show


def answer_process_of(view: View) -> AnswerProcess:
    return AnswerProcess(Viewed(view), IDLE_SECONDS)


class Viewed:
    """The cluster as a view of the scheduler shows it, for questions."""

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


class Arrivals:
    """The questions whose bodies are still arriving, at most MOST_ARRIVING."""

    def __init__(self) -> None:
        self._scopes: dict[anyio.CancelScope, None] = {}

    async def whole(self, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Returns the body of a question. Raises RefusedError if it takes too long, or has more
        than MOST_BYTES.
        """
        if len(self._scopes) >= MOST_ARRIVING:
            next(iter(self._scopes)).cancel()
        scope = anyio.CancelScope(deadline=anyio.current_time() + BODY_SECONDS)
        self._scopes[scope] = None
        try:
            with scope:
                return await read()
        except BodyTooLongError:
            problem = f"the question is too long: expected at most {MOST_BYTES} bytes"
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", problem) from None
        except UnreadableBodyError:
            problem = "expected a body in the encoding that the head states"
            raise RefusedError(HTTPStatus.BAD_REQUEST, "", problem) from None
        finally:
            del self._scopes[scope]
        problem = f"expected the question within {BODY_SECONDS:g} seconds"
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "", problem)


class Turns:
    """The questions that wait or are being answered, at most MOST_AT_ONCE."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Takes a turn for the block. Raises RefusedError if none is left."""
        if self._taken == MOST_AT_ONCE:
            message = f"{MOST_AT_ONCE} questions are asked already: ask again later"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "", message)
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


class AskedCluster(Protocol):
    """The cluster of the questions."""

    async def ask(self, question: bytes) -> Answered:
        """Returns the answer to the body of a question. Raises RefusedError."""
        ...


class WhatIfs:
    """The answers at /whatif and /whatif/schema.

    One question is answered after another. If MOST_AT_ONCE questions wait or are being answered,
    further ones are refused. `weights` are the weights of score plugins, by profile; `verbs` are
    the verbs that a page offers.
    """

    def __init__(
        self, cluster: AskedCluster, weights: Weights | None = None, verbs: Verbs = ()
    ) -> None:
        self.weights = weights or {}
        self.verbs = verbs
        self._cluster = cluster
        self._arrivals = Arrivals()
        self._turns = Turns()

    async def show(self, request: Request) -> Answer:
        match request.method, request.path:
            case (("GET" | "HEAD"), "/whatif/schema"):
                from .answer_worker import schema  # Imports much, of which a page needs nothing.

                return Answer(msgspec.json.encode(schema()), content_type=JSON)
            case "POST", "/whatif":
                return await self.ask(request)
            case _, "/whatif/schema":
                return _not_allowed("GET, HEAD")
            case _, "/whatif":
                return _not_allowed("POST")
            case _:
                return NOT_FOUND

    async def ask(self, request: Request) -> Answer:
        """Answers the question in the body of a request, or says why there is no answer."""
        try:
            body = await self._arrivals.whole(request.body)
            with self._turns.taken():
                answered = await self._cluster.ask(body)
        except RefusedError as refused:
            return refused.answer
        return Answer(bytes(answered.body), answered.status, JSON)


def _not_allowed(methods: str) -> Answer:
    return Answer(b"", 405, JSON, (("Allow", methods), *NOSNIFF))
