"""HTTP/1.1 for the embedded API server: whole requests; answers in one piece or as a stream.

Most requests are small writes that need no waiting, so a request is answered as soon as its last
byte has been read, without a task. Requests on one connection are answered in their order. If a
client does not read its answers, the server sends it no more answers and reads no more requests. A
connection can be upgraded to another protocol, such as WebSocket.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Protocol, cast

import msgspec

from ...kubernetes.api.requests.request import CertificateSubject, HttpRequest
from .content_encoding import LARGE, compressed, is_to_compress
from .http_reader import BadRequestError, RequestReader
from .upgraded_connection import UpgradedConnection

STOP_SECONDS = 0.5
# Turns of the loop until a connection that was just accepted is among the open ones. asyncio leaves
# the socket of one open for ever if its server was closed before that.
ACCEPT_TURNS = 4
# As in kube-apiserver. Also the limit for an endless request and for an answer that nobody reads.
IDLE_SECONDS = 90.0
STREAM_IDLE_SECONDS = 4 * 3600.0  # of an upgraded connection, as in the kubelet
SWEEP_SECONDS = 10.0
LINGER_SECONDS = 2.0
QUICKLY_COMPRESSED = 512 << 10  # bytes of a body; a longer one is compressed in a thread
MOST_WAITING = 64 << 10  # bytes of requests that wait while the one before them is answered
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}


class Response(msgspec.Struct, frozen=True):
    """An answer in one piece. `retry_after` is in seconds; 0 leaves the header out. `encoding` is
    that of the body, such as gzip.
    """

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    warnings: tuple[str, ...] = ()
    retry_after: int = 0
    encoding: str = ""


class Stream:
    """An answer sent in chunks. Raises ConnectionResetError once the client has left."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write(self, data: bytes) -> None:
        await self._connection.send(b"%x\r\n%b\r\n" % (len(data), data))


class Gate(Protocol):
    """Holds answers back until what they tell of is on the disk."""

    @property
    def pending(self) -> bool: ...

    def when_on_disk(self, tell: Callable[[bool], None], /) -> None: ...

    async def settled(self) -> bool: ...


Feed = Callable[[Stream], Awaitable[None]]


class Streamed(msgspec.Struct, frozen=True):
    """An answer in chunks of another type than JSON."""

    feed: Feed
    content_type: str


class Upgrade(msgspec.Struct, frozen=True):
    """An answer with 101: from here on the connection is `run`'s, and is closed after it."""

    headers: dict[str, str]
    run: Callable[[UpgradedConnection], Awaitable[None]]


class Later(msgspec.Struct, frozen=True):
    """An answer in one piece that is not known yet. Instead of it, `find` may raise
    ConnectionResetError, which ends the connection.
    """

    find: Callable[[], Awaitable[Response]]


# An answer that goes on: in chunks of JSON or of another type, or in another protocol.
Follow = Feed | Streamed | Upgrade | Later
Answer = Callable[[HttpRequest], Response | Follow]


async def in_one(answer: Response | Follow) -> Response:
    """Returns an answer in one piece, as soon as it is known. Raises ConnectionResetError for one
    that goes on.
    """
    while isinstance(answer, Later):
        answer = await answer.find()
    if not isinstance(answer, Response):
        raise ConnectionResetError("not an answer in one piece")
    return answer


class Wire(Protocol):
    """What lies between a server and its clients. `connections` are the open ones; `control` is the
    URL of its control, "" without one.
    """

    control: str
    connections: set[Connection]

    def around(self, inner: Answer, /) -> Answer: ...


