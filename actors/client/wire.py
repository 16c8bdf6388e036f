"""Persistent connections for writes, each sent in one piece.

A bind or an event is a few hundred bytes each way, thousands of times a second. The overhead of a
general HTTP client would cost more than the decision about the pod. A connection carries one
request at a time. After any failure it is closed, and no request is sent twice.

A write may need permission, which is checked in the same turn of the event loop in which the bytes
are passed to the kernel. They are passed all at once or not at all, so that no permitted bytes
remain here to be sent later. Bytes that the kernel has not delivered are discarded when the
connection is closed.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Callable
from typing import NamedTuple, cast
from urllib.parse import quote, unquote, urlsplit

from .reply import Reply, ReplyError, ReplyReader
from .sockets import drop_at_close, keep_alive
from .tls import client_context

Headers = tuple[tuple[str, str], ...]
MAX_CONNECTIONS = 100
MAX_HEADS = 16
# Servers close connections that are idle for longer; a request must not be sent at that moment.
IDLE_SECONDS = 15.0
CLOSE_SECONDS = 1.0  # the time for closing connections in order
_IN_PATH = "/?&=%:,;@!$'()*+-._~"
_SAFE_TARGET = re.compile(f"[A-Za-z0-9{re.escape(_IN_PATH)}]*")  # needs no percent-encoding


class NotPermittedError(Exception):
    """The request was not sent, because it was not permitted."""


class _Wire(asyncio.Protocol):
    """A connection that carries one request at a time."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self.closed = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._lowest: asyncio.Transport | None = None  # passes bytes to the kernel
        self._reader = ReplyReader()
        self._answer: asyncio.Future[Reply] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is one, but does not inherit from it.
        self._transport = self._lowest = cast("asyncio.Transport", transport)
        self._lowest.set_write_buffer_limits(high=0)  # makes older uvloops write at once as well
        sock = transport.get_extra_info("socket")
        keep_alive(sock)
        drop_at_close(sock)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.done():
            self.abort()  # no request is waiting for an answer
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
                self._answer.set_exception(exc or _closed_error())

    def usable(self, now: float) -> bool:
        assert self._transport is not None
        fresh = now - self.idle_since < IDLE_SECONDS
        return fresh and not self.closed.done() and not self._transport.is_closing()

    async def ask(
        self, request: bytes, seconds: float, permits: Callable[[], bool] | None = None
    ) -> Reply:
        """Sends a request and returns its answer.

        Raises NotPermittedError without sending it, and TimeoutError if the answer does not arrive
        within `seconds` after sending. A wire is used again only after it has read a complete
        answer, so the reader is in its initial state here.
        """
        assert self._transport is not None
        assert self._lowest is not None
        if self.closed.done():
            raise _closed_error()
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._answer = answer
        timer = self._loop.call_later(seconds, _fail_after_timeout, answer, seconds)
        try:
            if permits is not None and not permits():
                raise NotPermittedError
            self._transport.write(request)
            if permits is not None and self._lowest.get_write_buffer_size():
                # The rest would be sent later, whether it is still permitted or not.
                raise ConnectionAbortedError("the connection did not take the request at once")
            return await answer
        finally:
            timer.cancel()
            self._answer = None

    async def secure(self, tls: ssl.SSLContext, name: str) -> None:
        """Switches to TLS, with a server whose certificate has this name."""
        assert self._transport is not None
        self._transport = await self._loop.start_tls(
            self._transport, self, tls, server_hostname=name
        )
        if self._transport is None:
            raise _closed_error()

    async def tunnel(self, request: bytes, seconds: float) -> None:
        """Makes a proxy connect to the server, with this CONNECT request."""
        self._reader = ReplyReader(tunnel=True)
        reply = await self.ask(request, seconds)
        if reply.status != 200:
            raise ConnectionRefusedError(f"the proxy answered HTTP {reply.status} to CONNECT")
        self._reader = ReplyReader()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Place(NamedTuple):
    """An address to connect to; `name` is the name that its certificate must have."""

    host: str
    port: int
    secure: bool
    name: str


