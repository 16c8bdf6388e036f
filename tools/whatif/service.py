"""Answers what-ifs over HTTP: POST /whatif, and GET /whatif/schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from http import HTTPStatus

import msgspec
from aiohttp import web

from ..apiserver import guard
from ..apiserver.http_reader import Request
from ..apiserver.store import RefusedError as Forbidden
from .documents import Documents
from .question import Question, RefusedError, Turns, answer, question_of, schema
from .warm import Warm

MOST_BYTES = 4 << 20  # of a question
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Service:
    """The answers about a cluster. One question is answered after another; beyond MOST_AT_ONCE
    that wait or are answered, they are refused.
    """

    def __init__(self, warm: Warm, allowed_hosts: Collection[str] = ()) -> None:
        self._warm = warm
        self._guard = guard.Guard(allowed_hosts)
        self._turns = Turns()

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._guarded], client_max_size=MOST_BYTES)
        application.router.add_post("/whatif", self._ask)
        application.router.add_get("/whatif/schema", self._schema)
        return application

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = {name.lower(): text for name, text in request.headers.items()}
        try:
            self._guard.check(Request(request.method, request.path, {}, headers, b""))
            return await handler(request)
        except Forbidden as refused:
            return _refused(RefusedError(HTTPStatus(refused.code), "", str(refused)))
        except web.HTTPRequestEntityTooLarge:
            message = f"the question is too long: expected at most {MOST_BYTES} bytes"
            return _refused(RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", message))
        except RefusedError as refused:
            return _refused(refused)

    async def _schema(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(schema())

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        with self._turns.taken():
            question = question_of(await request.read())
            body = await self._warm.ask(partial(_answered, question))
        return web.Response(body=body, content_type="application/json")


def _answered(question: Question, documents: Documents) -> bytes:
    return msgspec.json.encode(answer(documents, question))


def _refused(refused: RefusedError) -> web.Response:
    return web.Response(
        status=refused.status,
        body=msgspec.json.encode(refused.refusal),
        content_type="application/json",
        headers=refused.headers,
    )