class Connection(asyncio.Protocol):
    """The connection of one client. While it is open, it is among the `open_ones`."""

    def __init__(self, answer: Answer, open_ones: set[Connection], gate: Gate | None) -> None:
        self._answer = answer
        self._gate = gate
        self._held = False  # an answer waits at the gate
        self._open_ones = open_ones
        self._loop = asyncio.get_running_loop()
        self.gone = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._reader = RequestReader()
        self._following: asyncio.Task[None] | None = None
        self._upgraded: UpgradedConnection | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self._refused = False
        self._idle_since = self._loop.time()
        self._unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport has these methods, but is no subclass
        self._transport = cast("asyncio.Transport", transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self._reader.certificate = subject_of(certificate)
        self._open_ones.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_ones.discard(self)
        self.gone.set()
        self._transport = None
        self._writable.set()
        if self._upgraded is not None:
            self._upgraded.end()
        if self._following is not None:
            self._following.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        self._answer_waiting()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._upgraded is not None:
            self._idle_since = self._loop.time()
            self._upgraded.feed(data)
            return
        if not self._reader:
            self._idle_since = self._loop.time()
        self._reader.feed(data)
        self._answer_waiting()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close_if_idle(self) -> None:
        """Closes the connection if the client has sent no complete request, or read no answer, for
        a long time.
        """
        if self._transport is None:
            return
        if self._upgraded is not None:
            if self._loop.time() - self._idle_since > STREAM_IDLE_SECONDS:
                self.abort()
            return
        if self._following is not None:
            return
        unsent, self._unsent = self._unsent, self._transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._idle_since = self._loop.time()
        elif self._loop.time() - self._idle_since > IDLE_SECONDS:
            self.abort()

    async def send(self, data: bytes) -> None:
        await self._writable.wait()
        if self._gate is not None and self._gate.pending and not await self._gate.settled():
            raise ConnectionResetError("what is written cannot be put on the disk")
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client has left")
        self._transport.write(data)

    def _answer_waiting(self) -> None:
        """Answers all whole requests that have arrived, as long as the client reads its answers."""
        ended = False
        try:
            while self._listening():
                if not self._answer_next():
                    break
            ended = True
        finally:
            if not ended:
                self.abort()
        self._pause_reading(
            len(self._reader) > MOST_WAITING and not self._listening() and not self._refused
        )

    def _listening(self) -> bool:
        free = self._following is None and self._writable.is_set()
        free = free and not self._refused and not self._held
        return free and self._transport is not None and not self._transport.is_closing()

    def _pause_reading(self, paused: bool) -> None:
        if (
            paused != self._paused
            and self._transport is not None
            and not self._transport.is_closing()
        ):
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _answer_next(self) -> bool:
        """Answers the next request. Returns False if there is no whole request."""
        assert self._transport is not None
        try:
            request = self._reader.next()
        except BadRequestError as problem:
            self._refuse(problem)
            return False
        if request is None:
            if self._reader.expects_continue():
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return False
        answer = self._answer(request)
        if isinstance(answer, Upgrade):
            self._hand_over(answer)
            return False
        if isinstance(answer, Later):
            self._following = asyncio.create_task(self._answer_later(answer, request))
            return True
        if not isinstance(answer, Response):
            self._following = asyncio.create_task(self._follow(answer, keep=request.keep))
            return True
        self._answer_in_one(answer, request)
        return True

    def _answer_in_one(self, answer: Response, request: HttpRequest) -> None:
        if request.method == "HEAD" or not is_to_compress(answer.body, request.headers):
            self._pass_gate(answer, request)
        elif len(answer.body) <= QUICKLY_COMPRESSED:
            self._pass_gate(_in_gzip(answer, compressed(answer.body)), request)
        else:
            self._held = True
            running = self._loop.run_in_executor(None, compressed, answer.body)
            running.add_done_callback(lambda body: self._pass_compressed(answer, body, request))

    async def _answer_later(self, later: Later, request: HttpRequest) -> None:
        ended = False
        try:
            answer = await later.find()
            ended = True
        except ConnectionResetError:
            return
        finally:
            self._following = None
            self._idle_since = self._loop.time()
            if not ended:
                self.abort()
        if self._transport is not None and not self._transport.is_closing():
            self._answer_in_one(answer, request)
            self._answer_waiting()

    def _pass_compressed(
        self, answer: Response, body: asyncio.Future[bytes], request: HttpRequest
    ) -> None:
        self._held = False
        if not body.cancelled() and self._listening():
            self._pass_gate(_in_gzip(answer, body.result()), request)
            self._answer_waiting()

    def _pass_gate(self, answer: Response, request: HttpRequest) -> None:
        """Sends an answer, at once or when all that it tells of is on the disk."""
        if self._gate is not None and self._gate.pending:
            self._held = True
            self._gate.when_on_disk(lambda works: self._release(answer, request, works))
        else:
            self._send_answer(answer, request)

    def _send_answer(self, answer: Response, request: HttpRequest) -> None:
        assert self._transport is not None
        head = _head(answer, len(answer.body), keep=request.keep)
        if request.method == "HEAD":
            self._transport.write(head)
        elif len(answer.body) < LARGE:
            self._transport.write(head + answer.body)
        else:
            self._transport.write(head)
            self._transport.write(answer.body)  # without a copy
        if not request.keep:
            self._transport.close()

    def _release(self, answer: Response, request: HttpRequest, works: bool) -> None:
        """Sends the answer that waited at the gate. If the disk failed, the client is left without
        one, as by a crash.
        """
        self._held = False
        if self._transport is None or self._transport.is_closing():
            return
        if not works:
            self.abort()
            return
        self._send_answer(answer, request)
        self._answer_waiting()

    def _refuse(self, problem: BadRequestError) -> None:
        """Sends the last answer.

        The connection stays open for a moment, so that a client that is still sending can read it.
        """
        assert self._transport is not None
        body = str(problem).encode()
        self._transport.write(
            _head(Response(body, problem.status, "text/plain"), len(body), keep=False) + body
        )
        if self._transport.can_write_eof():  # not over TLS
            self._transport.write_eof()
        self._refused = True
        self._loop.call_later(LINGER_SECONDS, self.abort)

    def _hand_over(self, answer: Upgrade) -> None:
        """Gives the connection away, with the bytes that came after the request."""
        assert self._transport is not None
        lines = [f"{name}: {value}\r\n" for name, value in answer.headers.items()]
        head = f"{_STATUS_LINES[101]}{''.join(lines)}\r\n"
        self._transport.write(head.encode("latin-1"))
        self._upgraded = UpgradedConnection(
            self._reader.take_rest(), self._send_upgraded, self._pause_reading
        )
        self._following = asyncio.create_task(self._run(answer, self._upgraded))

    async def _send_upgraded(self, data: bytes) -> None:
        self._idle_since = self._loop.time()
        await self.send(data)

    async def _run(self, answer: Upgrade, upgraded: UpgradedConnection) -> None:
        """Runs what an upgraded connection is for. The connection stays open for a moment after
        it, so that a client that is still sending can read the end.
        """
        ended = False
        try:
            await answer.run(upgraded)
            if self._transport is not None and self._transport.can_write_eof():
                self._transport.write_eof()
            async with asyncio.timeout(LINGER_SECONDS):
                while await upgraded.read():
                    pass
            ended = True
        except (ConnectionResetError, TimeoutError):
            return
        finally:
            if ended:
                self.close()
            else:
                self.abort()

    async def _follow(self, answer: Feed | Streamed, *, keep: bool) -> None:
        ended = False
        streamed = answer if isinstance(answer, Streamed) else Streamed(answer, "application/json")
        try:
            await self.send(
                _head(Response(b"", content_type=streamed.content_type), None, keep=keep)
            )
            await streamed.feed(Stream(self))
            if self._transport is not None:
                # no wait here: the client may have stopped reading
                self._transport.write(b"0\r\n\r\n")
            ended = True
        except ConnectionResetError:
            return
        finally:
            self._following = None
            self._idle_since = self._loop.time()
            if not ended:
                self.abort()
        if not keep:
            self.close()
        self._answer_waiting()


def subject_of(certificate: Mapping[str, Any]) -> CertificateSubject:
    """Returns the user and the groups of a client's certificate, in the form of the ssl module."""
    parts = [pair for part in certificate["subject"] for pair in part]
    user = next((value for name, value in parts if name == "commonName"), "")
    return user, tuple(value for name, value in parts if name == "organizationName")


def _in_gzip(answer: Response, body: bytes) -> Response:
    return msgspec.structs.replace(answer, body=body, encoding="gzip")


def _head(answer: Response, length: int | None, *, keep: bool) -> bytes:
    """Returns the head of an answer. `length` is None for a body in chunks."""
    body = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    more = "" if keep else "Connection: close\r\n"
    for warning in answer.warnings:
        more += f"Warning: {warning}\r\n"
    if answer.encoding:
        more += f"Content-Encoding: {answer.encoding}\r\nVary: Accept-Encoding\r\n"
    if answer.retry_after:
        more += f"Retry-After: {answer.retry_after}\r\n"
    content_type = f"Content-Type: {answer.content_type}\r\n" if answer.content_type else ""
    line = _STATUS_LINES.get(answer.status) or f"HTTP/1.1 {answer.status} \r\n"  # of a webhook
    head = f"{line}{content_type}{body}\r\n{more}\r\n"
    return head.encode("utf-8", "replace")


@asynccontextmanager
async def listen(
    answer: Answer,
    port: int = 0,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    gate: Gate | None = None,
    connections: set[Connection] | None = None,
) -> AsyncIterator[str]:
    """Answers requests during the block; yields the URL. The open connections are among the
    `connections`. Raises OSError.
    """
    connections = set() if connections is None else connections
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(answer, connections, gate), host, port, ssl=tls
    )
    sweeping = asyncio.create_task(_close_idle_connections(connections))
    try:
        yield f"http{'s' * (tls is not None)}://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        sweeping.cancel()
        import anyio  # not before: it takes its time

        with anyio.CancelScope(shield=True):
            for _ in range(ACCEPT_TURNS):
                await asyncio.sleep(0)
        server.close()
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            for connection in tuple(connections):
                connection.close()
            for connection in tuple(connections):
                await connection.gone.wait()
            await server.wait_closed()
        for connection in tuple(connections):
            connection.abort()


async def _close_idle_connections(connections: set[Connection]) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        for connection in tuple(connections):
            connection.close_if_idle()
