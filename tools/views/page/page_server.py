"""Serves the page over HTTP: its files, the feed as server-sent events, and the stories of pods.

No method but GET and HEAD has a route, unless the page is served with more: then nodes are changed,
what-ifs asked, or their steps taken, by POST, with a token that only pages of the same origin can
read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from secrets import compare_digest, token_urlsafe
from socket import socket
from typing import Protocol

import anyio
import msgspec
from aiohttp import web
from anyio.abc import TaskStatus

from berth.actors.client.rest import ApiError
from berth.actors.runtime.clock import Clock
from berth.actors.server.request import MOST_BYTES

from ...answers.feed.feed import Feed, TooManyViewersError
from ...answers.feed.feed_source import Source
from ...answers.feed.node_actions import VERBS
from ...answers.feed.offers import Offers, Weights
from ...kubernetes.api.requests.origins import Guard
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.types.api_documents import RefusedError
from .page_files import FILES, HEADERS, INDEX

SHUTDOWN_SECONDS = 0.5
PROOF_HEADER = "X-Berth-Token"
Acts = Callable[[str, str], Awaitable[str]]  # does one of VERBS to a node; see acting
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Asks(Protocol):
    """The answers to what-ifs. `weights` are the weights of score plugins, by profile."""

    @property
    def weights(self) -> Weights: ...

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Answers a question in the body of a request."""
        ...


class PageServer:
    """The answers of the page."""

    def __init__(
        self,
        source: Source,
        feed: Feed,
        allowed_hosts: Collection[str] = (),
        acts: Acts | None = None,
        asks: Asks | None = None,
        does: Handler | None = None,
    ) -> None:
        self._source = source
        self._acts = acts
        self._asks = asks
        self._does = does
        self._token = token_urlsafe()
        self._feed = feed
        self._guard = Guard(allowed_hosts)

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._guarded], client_max_size=MOST_BYTES)
        self.add_to(application)
        return application

    def add_to(self, application: web.Application) -> None:
        """Adds the page to an application that authorizes its clients."""
        application.router.add_get("/", self._to_page)
        application.router.add_get("/ui", self._to_page)
        application.router.add_get("/ui/", self._file)
        application.router.add_get("/ui/feed", self._events, allow_head=False)
        application.router.add_get("/ui/pods/{namespace}/{name}", self._story)
        application.router.add_get("/ui/offers", self._show_offers)
        application.router.add_get("/ui/{file}", self._file)
        if self._acts is not None:
            application.router.add_post("/ui/nodes/{node}/{verb}", self._act)
        if self._asks is not None:
            application.router.add_post("/ui/whatif", self._ask)
        if self._does is not None:
            application.router.add_post("/ui/steps", self._do)
        application.on_response_prepare.append(_add_headers)

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        headers = {name.lower(): text for name, text in request.headers.items()}
        try:
            self._guard.check(HttpRequest(request.method, request.path, {}, headers, b""))
        except RefusedError as refused:
            return web.Response(status=refused.code, text=str(refused))
        return await handler(request)

    async def _to_page(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/ui/")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file = FILES.get(request.match_info.get("file", INDEX))
        if file is None:
            raise web.HTTPNotFound
        return web.Response(body=file.body, headers={"Content-Type": file.content_type})

    async def _story(self, request: web.Request) -> web.StreamResponse:
        story = await self._source.story(
            request.match_info["namespace"], request.match_info["name"]
        )
        if story is None:
            raise web.HTTPNotFound
        return web.Response(body=msgspec.json.encode(story), content_type="application/json")

    async def _show_offers(self, request: web.Request) -> web.StreamResponse:
        asks = self._asks
        weights = {} if asks is None else asks.weights
        offers = Offers(
            self._token,
            self._acts is not None,
            asks is not None,
            self._does is not None,
            self._source.schedules,
            weights,
        )
        return web.Response(body=msgspec.json.encode(offers), content_type="application/json")

    def _prove(self, request: web.Request) -> None:
        if not compare_digest(request.headers.get(PROOF_HEADER, "").encode(), self._token.encode()):
            raise web.HTTPForbidden(
                text=f"{PROOF_HEADER}: reload the page, which has another token"
            )

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        assert self._asks is not None
        self._prove(request)
        return await self._asks.respond(request)

    async def _do(self, request: web.Request) -> web.StreamResponse:
        assert self._does is not None
        self._prove(request)
        return await self._does(request)

    async def _act(self, request: web.Request) -> web.StreamResponse:
        assert self._acts is not None
        self._prove(request)
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
    asks: Asks | None = None,
    does: Handler | None = None,
    *,
    task_status: TaskStatus[str],
) -> None:
    """Serves the page on a bound socket until cancelled; started with its URL. It changes nodes
    only if there are `acts`, answers what-ifs only if there are `asks`, and takes their steps for
    real only if `does` answers such requests.
    """
    feed = Feed(source, clock)
    application = PageServer(source, feed, allowed_hosts, acts, asks, does).application()
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
