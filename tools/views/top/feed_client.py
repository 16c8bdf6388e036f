"""A client of the page of a demo: reads its feed and the stories of pods over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import quote

import aiohttp
import click
import msgspec

from berth.actors.wiring.glance import Glance

from ...answers.debug.debug_client import failures_in_words
from ...answers.feed.feed import Frame
from ...answers.feed.story import Story, read_story
from .cluster_model import Event, FeedBegan
from .view_source import LostError

SILENT_SECONDS = 30.0  # after which the connection counts as broken
STORY_SECONDS = 120.0
MOST_BYTES = 1 << 26  # of an event
_END = b"\n\n"
# Without a scheduler, a glance is null.
_TYPES: dict[bytes, Any] = {b"frame": Frame, b"glance": Glance | None}


class Page:
    """The page at a URL, as a source of views."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    async def watch(self, take: Callable[[Event], None]) -> NoReturn:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=SILENT_SECONDS)
        with lost_in_words(self._url):
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{self._url}/feed") as response,
            ):
                if response.status != HTTPStatus.OK:
                    raise LostError(f"{self._url}: {response.status} {response.reason}")
                async with aclosing(events_of(response.content.iter_any())) as events:
                    async for event in events:
                        take(event)
        raise LostError(f"{self._url}: the server has ended the connection")

    async def story(self, key: str) -> Story | None:
        namespace, _, name = key.partition("/")
        url = f"{self._url}/pods/{quote(namespace, safe='')}/{quote(name, safe='')}"
        timeout = aiohttp.ClientTimeout(total=STORY_SECONDS)
        with lost_in_words(self._url):
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url) as response,
            ):
                if response.status == HTTPStatus.NOT_FOUND:
                    return None
                if response.status != HTTPStatus.OK:
                    raise LostError(f"{self._url}: {response.status} {response.reason}")
                return read_story(await response.read())


@contextmanager
def lost_in_words(server: str) -> Iterator[None]:
    """Raises LostError in place of the failures of a request."""
    try:
        with failures_in_words(server):
            yield
    except click.ClickException as problem:
        raise LostError(problem.format_message()) from None


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Event]:
    """Yields the server-sent events of a body, without events of other names.

    Raises LostError for an event that is too long, and msgspec.MsgspecError for an event that
    cannot be read.
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
        return FeedBegan()
    kind = _TYPES.get(name)
    return None if kind is None else msgspec.json.decode(data, type=kind)
