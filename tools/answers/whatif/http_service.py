"""Answers what-ifs over HTTP: POST /whatif and GET /whatif/schema, or wherever a page asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from http import HTTPStatus
from typing import Protocol

import msgspec
from aiohttp import web

from berth.actors.server.request import MOST_BYTES

from ...kubernetes.api.requests import origins
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.types.api_documents import RefusedError as Forbidden
from ..feed.offers import Weights
from .frames import Answered
from .question import schema
from .question_refusals import Arrivals, RefusedError, TooLargeError, Turns

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AskedCluster(Protocol):
    """The cluster of the questions."""

    async def ask(self, question: bytes) -> Answered:
        """Returns the answer to the body of a question. Raises RefusedError."""
        ...


class Service:
    """The answers about a cluster.

    One question is answered after another. If MOST_AT_ONCE questions wait or are being answered,
    further ones are refused. `weights` are the weights of score plugins, by profile.
    """

    def __init__(
        self, cluster: AskedCluster, weights: Weights, allowed_hosts: Collection[str] = ()
    ) -> None:
        self._cluster = cluster
        self.weights = weights
        self._guard = origins.Guard(allowed_hosts)
        self._arrivals = Arrivals()
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
            self._guard.check(HttpRequest(request.method, request.path, {}, headers, b""))
        except Forbidden as refused:
            return _refused(RefusedError(HTTPStatus(refused.code), "", str(refused)))
        return await handler(request)

    async def _schema(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(schema())

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Answers a question in the body of a request, or says why there is no answer."""
        try:
            body = await self._arrivals.whole(partial(body_of, request))
            with self._turns.taken():
                answered = await self._cluster.ask(body)
        except RefusedError as refused:
            return _refused(refused)
        return web.Response(
            status=answered.status, body=bytes(answered.body), content_type="application/json"
        )


async def body_of(request: web.Request) -> bytes:
    """Returns the body of a question. Raises RefusedError."""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise TooLargeError from None
    except web.RequestPayloadError:
        problem = "expected a body in the encoding that the head states"
        raise RefusedError(HTTPStatus.BAD_REQUEST, "", problem) from None


def _refused(refused: RefusedError) -> web.Response:
    return web.Response(
        status=refused.status,
        body=msgspec.json.encode(refused.refusal),
        content_type="application/json",
        headers=refused.headers,
    )
