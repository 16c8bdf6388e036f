"""HTTPS: the listening socket, the connections with their limits, and the requests on them.

A client that is slow with its handshake, with the head of its request or with reading the answer is
cut off. If there are too many connections, the host with the most connections loses the one that
has waited longest: so a host that opens hundreds does not keep a probe out. All together have at
most a quarter of the process's open files: the scheduler needs the others for the API server. The
protocol is HTTP/1.1. The body of a request is received only if a page asks for it, which is after
the authorization.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial

import anyio
import msgspec
from aiohttp import web
from multidict import CIMultiDict, MultiMapping

from ..process import open_files
from ..scheduling.framework.logger import get_logger
from .request import MOST_BYTES, Answer, BodyTooLongError, Request, UnreadableBodyError, text
from .tls import ServingContexts

log = get_logger(__name__)

BACKLOG = 128
MOST_CONNECTIONS = 500
MOST_OF_HOST = 250
HANDSHAKE_SECONDS = 10.0
HEAD_SECONDS = 32.0  # as kube-scheduler: from the first byte of a connection to its first request
IDLE_SECONDS = 90.0  # as kube-scheduler: between two requests
ANSWER_SECONDS = 120.0
SWEEP_SECONDS = 5.0
STOP_SECONDS = 0.5
CUT_SECONDS = 0.01  # turns of the event loop in which sockets are closed
LONGEST_HEADER = 32 << 10  # tokens are long
ALWAYS = (("Cache-Control", "no-cache, private"), ("Server", "berth"))
WORTH_COMPRESSING = 4 << 10
FAILED = text("500 internal server error\n", 500)
OFF = logging.getLogger("berth.server.http")  # of aiohttp, which would quote parts of requests
OFF.disabled = True

Respond = Callable[[Request], Awaitable[Answer]]


def listen(address: str, port: int, *, share_port: bool) -> socket.socket:
    """Returns a listening socket. Raises OSError, which names the address."""
    at = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # As Go does for every listening socket.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if address == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as problem:
        listener.close()
        number = problem.errno or 0
        words = os.strerror(number).lower() if number > 0 else str(problem)
        raise OSError(number, f"cannot listen on {at}: {words}") from None
    return listener


class _Connection(msgspec.Struct, eq=False):
    """A connection. `waits_since` is when it began to wait for its handshake or for a request; None
    during a request. `cut` ends it at once.
    """

    host: str
    waits_since: float | None
    cut: Callable[[], None]
    patience: float


class HttpsServer:
    """A server that answers the connections of a listening socket with `respond`."""

    def __init__(
        self, listener: socket.socket, contexts: ServingContexts, respond: Respond
    ) -> None:
        self._listener = listener
        self._contexts = contexts
        self._respond = respond
        files = open_files.limit()
        self._most = min(MOST_CONNECTIONS, files // 4)
        self._most_of_host = min(MOST_OF_HOST, files // 8)
        self._open: dict[asyncio.BaseTransport, _Connection] = {}
        self._greeted: dict[_Connection, None] = {}  # still in their handshake

    async def run(self) -> None:
        """Serves until cancelled."""
        server = web.Server(
            self._handle,
            access_log=None,
            logger=OFF,
            keepalive_timeout=IDLE_SECONDS,
            max_field_size=LONGEST_HEADER,
            lingering_time=0.0,
        )
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._cut_off_idle)
                while True:
                    connection, host = await self._next_connection()
                    if not self._has_room(host):
                        connection.close()
                        continue
                    scope = anyio.CancelScope()
                    now = asyncio.get_running_loop().time()
                    peer = _Connection(host, now, scope.cancel, HEAD_SECONDS)
                    self._greeted[peer] = None
                    group.start_soon(self._shake_hands, connection, peer, scope, server)
        finally:
            with anyio.CancelScope(shield=True):
                await server.shutdown(STOP_SECONDS)
                for peer in self._open.values():
                    peer.cut()  # who reads an endless answer does not say goodbye
                await anyio.sleep(CUT_SECONDS)

    async def _next_connection(self) -> tuple[socket.socket, str]:
        """Returns the next connection and its host. Too many open files only delay it."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except OSError as problem:
                log.warning("cannot accept connections", error=str(problem), repeats="accept")
                await anyio.sleep(1.0)
            else:
                return connection, address[0]

    def _has_room(self, host: str) -> bool:
        """True if another connection from this host may be served, perhaps after a waiting one was
        cut off.
        """
        self._forget_closed()
        every = [*self._greeted, *self._open.values()]
        hosts = Counter(peer.host for peer in every)
        if hosts[host] < self._most_of_host:
            if len(every) < self._most:
                return True
            host = hosts.most_common(1)[0][0]
        waiting = [
            (peer.waits_since, number, peer)
            for number, peer in enumerate(every)
            if peer.host == host and peer.waits_since is not None
        ]
        if not waiting:
            return False
        *_, longest = min(waiting)
        longest.cut()
        self._greeted.pop(longest, None)
        self._open = {key: peer for key, peer in self._open.items() if peer is not longest}
        return True

    def _forget_closed(self) -> None:
        self._open = {key: peer for key, peer in self._open.items() if not key.is_closing()}

    async def _shake_hands(
        self,
        connection: socket.socket,
        peer: _Connection,
        scope: anyio.CancelScope,
        server: web.Server,
    ) -> None:
        """Does the handshake, and passes the connection to the server."""
        loop = asyncio.get_running_loop()
        try:
            with scope:
                address = connection.getsockname()[0]
                transport, _ = await loop.connect_accepted_socket(
                    server,
                    connection,
                    ssl=self._contexts.current(address),
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=STOP_SECONDS,
                )
                assert isinstance(transport, asyncio.WriteTransport)
                peer.waits_since, peer.cut = loop.time(), transport.abort
                self._open[transport] = peer
        except (OSError, ssl.SSLError) as problem:  # time-outs are OSErrors
            log.debug("TLS handshake failed", error=str(problem))
            connection.close()
        finally:
            self._greeted.pop(peer, None)
            if scope.cancelled_caught:
                connection.close()

    async def _cut_off_idle(self) -> None:
        """Cuts off connections that have been without a request for too long."""
        while True:
            await anyio.sleep(SWEEP_SECONDS)
            now = asyncio.get_running_loop().time()
            self._forget_closed()
            for peer in self._open.values():
                if peer.waits_since is not None and now - peer.waits_since > peer.patience:
                    peer.cut()

    async def _handle(self, carried: web.BaseRequest) -> web.StreamResponse:
        async with self._busy(carried.transport):
            try:
                async with asyncio.timeout(ANSWER_SECONDS) as limit:
                    answer = await self._respond(request_of(carried))
                    return await _send_parts(carried, answer, limit)
            except (ConnectionError, TimeoutError):
                raise  # aiohttp ends the connection
            except Exception:
                log.exception("a page failed", path=carried.path)
                if carried.writer.output_size:
                    raise ConnectionAbortedError from None  # in the middle of an answer
                return _response(FAILED)

    @asynccontextmanager
    async def _busy(self, transport: asyncio.BaseTransport | None) -> AsyncIterator[None]:
        peer = None if transport is None else self._open.get(transport)
        if peer is not None:
            peer.waits_since = None
        try:
            yield
        finally:
            if peer is not None:
                peer.waits_since = asyncio.get_running_loop().time()
                peer.patience = IDLE_SECONDS


