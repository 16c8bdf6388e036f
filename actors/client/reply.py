"""A reader of HTTP/1.1 answers to small requests, as their bytes arrive. Pure.

It reads the answers on one connection one after the other, and supports only the parts of HTTP that
such answers need. It raises an error for anything else, so that an answer is never misread.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_HEAD_BYTES = 64 << 10
MAX_BYTES = 16 << 20  # of an answer
_HEAD = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?((?:\r\n[^\s:]+:[^\r\n]*)*)")
_KNOWN_HEADERS = re.compile(
    rb"\r\n(content-length|transfer-encoding|content-encoding|connection|retry-after):"
    rb"[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)",
    re.IGNORECASE,
)
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
_WITHOUT_BODY = (204, 304)


class ReplyError(OSError):
    """The bytes are not HTTP/1.1, or the answer has a form that was not requested."""


class Reply(NamedTuple):
    """An answer; `keep` is true if the connection may be used again."""

    status: int
    body: bytes
    retry_after: str | None = None
    keep: bool = False


class _Head(NamedTuple):
    """A head. `length` is the length of the body; None if the body ends with the connection."""

    status: int
    length: int | None
    chunked: bool
    retry_after: str | None
    keep: bool


class ReplyReader:
    """A parser of answers. Set `tunnel` for the answer to CONNECT: after it, the tunnel begins."""

    def __init__(self, *, tunnel: bool = False) -> None:
        self._tunnel = tunnel
        self._data = b""  # received, but not yet read
        self._head: _Head | None = None
        self._body = bytearray()  # of the chunks so far

    def feed(self, data: bytes) -> Reply | None:
        """Adds bytes, and returns the answer once it is complete, otherwise None. Raises
        ReplyError.
        """
        if self._data:
            data = self._data + data
        if len(self._body) + len(data) > MAX_BYTES:
            raise ReplyError(f"expected an answer of at most {MAX_BYTES} bytes")
        at, head = 0, self._head
        while head is None:
            end = data.find(b"\r\n\r\n", at)
            if end - at > MAX_HEAD_BYTES or (end < 0 and len(data) - at > MAX_HEAD_BYTES):
                raise ReplyError("the head of the answer has no end")
            if end < 0:
                self._data = data[at:]
                return None
            head = _head(data, at, end)
            at = end + 4
            if head.status < 200:  # an interim response; the answer follows
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
        """Records the end of the connection. Returns the answer if that completes it;
        None otherwise.
        """
        head = self._head
        if head is None or head.chunked or head.length is not None:
            return None
        return Reply(head.status, self._data, head.retry_after)

    def _of_chunks(self, head: _Head, data: bytes, at: int) -> Reply | None:
        while True:
            line = _CHUNK_SIZE.match(data, at)
            if line is None:
                if b"\n" in data[at:] or len(data) - at > MAX_HEAD_BYTES:
                    raise ReplyError("expected the size of a chunk")
                break
            size = int(line[1], 16)
            if not size:
                end = data.find(b"\r\n\r\n", line.end() - 2)  # after trailers, if there are any
                if end < 0:
                    break
                return self._reply(head, bytes(self._body), more=len(data) > end + 4)
            after = line.end() + size
            if len(data) < after + 2:
                break
            if data[after : after + 2] != b"\r\n":
                raise ReplyError("expected the end of a chunk")
            self._body += data[line.end() : after]
            at = after + 2
        self._data = data[at:]
        return None

    def _reply(self, head: _Head, body: bytes, *, more: bool) -> Reply:
        """Completes the answer. `more` is true if unrequested bytes follow it."""
        self._data, self._head, self._body = b"", None, bytearray()
        return Reply(head.status, body, head.retry_after, head.keep and not more)


def _head(data: bytes, start: int, end: int) -> _Head:
    """Parses the head of an answer. Raises ReplyError."""
    head = _HEAD.fullmatch(data, start, end)
    if head is None or head[2] == b"101":
        raise ReplyError(f"expected an answer of HTTP/1.1, got {_quoted(data[start:end])}")
    status = int(head[2])
    has_body = status not in _WITHOUT_BODY
    length: int | None = None if has_body else 0
    keep, chunked, retry_after = head[1] == b"1", False, None
    for name, value in _KNOWN_HEADERS.findall(data, head.start(3), end + 2):
        match name.lower():
            case b"content-length" if has_body:
                if not value.isdigit() or length not in (None, int(value)):
                    raise ReplyError(f"Content-Length: expected one number, got {_quoted(value)}")
                length = int(value)
            case b"transfer-encoding" if has_body:
                if value.lower() != b"chunked":
                    raise ReplyError(f"Transfer-Encoding: expected chunked, got {_quoted(value)}")
                chunked = True
            case b"content-encoding":
                if value.lower() != b"identity":
                    raise ReplyError(f"Content-Encoding: expected none, got {_quoted(value)}")
            case b"connection":
                keep = keep and b"close" not in value.lower()
            case b"retry-after":
                retry_after = value.decode("latin-1")
            case _:
                pass
    return _Head(status, length, chunked, retry_after, keep and (chunked or length is not None))


def _quoted(value: bytes) -> str:
    return repr(value[:200].decode("latin-1"))
