"""Connections for writes: each is written in one piece and its answer read in one, over connections
that last.

A bind and an event are a few hundred bytes there and back, thousands of times a second, so that
what a general HTTP client does around them would cost more than to decide about the pod. One
request at a time is under way on a connection; one that failed in any way is closed, and no request
is sent twice.

A write may need permission, which is asked for in the turn in which the bytes are given to the
kernel. They are given all at once or not at all, so that nothing which was permitted lies here to
be sent later; and what the kernel has not delivered is dropped with the connection.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Callable
from typing import NamedTuple, cast
from urllib.parse import quote, unquote, urlsplit

from berth.actors.client.reply import Reply, ReplyError, ReplyReader
from berth.actors.client.sockets import drop_at_close, keep_alive
from berth.actors.client.tls import client_context

Headers = tuple[tuple[str, str], ...]
MOST_CONNECTIONS = 100
MOST_HEADS = 16
IDLE_SECONDS = 15.0  # servers close what is idle for longer, and a request must not meet that
CLOSE_SECONDS = 1.0  # that connections have to be closed in good order
_IN_PATH = "/?&=%:,;@!$'()*+-._~"
_PLAIN_TARGET = re.compile(f"[A-Za-z0-9{re.escape(_IN_PATH)}]*")  # nothing in it to be quoted


class NotPermittedError(Exception):
    """The request was not sent, because it may not be."""


class _Wire(asyncio.Protocol):
    """One connection."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self.closed = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._lowest: asyncio.Transport | None = None  # the one that gives bytes to the kernel
        self._reader = ReplyReader()
        self._answer: asyncio.Future[Reply] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._lowest = cast(
            "asyncio.Transport", transport
        )  # uvloop's is one, but does not say so
        self._lowest.set_write_buffer_limits(high=0)  # older uvloops then write at once as well
        sock = transport.get_extra_info("socket")
        keep_alive(sock)
        drop_at_close(sock)

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
        if not self.closed.done():
            self.closed.set_result(None)
        if self._answer is not None and not self._answer.done():
            reply = self._reader.close() if exc is None else None
            if reply is not None:
                self._answer.set_result(reply)
            else:
                self._answer.set_exception(exc or _closed())

    def usable(self, now: float) -> bool:
        assert self._transport is not None
        fresh = now - self.idle_since < IDLE_SECONDS
        return fresh and not self.closed.done() and not self._transport.is_closing()

    async def ask(
        self, request: bytes, seconds: float, permits: Callable[[], bool] | None = None
    ) -> Reply:
        """Raises NotPermittedError before the request is sent, and TimeoutError if the answer is
        not there so many seconds after. The reader is at its beginning, as a wire is asked again
        only after an answer that was read to its end.
        """
        assert self._transport is not None
        assert self._lowest is not None
        if self.closed.done():
            raise _closed()
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._answer = answer
        timer = self._loop.call_later(seconds, _expire, answer, seconds)
        try:
            if permits is not None and not permits():
                raise NotPermittedError
            self._transport.write(request)
            if permits is not None and self._lowest.get_write_buffer_size():
                # The rest would be sent when there is room, permitted or not.
                raise ConnectionAbortedError("the connection did not take the request at once")
            return await answer
        finally:
            timer.cancel()
            self._answer = None

    async def secure(self, tls: ssl.SSLContext, name: str) -> None:
        """Speak TLS from now on, with who can prove to be `name`."""
        assert self._transport is not None
        self._transport = await self._loop.start_tls(
            self._transport, self, tls, server_hostname=name
        )
        if self._transport is None:
            raise _closed()

    async def tunnel(self, request: bytes, seconds: float) -> None:
        """Have a proxy connect us to the server, by this CONNECT."""
        self._reader = ReplyReader(tunnel=True)
        reply = await self.ask(request, seconds)
        if reply.status != 200:
            raise ConnectionRefusedError(f"the proxy answered HTTP {reply.status} to CONNECT")
        self._reader = ReplyReader()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Place(NamedTuple):
    """Where to connect to; `name` is what a certificate must bear."""

    host: str
    port: int
    secure: bool
    name: str