def request_of(carried: web.BaseRequest) -> Request:
    query: dict[str, list[str]] = {}
    for name, value in carried.query.items():
        query.setdefault(name, []).append(value)
    transport = carried.transport
    tls = None if transport is None else transport.get_extra_info("ssl_object")
    chain = () if tls is None else verified_chain(tls)
    return Request(
        carried.path,
        carried.method,
        query,
        _unicode_headers(carried.headers),
        chain,
        partial(_receive_body, carried),
    )


async def _receive_body(carried: web.BaseRequest) -> bytes:
    """Returns the body of a request. Raises BodyTooLongError or UnreadableBodyError."""
    if (carried.content_length or 0) > MOST_BYTES:
        raise BodyTooLongError
    if carried.headers.get("Expect", "").lower() == "100-continue":
        await carried.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        carried.writer.output_size = 0  # of the answer
    body = bytearray()
    try:
        async for part in carried.content.iter_any():
            body += part
            if len(body) > MOST_BYTES:
                raise BodyTooLongError
    except web.RequestPayloadError:
        raise UnreadableBodyError from None
    return bytes(body)


def _unicode_headers(headers: MultiMapping[str]) -> MultiMapping[str]:
    """Returns headers in which bytes that are not UTF-8 are U+FFFD, because JSON cannot hold
    them.
    """
    if all(value.isascii() for value in headers.values()):
        return headers
    return CIMultiDict(
        (name, value.encode(errors="surrogateescape").decode(errors="replace"))
        for name, value in headers.items()
    )


def verified_chain(connection: ssl.SSLObject) -> tuple[bytes, ...]:
    """Returns the client's certificate and the certificates that verify it, in DER; () if it has
    none.

    The method is public from Python 3.13 on, where it returns bytes.
    """
    if not connection.getpeercert(binary_form=True):
        return ()
    if hasattr(connection, "get_verified_chain"):
        chain: tuple[bytes, ...] = tuple(connection.get_verified_chain())
        return chain
    certificates = connection._sslobj.get_verified_chain()  # type: ignore[attr-defined]  # noqa: SLF001
    return tuple(ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in certificates or ())


def _response(answer: Answer) -> web.Response:
    assert isinstance(answer.body, bytes)
    response = web.Response(body=answer.body, status=answer.status, headers=_headers(answer))
    if len(answer.body) >= WORTH_COMPRESSING:
        response.enable_compression()  # as the client accepts
    return response


async def _send_parts(
    carried: web.BaseRequest, answer: Answer, limit: asyncio.Timeout
) -> web.StreamResponse:
    """Sends the parts of an answer as they come. An error between parts ends the connection. For an
    endless answer, the time limit applies to each part.
    """
    if isinstance(answer.body, bytes):
        return _response(answer)
    stream = web.StreamResponse(status=answer.status, headers=_headers(answer))
    await stream.prepare(carried)
    async with aclosing(answer.body) as parts:
        async for part in parts:
            if carried.method == "HEAD":
                break
            await stream.write(part)
            if answer.is_endless:
                limit.reschedule(asyncio.get_running_loop().time() + ANSWER_SECONDS)
    await stream.write_eof()
    return stream


def _headers(answer: Answer) -> list[tuple[str, str]]:
    return [("Content-Type", answer.content_type), *answer.headers, *ALWAYS]
