"""A small HTTP extender that answers verbs with functions, and ways in which it can fail."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiohttp import web

Body = dict[str, Any]
Answer = Callable[[Body], Any | Awaitable[Any]]


class SmallExtender:
    """Answers each verb with the JSON value or the response that its function returns. `calls`
    holds all requests.
    """

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.calls: list[tuple[str, Body]] = []
        self.url = ""

    def bodies(self, verb: str) -> list[Body]:
        return [body for called, body in self.calls if called == verb]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.method == "POST"
        assert request.content_type == "application/json"
        verb, body = request.path.removeprefix("/scheduler/"), await request.json()
        self.calls.append((verb, body))
        answer = self.answers[verb](body)
        if inspect.isawaitable(answer):
            answer = await answer
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)


@asynccontextmanager
async def small_extender(
    answers: dict[str, Answer] | None = None, context: ssl.SSLContext | None = None
) -> AsyncIterator[SmallExtender]:
    """Runs an extender for the block."""
    extender = SmallExtender(answers or {})
    runner = web.ServerRunner(web.Server(extender.handle), shutdown_timeout=0.05)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        extender.url = (
            f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}/scheduler"
        )
        yield extender
    finally:
        await runner.cleanup()


def internal_error(_: Body) -> Any:
    return web.Response(status=500, text="it broke")


def garbage(_: Body) -> Any:
    return web.Response(text="<html>hello</html>")


async def hang(_: Body) -> Any:
    await anyio.sleep_forever()


def error(_: Body) -> Any:
    """Returns the error answer of extender/v1."""
    return {"Error": "not today"}


FAILURES: dict[str, tuple[Answer, str]] = {
    "500": (internal_error, "with extender at URL http"),
    "garbage": (garbage, "unexpected answer"),
    "hang": (hang, "context deadline exceeded (Client.Timeout exceeded"),
}
