"""Serves the page over HTTP: its files, the feed as server-sent events, and the stories of pods.

No method but GET and HEAD has a route, unless the page is served with `Acts`: then nodes are
changed by POST, with a token that only pages of the same origin can read. Scripts and styles come
from here alone, and no text can become markup.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from socket import socket

import anyio
import msgspec
from aiohttp import web
from anyio.abc import TaskStatus

from berth.actors.client.rest import ApiError
from berth.actors.runtime.clock import Clock

from ..apiserver.guard import Guard
from ..apiserver.http_reader import Request
from ..apiserver.store import RefusedError
from .acting import VERBS
from .feed import Feed, TooManyViewersError
from .source import Source

STATIC = Path(__file__).parent / "static"
CONTENT_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SHUTDOWN_SECONDS = 0.5
PROOF_HEADER = "X-Berth-Token"
Acts = Callable[[str, str], Awaitable[str]]  # does one of VERBS to a node; see acting
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Page:
    """The answers of the page."""

    def __init__(
        self,
        source: Source,
        feed: Feed,
        allowed_hosts: Collection[str] = (),
        acts: Acts | None = None,
    ) -> None:
        self._source = source
        self._acts = acts
        self._token = "" if acts is None else token_urlsafe()
        self._feed = feed
        self._guard = Guard(allowed_hosts)
        self._files = {path.name: path.read_bytes() for path in STATIC.iterdir()}

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._guarded])
        application.router.add_get("/", self._to_page)
        application.router.add_get("/ui", self._to_page)
        application.router.add_get("/ui/", self._file)
        application.router.add_get("/ui/feed", self._events, allow_head=False)
        application.router.add_get("/ui/pods/{namespace}/{name}", self._story)
        application.router.add_get("/ui/token", self._show_token)
        application.router.add_get("/ui/{file}", self._file)
        if self._acts is not None:
            application.router.add_post("/ui/nodes/{node}/{verb}", self._act)
        application.on_response_prepare.append(_add_headers)
        return application

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = {name.lower(): text for name, text in request.headers.items()}
        try:
            self._guard.check(Request(request.method, request.path, {}, headers, b""))
        except RefusedError as refused:
            return web.Response(status=refused.code, text=str(refused))
        return await handler(request)

    async def _to_page(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/ui/")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info.get("file", "index.html")
        body = self._files.get(name)
        if body is None:
            raise web.HTTPNotFound
        kind = CONTENT_TYPES[Path(name).suffix]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _story(self, request: web.Request) -> web.StreamResponse:
        story = await self._source.story(
            request.match_info["namespace"], request.match_info["name"]
        )
        if story is None:
            raise web.HTTPNotFound
        return web.Response(body=msgspec.json.encode(story), content_type="application/json")

    async def _show_token(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=self._token)

    async def _act(self, request: web.Request) -> web.StreamResponse:
        assert self._acts is not None
        if not compare_digest(request.headers.get(PROOF_HEADER, "").encode(), self._token.encode()):
            raise web.HTTPForbidden(
                text=f"{PROOF_HEADER}: reload the page, which has another token"
            )
        verb = request.match_info["verb"]
        if verb not in VERBS:
            raise web.HTTPNotFound
        try:
            return web.Response(text=await self._acts(verb, request.match_info["node"]))
        except ApiError as refused:
            return web.Response(status=refused.code, text=str(refused))

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        try:
            with self._feed.viewer() as viewer:
                await response.prepare(request)
                with viewer.scope:
                    async for event in viewer.events():
                        await response.write(event)
        except TooManyViewersError:
            raise web.HTTPServiceUnavailable(text="too many viewers") from None
        except ConnectionResetError:  # the viewer has left
            return response
        if request.transport is not None:
            request.transport.abort()
        return response


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


async def serve_page(
    source: Source,
    clock: Clock,
    listener: socket,
    allowed_hosts: Collection[str] = (),
    acts: Acts | None = None,
    *,
    task_status: TaskStatus[str],
) -> None:
    """Serves the page on a bound socket until cancelled; started with its URL. It changes nodes
    only if there are `acts`.
    """
    feed = Feed(source, clock)
    application = Page(source, feed, allowed_hosts, acts).application()
    runner = web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        task_status.started(f"http://127.0.0.1:{listener.getsockname()[1]}/ui/")
        await feed.run()
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
