"""Answers what-ifs over HTTP: POST /whatif and GET /whatif/schema, or wherever a page asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from http import HTTPStatus
from typing import Protocol, TypeVar

import msgspec
from aiohttp import web

from berth.actors.server.request import MOST_BYTES

from ..apiserver import guard
from ..apiserver.http_reader import Request
from ..apiserver.store import RefusedError as Forbidden
from ..page.offers import Weights
from .documents import Documents
from .question import Question, RefusedError, Turns, answer, question_of, schema

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")


class Cluster(Protocol):
    """A cluster that questions are about."""

    async def ask(self, question: Callable[[Documents], T]) -> T:
        """Returns the answer of a function, which must leave the objects as they are."""
        ...


class Service:
    """The answers about a cluster. One question is answered after another; beyond MOST_AT_ONCE
    that wait or are answered, they are refused. `weights` are those of score plugins, by profile.
    """

    def __init__(
        self, cluster: Cluster, weights: Weights, allowed_hosts: Collection[str] = ()
    ) -> None:
        self._cluster = cluster
        self.weights = weights
        self._guard = guard.Guard(allowed_hosts)
        self._turns = Turns()

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._guarded], client_max_size=MOST_BYTES)
        application.router.add_post("/whatif", self.respond)
        application.router.add_get("/whatif/schema", self._schema)
        return application

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = {name.lower(): text for name, text in request.headers.items()}
        try:
            self._guard.check(Request(request.method, request.path, {}, headers, b""))
        except Forbidden as refused:
            return _refused(RefusedError(HTTPStatus(refused.code), "", str(refused)))
        return await handler(request)

    async def _schema(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(schema())

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Answers a question in the body of a request, or says why it does not."""
        try:
            body = await self._answer(request)
        except web.HTTPRequestEntityTooLarge:
            message = f"the question is too long: expected at most {MOST_BYTES} bytes"
            return _refused(RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", message))
        except web.RequestPayloadError:
            message = "expected a body in the encoding that the head states"
            return _refused(RefusedError(HTTPStatus.BAD_REQUEST, "", message))
        except RefusedError as refused:
            return _refused(refused)
        return web.Response(body=body, content_type="application/json")

    async def _answer(self, request: web.Request) -> bytes:
        with self._turns.taken():
            question = question_of(await request.read())
            return await self._cluster.ask(partial(_answered, question))


def _answered(question: Question, documents: Documents) -> bytes:
    return msgspec.json.encode(answer(documents, question))


def _refused(refused: RefusedError) -> web.Response:
    return web.Response(
        status=refused.status,
        body=msgspec.json.encode(refused.refusal),
        content_type="application/json",
        headers=refused.headers,
    )
