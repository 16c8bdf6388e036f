"""Connections for small requests: each is written in one piece and its answer read in one, over connections that last.

A bind and an event are a few hundred bytes there and back, thousands of times a second, so that what a general HTTP
client does around them would cost more than to decide about the pod. One request at a time is under way on a
connection; one that failed in any way is closed, and no request is sent twice.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import cast
from urllib.parse import quote, urlsplit

from actors.client.reply import Reply, ReplyError, ReplyReader

Headers = tuple[tuple[str, str], ...]
MOST_CONNECTIONS = 100
MOST_HEADS = 16
IDLE_SECONDS = 15.0  # servers close what is idle for longer, and a request must not meet that
CLOSE_SECONDS = 1.0
_IN_PATH = "/?&=%:,;@!$'()*+-._~"
_PLAIN_TARGET = re.compile(f"[A-Za-z0-9{re.escape(_IN_PATH)}]*")  # nothing in it to be quoted


class _Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self.closed = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._reader = ReplyReader()
        self._answer: asyncio.Future[Reply] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, but does not say so

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.done():
            self.abort()  # nothing was asked
            return
        try:
            reply = self._reader.feed(data)
        except ReplyError as problem:
            answer.set_exception(problem)
            return
        if reply is not None:
            answer.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)
        if self._answer is not None and not self._answer.done():
            reply = self._reader.close() if exc is None else None
            if reply is not None:
                self._answer.set_result(reply)
            else:
                self._answer.set_exception(exc or ConnectionAbortedError("the server closed the connection"))

    def usable(self, now: float) -> bool:
        assert self._transport is not None
        fresh = now - self.idle_since < IDLE_SECONDS
        return fresh and not self.closed.done() and not self._transport.is_closing()

    async def ask(self, request: bytes, deadline: float) -> Reply:
        """Raises TimeoutError once the loop's time is past the deadline. The reader is at its beginning, as a wire is
        asked again only after an answer that was read to its end.
        """
        assert self._transport is not None
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._answer = answer
        timer = self._loop.call_at(deadline, _expire, answer)
        try:
            self._transport.write(request)
            return await answer
        finally:
            timer.cancel()
            self._answer = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Wires:
    """The connections to one server, at most MOST_CONNECTIONS, of which those used last are used again.

    A request has `seconds` for everything, from the wait for a connection to the last byte of the answer.
    """

    def __init__(self, server: str, server_name: str | None, headers: Headers, seconds: float) -> None:
        url = urlsplit(server)
        assert url.hostname is not None
        self._host = url.hostname
        self._secure = url.scheme == "https"
        self._port = url.port or (443 if self._secure else 80)
        self._server_name = server_name or url.hostname
        self._prefix = url.path.rstrip("/")
        self._always = (("Host", url.netloc.rpartition("@")[2]), *headers)
        self._heads: dict[Headers, str] = {}
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Wire] = []
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)
        self._default_tls: ssl.SSLContext | None = None

    async def request(self, method: str, path: str, data: bytes, headers: Headers, tls: ssl.SSLContext | None) -> Reply:
        """The answer, whatever it is. Raises OSError, of which TimeoutError is one."""
        target = self._prefix + path
        if _PLAIN_TARGET.fullmatch(target) is None:
            target = quote(target, safe=_IN_PATH)
        head = f"{method} {target} HTTP/1.1\r\n{self._fixed(headers)}Content-Length: {len(data)}\r\n\r\n"
        deadline = self._loop.time() + self._seconds
        if self._room.locked():
            async with asyncio.timeout_at(deadline):
                await self._room.acquire()
        else:
            await self._room.acquire()
        wire, keep = self._unused(tls), False
        try:
            if wire is None:
                async with asyncio.timeout_at(deadline):
                    wire = await self._connected(tls)
            reply = await wire.ask(head.encode("latin-1") + data, deadline)
            keep = reply.keep
        finally:
            self._room.release()
            if wire is not None and keep:
                wire.idle_since = self._loop.time()
                self._idle.append(wire)
            elif wire is not None:
                wire.abort()
        return reply

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for wire in idle:
            wire.abort()
        if idle:
            await asyncio.wait([wire.closed for wire in idle], timeout=CLOSE_SECONDS)

    def _fixed(self, headers: Headers) -> str:
        """The lines of headers that are the same in most requests."""
        lines = self._heads.get(headers)
        if lines is None:
            if len(self._heads) == MOST_HEADS:
                self._heads.clear()  # tokens are rotated
            lines = self._heads[headers] = _lines((*self._always, *headers))
        return lines

    def _unused(self, tls: ssl.SSLContext | None) -> _Wire | None:
        now = self._loop.time()
        while self._idle:
            wire = self._idle.pop()
            if wire.tls is tls and wire.usable(now):
                return wire
            wire.abort()
        return None

    async def _connected(self, tls: ssl.SSLContext | None) -> _Wire:
        loop, name = self._loop, self._server_name
        if not self._secure:
            _, wire = await loop.create_connection(lambda: _Wire(tls), self._host, self._port)
            return wire
        if tls is None and self._default_tls is None:
            self._default_tls = ssl.create_default_context()
        context = tls or self._default_tls
        _, wire = await loop.create_connection(
            lambda: _Wire(tls), self._host, self._port, ssl=context, server_hostname=name
        )
        return wire


def _lines(headers: Headers) -> str:
    """Raises ValueError for a value that would not stay in its line."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or "\0" in text:
        raise ValueError(f"expected headers of one line each, got {', '.join(name for name, _ in headers)}")
    return text


def _expire(answer: asyncio.Future[Reply]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
