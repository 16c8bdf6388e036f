"""The answer to a small request, read as its bytes come in: HTTP/1.1 without what such an answer never has. Pure.

One reader reads one answer. What is not understood to the letter is an error, so that no answer is taken for another.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_HEAD_BYTES = 64 << 10
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5]\d\d)(?: .*)?")
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
    def __init__(self) -> None:
        self._data = bytearray()
        self._head: _Head | None = None
        self._chunks: list[bytes] = []

    def feed(self, data: bytes) -> Reply | None:
        """None as long as there is more to come. Raises ReplyError."""
        self._data += data
        while self._head is None:
            end = self._data.find(b"\r\n\r\n")
            if end > MOST_HEAD_BYTES or (end < 0 and len(self._data) > MOST_HEAD_BYTES):
                raise ReplyError("the head of the answer has no end")
            if end < 0:
                return None
            head = _head(self._data[:end].decode("latin-1"))
            del self._data[: end + 4]
            if head.status >= 200:  # below are words on the way to the answer
                self._head = head
        head = self._head
        if head.chunked:
            return self._of_chunks(head)
        if head.length is None or len(self._data) < head.length:
            return None
        return self._reply(head, bytes(self._data[: head.length]), len(self._data) - head.length)

    def close(self) -> Reply | None:
        """The connection was closed: the answer if that is its end."""
        head = self._head
        if head is None or head.chunked or head.length is not None:
            return None
        return Reply(head.status, bytes(self._data), head.retry_after)

    def _of_chunks(self, head: _Head) -> Reply | None:
        at = 0
        while True:
            line = _CHUNK_SIZE.match(self._data, at)
            if line is None:
                if b"\n" in self._data[at:] or len(self._data) - at > MOST_HEAD_BYTES:
                    raise ReplyError("expected the size of a chunk")
                break
            size = int(line[1], 16)
            if not size:
                end = self._data.find(b"\r\n\r\n", line.end() - 2)  # after trailers, if there are any
                if end < 0:
                    break
                return self._reply(head, b"".join(self._chunks), len(self._data) - end - 4)
            after = line.end() + size
            if len(self._data) < after + 2:
                break
            if self._data[after : after + 2] != b"\r\n":
                raise ReplyError("expected the end of a chunk")
            self._chunks.append(bytes(self._data[line.end() : after]))
            at = after + 2
        del self._data[:at]
        return None

    def _reply(self, head: _Head, body: bytes, more: int) -> Reply:
        return Reply(head.status, body, head.retry_after, head.keep and not more)


def _head(text: str) -> _Head:
    """Raises ReplyError."""
    first, *lines = text.split("\r\n")
    status_line = _STATUS_LINE.fullmatch(first)
    if status_line is None or status_line[2] == "101":
        raise ReplyError(f"expected an answer of HTTP/1.1, got {first[:80]!r}")
    keep, status = status_line[1] == "1", int(status_line[2])
    length: int | None = 0 if status in _UNSENT_BODY else None
    chunked, retry_after = False, None
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ReplyError(f"expected a header, got {line[:80]!r}")
        value = value.strip()
        match name.lower():
            case "content-length" if status not in _UNSENT_BODY:
                if not (value.isascii() and value.isdecimal()) or length not in (None, int(value)):
                    raise ReplyError(f"Content-Length: expected one number, got {value[:80]!r}")
                length = int(value)
            case "transfer-encoding" if status not in _UNSENT_BODY:
                if value.lower() != "chunked":
                    raise ReplyError(f"Transfer-Encoding: expected chunked, got {value[:80]!r}")
                chunked = True
            case "content-encoding":
                if value.lower() != "identity":
                    raise ReplyError(f"Content-Encoding: asked for none, got {value[:80]!r}")
            case "connection":
                keep = keep and "close" not in value.lower()
            case "retry-after":
                retry_after = value
            case _:
                pass
    return _Head(status, length, chunked, retry_after, keep and (chunked or length is not None))
