"""HTTP/1.1 as the embedded API server speaks it: requests with whole bodies, answers in one piece or as a stream.

Most requests are small writes that are answered at once, so that one is answered where its last byte is read: no task
is started for it. Requests on one connection are answered one after another, in their order.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import cast
from urllib.parse import parse_qsl, unquote

import anyio
import msgspec

STOP_SECONDS = 0.5
MOST_HEAD_BYTES = 64 << 10
MOST_BYTES = 64 << 20  # of a body
_LINE = re.compile(r"([A-Z]+) (/[!-~]*) HTTP/1\.([01])")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


class Request(msgspec.Struct, frozen=True):
    """`headers` by lower-case name, `query` by name: of several values the first."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes
    keep: bool = True


class Response(msgspec.Struct, frozen=True):
    body: bytes
    status: int = 200
    content_type: str = "application/json"
    warnings: tuple[str, ...] = ()


class Stream:
    """An answer that goes on: chunks are sent as they are given. Raises ConnectionResetError once nobody listens."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write(self, data: bytes) -> None:
        await self._connection.send(b"%x\r\n%b\r\n" % (len(data), data))


Follow = Callable[[Stream], Awaitable[None]]
Answer = Callable[[Request], Response | Follow]


class BadRequestError(Exception):
    """What came is no request; the connection is closed with this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Connection(asyncio.Protocol):
    """One client's; `open_ones` are the connections that there are."""

    def __init__(self, answer: Answer, open_ones: set[Connection]) -> None:
        self._answer = answer
        self._open_ones = open_ones
        self.gone = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._promised = False  # the client that waits for a word before it sends its body has had it
        self._following: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, but does not say so
        self._open_ones.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_ones.discard(self)
        self.gone.set()
        self._transport = None
        self._writable.set()
        if self._following is not None:
            self._following.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._data += data
        self._go_on()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def send(self, data: bytes) -> None:
        await self._writable.wait()
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client has left")
        self._transport.write(data)

    def _go_on(self) -> None:
        """Answer what is there in full."""
        while self._following is None and self._transport is not None and not self._transport.is_closing():
            try:
                request = self._next()
            except BadRequestError as problem:
                body = str(problem).encode()
                self._transport.write(_head(Response(body, problem.status, "text/plain"), len(body), keep=False) + body)
                self._transport.close()
                return
            if request is None:
                return
            answer = self._answer(request)
            if not isinstance(answer, Response):
                self._following = asyncio.create_task(self._follow(answer, keep=request.keep))
                return
            head = _head(answer, len(answer.body), keep=request.keep)
            self._transport.write(head if request.method == "HEAD" else head + answer.body)
            if not request.keep:
                self._transport.close()

    async def _follow(self, follow: Follow, *, keep: bool) -> None:
        ended = False
        try:
            await self.send(_head(Response(b""), None, keep=keep))
            await follow(Stream(self))
            await self.send(b"0\r\n\r\n")
            ended = True
        except ConnectionResetError:
            return
        finally:
            self._following = None
            if not ended:
                self.abort()
        if not keep:
            self.close()
        self._go_on()

    def _next(self) -> Request | None:
        """The next request if all of it is there. Raises BadRequestError."""
        end = self._data.find(b"\r\n\r\n")
        if end > MOST_HEAD_BYTES or (end < 0 and len(self._data) > MOST_HEAD_BYTES):
            raise BadRequestError(431, "the head of the request has no end")
        if end < 0:
            return None
        first, _, text = self._data[:end].decode("latin-1").partition("\r\n")
        line = _LINE.fullmatch(first)
        if line is None:
            raise BadRequestError(400, f"expected a request of HTTP/1.1, got {first[:80]!r}")
        headers = _headers(text)
        found = self._body(headers, end + 4)
        if found is None:
            if headers.get("expect", "").lower() == "100-continue" and not self._promised:
                assert self._transport is not None
                self._promised = True
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return None
        body, after = found
        del self._data[:after]
        self._promised = False
        path, _, asked = line[2].partition("?")
        query = dict(reversed(parse_qsl(asked, keep_blank_values=True))) if asked else {}
        keep = line[3] == "1" and "close" not in headers.get("connection", "").lower()
        return Request(line[1], unquote(path) if "%" in path else path, query, headers, body, keep)

    def _body(self, headers: Mapping[str, str], start: int) -> tuple[bytes, int] | None:
        """The body and where it ends; None if there is more to come. Raises BadRequestError."""
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked" or "content-length" in headers:
                raise BadRequestError(400, "Transfer-Encoding: expected chunked, and no Content-Length")
            return self._chunks(start)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()):
            raise BadRequestError(400, f"Content-Length: expected a number, got {length[:80]!r}")
        after = start + int(length)
        if after - start > MOST_BYTES:
            raise BadRequestError(413, f"the body is longer than {MOST_BYTES} bytes")
        return None if len(self._data) < after else (bytes(self._data[start:after]), after)

    def _chunks(self, at: int) -> tuple[bytes, int] | None:
        chunks: list[bytes] = []
        if len(self._data) > 2 * MOST_BYTES:
            raise BadRequestError(413, f"the body is longer than {MOST_BYTES} bytes")
        while True:
            line = _SIZE.match(self._data, at)
            if line is None:
                if b"\n" in self._data[at:]:
                    raise BadRequestError(400, "expected the size of a chunk")
                return None
            size = int(line[1], 16)
            if not size:
                end = self._data.find(b"\r\n\r\n", line.end() - 2)
                return None if end < 0 else (b"".join(chunks), end + 4)
            at = line.end() + size + 2
            if len(self._data) < at:
                return None
            if self._data[at - 2 : at] != b"\r\n":
                raise BadRequestError(400, "expected the end of a chunk")
            chunks.append(bytes(self._data[line.end() : at - 2]))


@lru_cache(maxsize=1024)
def _headers(text: str) -> Mapping[str, str]:
    """Those of one client are mostly the same. Raises BadRequestError."""
    headers: dict[str, str] = {}
    for line in text.split("\r\n") if text else ():
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequestError(400, f"expected a header, got {line[:80]!r}")
        name, value = name.lower(), value.strip()
        if name in headers:
            if name == "content-length" and headers[name] != value:
                raise BadRequestError(400, "Content-Length: expected one")
            value = value if name == "content-length" else f"{headers[name]}, {value}"
        headers[name] = value
    return MappingProxyType(headers)


def _head(answer: Response, length: int | None, *, keep: bool) -> bytes:
    """`length` None is a body in chunks."""
    body = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    more = "" if keep else "Connection: close\r\n"
    for warning in answer.warnings:
        more += f"Warning: {warning}\r\n"
    head = f"{_STATUS_LINES[answer.status]}Content-Type: {answer.content_type}\r\n{body}\r\n{more}\r\n"
    return head.encode("utf-8", "replace")


@asynccontextmanager
async def listen(answer: Answer, port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Answer requests for as long as the block runs; yields the URL. Raises OSError."""
    connections: set[Connection] = set()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(answer, connections), host, port)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            for connection in tuple(connections):
                connection.close()
            for connection in tuple(connections):
                await connection.gone.wait()
            await server.wait_closed()
        for connection in tuple(connections):
            connection.abort()
