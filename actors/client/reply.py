"""The answers to small requests, read as their bytes come in: HTTP/1.1 without what such an answer
never has. Pure.

A reader reads the answers on one connection, one at a time. What is not understood to the letter is
an error, so that no answer is taken for another.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_HEAD_BYTES = 64 << 10
_HEAD = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?((?:\r\n[^\s:]+:[^\r\n]*)*)")
_HEEDED = re.compile(
    rb"\r\n(content-length|transfer-encoding|content-encoding|connection|retry-after):"
    rb"[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)",
    re.IGNORECASE,
)
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
_UNSENT_BODY = (204, 304)


class ReplyError(OSError):
    """It is no HTTP/1.1, or not what was asked for."""


class Reply(NamedTuple):
    """`keep` says whether the connection may be used again."""

    status: int
    body: bytes
    retry_after: str | None = None
    keep: bool = False


class _Head(NamedTuple):
    """`length` is that of the body: None if it ends with the connection."""

    status: int
    length: int | None
    chunked: bool
    retry_after: str | None
    keep: bool


class ReplyReader:
    """`tunnel` says that CONNECT was asked: a success ends with its head, and what follows is the
    tunnel's.
    """

    def __init__(self, *, tunnel: bool = False) -> None:
        self._tunnel = tunnel
        self._data = b""  # what is not read yet
        self._head: _Head | None = None
        self._chunks: list[bytes] = []

    def feed(self, data: bytes) -> Reply | None:
        """None as long as there is more to come. Raises ReplyError."""
        if self._data:
            data = self._data + data
        at, head = 0, self._head
        while head is None:
            end = data.find(b"\r\n\r\n", at)
            if end - at > MOST_HEAD_BYTES or (end < 0 and len(data) - at > MOST_HEAD_BYTES):
                raise ReplyError("the head of the answer has no end")
            if end < 0:
                self._data = data[at:]
                return None
            head = _head(data, at, end)
            at = end + 4
            if head.status < 200:  # words on the way to the answer
                head = None
            elif self._tunnel and head.status < 300:
                head = head._replace(length=0, chunked=False)
        self._head = head
        if head.chunked:
            return self._of_chunks(head, data, at)
        if head.length is None or len(data) - at < head.length:
            self._data = data[at:]
            return None
        return self._reply(head, data[at : at + head.length], more=len(data) > at + head.length)

    def close(self) -> Reply | None:
        """The connection was closed: the answer if that is its end."""
        head = self._head
        if head is None or head.chunked or head.length is not None:
            return None
        return Reply(head.status, self._data, head.retry_after)

    def _of_chunks(self, head: _Head, data: bytes, at: int) -> Reply | None:
        while True:
            line = _CHUNK_SIZE.match(data, at)
            if line is None:
                if b"\n" in data[at:] or len(data) - at > MOST_HEAD_BYTES:
                    raise ReplyError("expected the size of a chunk")
                break
            size = int(line[1], 16)
            if not size:
                end = data.find(b"\r\n\r\n", line.end() - 2)  # after trailers, if there are any
                if end < 0:
                    break
                return self._reply(head, b"".join(self._chunks), more=len(data) > end + 4)
            after = line.end() + size
            if len(data) < after + 2:
                break
            if data[after : after + 2] != b"\r\n":
                raise ReplyError("expected the end of a chunk")
            self._chunks.append(data[line.end() : after])
            at = after + 2
        self._data = data[at:]
        return None

    def _reply(self, head: _Head, body: bytes, *, more: bool) -> Reply:
        """The answer is whole, and the next one may come, unless it has begun unasked."""
        self._data, self._head, self._chunks = b"", None, []
        return Reply(head.status, body, head.retry_after, head.keep and not more)


def _head(data: bytes, start: int, end: int) -> _Head:
    """Raises ReplyError."""
    found = _HEAD.fullmatch(data, start, end)
    if found is None or found[2] == b"101":
        raise ReplyError(f"expected an answer of HTTP/1.1, got {_quoted(data[start:end])}")
    status = int(found[2])
    unsent = status in _UNSENT_BODY
    length: int | None = 0 if unsent else None
    keep, chunked, retry_after = found[1] == b"1", False, None
    for name, value in _HEEDED.findall(data, found.start(3), end + 2):
        match name.lower():
            case b"content-length" if not unsent:
                if not value.isdigit() or length not in (None, int(value)):
                    raise ReplyError(f"Content-Length: expected one number, got {_quoted(value)}")
                length = int(value)
            case b"transfer-encoding" if not unsent:
                if value.lower() != b"chunked":
                    raise ReplyError(f"Transfer-Encoding: expected chunked, got {_quoted(value)}")
                chunked = True
            case b"content-encoding":
                if value.lower() != b"identity":
                    raise ReplyError(f"Content-Encoding: asked for none, got {_quoted(value)}")
            case b"connection":
                keep = keep and b"close" not in value.lower()
            case b"retry-after":
                retry_after = value.decode("latin-1")
            case _:
                pass
    return _Head(status, length, chunked, retry_after, keep and (chunked or length is not None))


def _quoted(value: bytes) -> str:
    return repr(value[:200].decode("latin-1"))
