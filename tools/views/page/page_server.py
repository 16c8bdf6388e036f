"""Serves pages on a port of this machine, by aiohttp, to the users of the machine only.

Clients need no credentials, so requests that foreign web pages make are refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, asynccontextmanager
from socket import socket

import anyio
import msgspec
from aiohttp import web
from anyio.abc import TaskStatus

from berth.actors.runtime.clock import Clock
from berth.actors.server.https import request_of
from berth.actors.server.request import Answer, Request, text
from berth.actors.server.site import Page

from ...answers.feed.feed import Feed
from ...answers.feed.feed_source import Source
from ...answers.whatif.whatif_endpoint import WhatIfs
from ...kubernetes.api.requests.origins import Guard
from ...kubernetes.api.types.api_documents import RefusedError
from .page import Acts, ClusterPage
from .page_files import HEADERS

SHUTDOWN_SECONDS = 0.5
UNREAD_SECONDS = 30.0  # after which a client that reads no further is left


class LocalSite:
    """The site of the answers of `show`, whose clients may do everything."""

    def __init__(self, show: Page, allowed_hosts: Collection[str] = ()) -> None:
        self._show = show
        self._guard = Guard(allowed_hosts)

    async def respond(self, carried: web.BaseRequest) -> web.StreamResponse:
        answer = await self._answer(request_of(carried))
        headers = {**dict(answer.headers), **HEADERS, "Content-Type": answer.content_type}
        if isinstance(answer.body, bytes):
            return web.Response(body=answer.body, status=answer.status, headers=headers)
        stream = web.StreamResponse(status=answer.status, headers=headers)
        async with aclosing(answer.body) as parts:
            try:
                await stream.prepare(carried)
                async for part in parts:
                    if carried.method == "HEAD":
                        return stream
                    with anyio.fail_after(UNREAD_SECONDS):
                        await stream.write(part)
            except (ConnectionResetError, TimeoutError):  # The client has left, or reads no more.
                if carried.transport is not None:
                    carried.transport.abort()
        return stream

    async def _answer(self, request: Request) -> Answer:
        try:
            self._guard.check(request.headers)
        except RefusedError as refused:
            return text(str(refused), refused.code)
        return await self._show(msgspec.structs.replace(request, may=_may))


async def _may(_method: str, _path: str) -> bool:
    return True


@asynccontextmanager
async def local_site(
    show: Page, listener: socket, allowed_hosts: Collection[str] = ()
) -> AsyncIterator[str]:
    """Serves the answers of `show` on a bound socket during the block; yields the URL."""
    site = LocalSite(show, allowed_hosts)
    server = web.Server(site.respond, access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


async def serve_page(
    source: Source,
    clock: Clock,
    listener: socket,
    allowed_hosts: Collection[str] = (),
    acts: Acts | None = None,
    asks: WhatIfs | None = None,
    does: Page | None = None,
    *,
    task_status: TaskStatus[str],
) -> None:
    """Serves the page on a bound socket until cancelled; started with its URL."""
    feed = Feed(source, clock)
    show = ClusterPage(source, feed, acts, asks, does).show
    async with local_site(show, listener, allowed_hosts) as url:
        task_status.started(f"{url}/ui/")
        await feed.run()
