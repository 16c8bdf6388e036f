"""Reads the feed of a page over HTTP, and the stories of pods."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Protocol
from urllib.parse import quote

import aiohttp
import click
import msgspec

from berth.actors.wiring.glance import Glance

from ..debug.access import Access, Trust
from ..debug.asking import failures_in_words, refusal
from ..page.feed import Frame
from .model import Began, Event
from .told import Told

SILENT_SECONDS = 30.0  # after which the connection counts as broken
STORY_SECONDS = 120.0
MOST_BYTES = 1 << 26  # of an event
Reach = Callable[[], AbstractAsyncContextManager[tuple[str, Access]]]
_END = b"\n\n"
_TYPES: dict[bytes, type[Frame | Glance]] = {b"frame": Frame, b"glance": Glance}


class LostError(Exception):
    """There is no connection."""


class Watched(Protocol):
    """What `berth top` looks at."""

    def events(self) -> AsyncGenerator[Event]:
        """Yields the cluster as it is now, then its changes. Raises LostError when that ends."""
        ...

    async def story(self, key: str) -> Told | None:
        """Returns the story of a pod; None if there is no such pod. Raises LostError."""
        ...


class Remote:
    """The feed and the stories of a server that has the page at /ui."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def events(self) -> AsyncGenerator[Event]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=SILENT_SECONDS)
        async with self._get("/ui/feed", timeout) as response:
            if response.status != HTTPStatus.OK:
                raise LostError(refusal(response.status, await response.read()))
            chunks = response.content.iter_any()
            async with aclosing(events_of(chunks)) as events:
                async for event in events:
                    yield event
        raise LostError("the server has ended the connection")

    async def story(self, key: str) -> Told | None:
        namespace, _, name = key.partition("/")
        path = f"/ui/pods/{quote(namespace, safe='')}/{quote(name, safe='')}"
        async with self._get(path, aiohttp.ClientTimeout(total=STORY_SECONDS)) as response:
            body = await response.read()
            if response.status == HTTPStatus.NOT_FOUND:
                return None
            if response.status != HTTPStatus.OK:
                raise LostError(refusal(response.status, body))
            return msgspec.json.decode(body, type=Told)

    @asynccontextmanager
    async def _get(
        self, path: str, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            with failures_in_words("the scheduler"):
                async with (
                    self._reach() as (server, access),
                    aiohttp.ClientSession(timeout=timeout) as session,
                ):
                    with failures_in_words(server):
                        headers, tls = await access.proof()
                        url = server.rstrip("/") + path
                        async with session.get(url, headers=headers, ssl=tls) as response:
                            yield response
        except click.ClickException as problem:
            raise LostError(problem.format_message()) from None


@asynccontextmanager
async def page_at(url: str) -> AsyncIterator[tuple[str, Access]]:
    """Yields the server of a page, which asks for no credentials."""
    yield url.rstrip("/").removesuffix("/ui"), Access(None, Trust(None, insecure=False))


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Event]:
    """Yields the server-sent events of a body, without those of other names. Raises LostError for
    one that is too long, and msgspec.MsgspecError for one that cannot be read.
    """
    held = bytearray()
    async for chunk in chunks:
        searched = max(0, len(held) - 1)
        held += chunk
        while (end := held.find(_END, searched)) >= 0:
            event = _event(bytes(held[:end]))
            del held[: end + len(_END)]
            searched = 0
            if event is not None:
                yield event
        if len(held) > MOST_BYTES:
            raise LostError("the server sent an event that is too long")


def _event(lines: bytes) -> Event | None:
    name, _, data = lines.removeprefix(b"event: ").partition(b"\ndata: ")
    if name == b"begin":
        return Began()
    kind = _TYPES.get(name)
    return None if kind is None else msgspec.json.decode(data, type=kind)