class Wires:
    """The connections to one server, at most `max_connections`.

    Of the idle connections, the most recently used one is taken next. Requests wait for a
    connection in the order of their arrival, for any length of time. Then `seconds` limits the time
    for a new connection with all its handshakes, and again the time from sending the request to the
    complete answer. `proxy` is the URL of an HTTP proxy. `permits` returns whether a request may be
    sent now; it is called for each request, in the turn of the event loop in which the request is
    sent.
    """

    def __init__(
        self,
        server: str,
        server_name: str | None,
        headers: Headers,
        seconds: float,
        proxy: str | None = None,
        permits: Callable[[], bool] | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        url = urlsplit(server)
        self._server = _place_of(server, server_name)
        self._proxy = None if proxy is None else _place_of(proxy)
        self._prefix = url.path.rstrip("/")
        self._always = (("Host", _authority(url.netloc)), *headers)
        self._connect = b""
        if proxy is not None:
            self._use_proxy(proxy, url.netloc)
        self._heads: dict[Headers, str] = {}
        self._seconds = seconds
        self._permits = permits
        self._loop = asyncio.get_running_loop()
        self._idle: list[_Wire] = []
        self._free = asyncio.Semaphore(max_connections)
        self._default_tls: ssl.SSLContext | None = None

    def _use_proxy(self, proxy: str, netloc: str) -> None:
        """Prepares the CONNECT request, or without TLS the full URL that each request needs."""
        user, _, _ = urlsplit(proxy).netloc.rpartition("@")
        credentials: Headers = (
            ("Proxy-Authorization", f"Basic {b64encode(unquote(user).encode()).decode()}"),
        ) * bool(user)
        if self._server.secure:
            host = f"[{self._server.host}]" if ":" in self._server.host else self._server.host
            at = f"{host}:{self._server.port}"
            self._connect = (
                f"CONNECT {at} HTTP/1.1\r\n{_lines((('Host', at), *credentials))}\r\n".encode(
                    "latin-1"
                )
            )
        else:
            self._prefix = f"http://{_authority(netloc)}{self._prefix}"
            self._always = (*self._always, *credentials)

    async def request(
        self, method: str, path: str, data: bytes, headers: Headers, tls: ssl.SSLContext | None
    ) -> Reply:
        """Sends a request and returns its answer, whatever the status.

        Raises OSError (TimeoutError is one) and NotPermittedError.
        """
        target = self._prefix + path
        if _SAFE_TARGET.fullmatch(target) is None:
            target = quote(target, safe=_IN_PATH)
        fields = f"{self._fixed_headers(headers)}Content-Length: {len(data)}\r\n"
        head = f"{method} {target} HTTP/1.1\r\n{fields}\r\n"
        await self._free.acquire()
        wire, keep = self._idle_connection(tls), False
        try:
            if wire is None:
                wire = await self._open_connection(tls)
            reply = await wire.ask(head.encode("latin-1") + data, self._seconds, self._permits)
            keep = reply.keep
        finally:
            self._free.release()
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

    def _fixed_headers(self, headers: Headers) -> str:
        """Returns the header lines. They are cached, because most requests have the same
        headers.
        """
        lines = self._heads.get(headers)
        if lines is None:
            if len(self._heads) == MAX_HEADS:
                self._heads.clear()  # the headers change when a token is rotated
            lines = self._heads[headers] = _lines((*self._always, *headers))
        return lines

    def _idle_connection(self, tls: ssl.SSLContext | None) -> _Wire | None:
        now = self._loop.time()
        while self._idle:
            wire = self._idle.pop()
            if wire.tls is tls and wire.usable(now):
                return wire
            wire.abort()
        return None

    async def _open_connection(self, tls: ssl.SSLContext | None) -> _Wire:
        """Resolves the name, connects, and does all handshakes, within the time limit."""
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
        """Returns the context; for None, one that trusts the machine's authorities."""
        if tls is None and self._default_tls is None:
            self._default_tls = client_context(None)
        trust = tls or self._default_tls
        assert trust is not None
        return trust


def _place_of(url: str, name: str | None = None) -> _Place:
    parts = urlsplit(url)
    assert parts.hostname is not None
    secure = parts.scheme == "https"
    certified = (name or parts.hostname).rstrip(".")  # names in certificates have no final dot
    return _Place(parts.hostname, parts.port or (443 if secure else 80), secure, certified)


def _authority(netloc: str) -> str:
    """Returns host and port as in the URL, without a user."""
    return netloc.rpartition("@")[2]


def _lines(headers: Headers) -> str:
    """Formats headers. Raises ValueError for a value that contains a line break or a NUL."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or "\0" in text:
        raise ValueError(
            f"expected headers of one line each, got {', '.join(name for name, _ in headers)}"
        )
    return text


def _fail_after_timeout(answer: asyncio.Future[Reply], seconds: float) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError(f"no answer within {seconds:g} s"))


def _closed_error() -> ConnectionAbortedError:
    return ConnectionAbortedError("the server closed the connection")