class Wires:
    """The connections to one server, at most `most` of them, of which those used last are used
    again.

    Requests wait for a connection in the order in which they came, for as long as that takes. Once
    one has its turn, `seconds` are the time for a new connection with all its handshakes, and then
    again for the whole answer, from the moment in which the request was sent. `proxy` is the URL of
    an HTTP proxy; `permits` says whether a request may be sent now, and is asked for each in the
    turn in which it is sent.
    """

    def __init__(
        self,
        server: str,
        server_name: str | None,
        headers: Headers,
        seconds: float,
        proxy: str | None = None,
        permits: Callable[[], bool] | None = None,
        most: int = MOST_CONNECTIONS,
    ) -> None:
        url = urlsplit(server)
        self._server = _place(server, server_name)
        self._proxy = None if proxy is None else _place(proxy)
        self._prefix = url.path.rstrip("/")
        self._always = (("Host", _authority(url.netloc)), *headers)
        self._connect = b""
        if proxy is not None:
            self._through(proxy, url.netloc)
        self._heads: dict[Headers, str] = {}
        self._seconds = seconds
        self._permits = permits
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Wire] = []
        self._room = asyncio.Semaphore(most)
        self._default_tls: ssl.SSLContext | None = None

    def _through(self, proxy: str, netloc: str) -> None:
        """What to tell a proxy: to connect us, or without TLS with each request where to send it
        on.
        """
        user, _, _ = urlsplit(proxy).netloc.rpartition("@")
        shown: Headers = (
            ("Proxy-Authorization", f"Basic {b64encode(unquote(user).encode()).decode()}"),
        ) * bool(user)
        if self._server.secure:
            host = f"[{self._server.host}]" if ":" in self._server.host else self._server.host
            at = f"{host}:{self._server.port}"
            self._connect = f"CONNECT {at} HTTP/1.1\r\n{_lines((('Host', at), *shown))}\r\n".encode(
                "latin-1"
            )
        else:
            self._prefix = f"http://{_authority(netloc)}{self._prefix}"
            self._always = (*self._always, *shown)

    async def request(
        self, method: str, path: str, data: bytes, headers: Headers, tls: ssl.SSLContext | None
    ) -> Reply:
        """The answer, whatever it is. Raises OSError, of which TimeoutError is one, and
        NotPermittedError.
        """
        target = self._prefix + path
        if _PLAIN_TARGET.fullmatch(target) is None:
            target = quote(target, safe=_IN_PATH)
        head = f"{method} {target} HTTP/1.1\r\n{self._fixed(headers)}Content-Length: {len(data)}\r\n\r\n"
        await self._room.acquire()
        wire, keep = self._unused(tls), False
        try:
            if wire is None:
                wire = await self._connected(tls)
            reply = await wire.ask(head.encode("latin-1") + data, self._seconds, self._permits)
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
            await asyncio.wait([wire.closed for wire in idle])

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
        """Name, connection and handshakes within the time for it."""
        wire, at = _Wire(tls), self._proxy or self._server
        try:
            async with asyncio.timeout(self._seconds):
                await self._loop.create_connection(lambda: wire, at.host, at.port)
                if self._proxy is not None and self._proxy.secure:
                    await wire.secure(self._trust(None), self._proxy.name)
                if self._connect:
                    await wire.tunnel(self._connect, self._seconds)
                if self._server.secure:
                    await wire.secure(self._trust(tls), self._server.name)
        except TimeoutError as late:
            wire.abort()
            raise TimeoutError(str(late) or f"no connection within {self._seconds:g} s") from None
        except BaseException:
            wire.abort()
            raise
        return wire

    def _trust(self, tls: ssl.SSLContext | None) -> ssl.SSLContext:
        """The context, or the machine's own trust for none."""
        if tls is None and self._default_tls is None:
            self._default_tls = client_context(None)
        trust = tls or self._default_tls
        assert trust is not None
        return trust


def _place(url: str, name: str | None = None) -> _Place:
    parts = urlsplit(url)
    assert parts.hostname is not None
    secure = parts.scheme == "https"
    shown = (name or parts.hostname).rstrip(".")  # certificates have names without it
    return _Place(parts.hostname, parts.port or (443 if secure else 80), secure, shown)


def _authority(netloc: str) -> str:
    """Host and port as the URL has them, without a user."""
    return netloc.rpartition("@")[2]


def _lines(headers: Headers) -> str:
    """Raises ValueError for a value that would not stay in its line."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or "\0" in text:
        raise ValueError(
            f"expected headers of one line each, got {', '.join(name for name, _ in headers)}"
        )
    return text


def _expire(answer: asyncio.Future[Reply], seconds: float) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError(f"no answer within {seconds:g} s"))


def _closed() -> ConnectionAbortedError:
    return ConnectionAbortedError("the server closed the connection")
