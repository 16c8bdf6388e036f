"""Reads HTTP/1.1 requests from the bytes of one connection: no I/O, and no byte is scanned twice.

A request comes with its whole body. The limit on its length is that of kube-apiserver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from ...kubernetes.api.requests.request import CertificateSubject, HttpRequest

MOST_HEAD_BYTES = 64 << 10
MOST_BYTES = 3 << 20  # of a body
MOST_LINE_BYTES = 4 << 10  # of the line with a chunk's size and its extensions
MOST_COMMON_BYTES = 2 << 10  # of headers that are cached: a client mostly repeats them
_LINE = re.compile(r"([A-Z]+) (/[!-~]*) HTTP/1\.([01])")
# Names and values of the bytes that Go's net/http takes.
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t -~\x80-\xff]*)?\r\n")


class BadRequestError(Exception):
    """The bytes are not a valid request. The connection is answered with `status` and closed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Head(NamedTuple):
    """The head of a request. `length` is that of the body in bytes; None if it comes in chunks."""

    method: str
    target: str
    minor: str
    headers: Mapping[str, str]
    length: int | None


class RequestReader:
    """A parser that takes bytes, and returns requests from `next` until that returns None."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._head: _Head | None = None
        self._body = bytearray()  # the chunks so far
        self._last_chunk = False
        self._promised = False
        self.certificate: CertificateSubject | None = None  # of the client

    def __len__(self) -> int:
        """Returns the number of unread bytes, of one request or of several."""
        return len(self._data) + len(self._body) + (self._head is not None)

    def feed(self, data: bytes) -> None:
        self._data += data

    def take_rest(self) -> bytes:
        """Returns the unread bytes, which are of another protocol, and forgets them."""
        rest = bytes(self._data)
        self._data.clear()
        return rest

    def expects_continue(self) -> bool:
        """Returns True, once per request, if the client waits for 100 Continue to send the body."""
        waits = (
            self._head is not None
            and self._head.headers.get("expect", "").lower() == "100-continue"
        )
        if not waits or self._promised:
            return False
        self._promised = True
        return True

    def next(self) -> HttpRequest | None:
        """Returns the next request; None if it is incomplete. Raises BadRequestError."""
        if self._head is None:
            self._head = self._read_head()
        head = self._head
        if head is None:
            return None
        body = self._read_chunks() if head.length is None else self._read_bytes(head.length)
        if body is None:
            return None
        self._head, self._promised = None, False
        path, _, parameters = head.target.partition("?")
        query = dict(reversed(parse_qsl(parameters, keep_blank_values=True))) if parameters else {}
        keep = head.minor == "1" and "close" not in head.headers.get("connection", "").lower()
        return HttpRequest(
            head.method,
            unquote(path) if "%" in path else path,
            query,
            head.headers,
            body,
            keep,
            self.certificate,
            parameters,
        )

    def _read_head(self) -> _Head | None:
        end = self._data.find(b"\r\n\r\n")
        if end > MOST_HEAD_BYTES or (end < 0 and len(self._data) > MOST_HEAD_BYTES):
            raise BadRequestError(431, "the head of the request has no end")
        if end < 0:
            return None
        first, _, text = self._data[:end].decode("latin-1").partition("\r\n")
        del self._data[: end + 4]
        line = _LINE.fullmatch(first)
        if line is None:
            raise BadRequestError(400, f"expected a request of HTTP/1.1, got {first[:80]!r}")
        headers = _common_headers(text) if len(text) <= MOST_COMMON_BYTES else _headers(text)
        return _Head(line[1], line[2], line[3], headers, _length(headers))

    def _read_bytes(self, length: int) -> bytes | None:
        if len(self._data) < length:
            return None
        body = bytes(self._data[:length])
        del self._data[:length]
        return body

    def _read_chunks(self) -> bytes | None:
        at = 0
        while not self._last_chunk:
            line = _SIZE.match(self._data, at)
            if line is None:
                if (
                    len(self._data) - at > MOST_LINE_BYTES
                    or b"\n" in self._data[at : at + MOST_LINE_BYTES]
                ):
                    raise BadRequestError(400, "expected the size of a chunk")
                break
            if line.end() - at > MOST_LINE_BYTES:
                raise BadRequestError(400, "expected the size of a chunk")
            size = int(line[1], 16)
            if not size:
                at = line.end() - 2  # the empty line that ends the trailer may follow at once
                self._last_chunk = True
                break
            if len(self._body) + size > MOST_BYTES:
                raise _too_long()
            end = line.end() + size
            if len(self._data) < end + 2:
                break
            if self._data[end : end + 2] != b"\r\n":
                raise BadRequestError(400, "expected the end of a chunk")
            self._body += self._data[line.end() : end]
            at = end + 2
        del self._data[:at]
        return self._read_trailer() if self._last_chunk else None

    def _read_trailer(self) -> bytes | None:
        end = self._data.find(b"\r\n\r\n")
        if end > MOST_HEAD_BYTES or (end < 0 and len(self._data) > MOST_HEAD_BYTES):
            raise BadRequestError(431, "the trailer of the request has no end")
        if end < 0:
            return None
        _headers(self._data[2:end].decode("latin-1"))  # refuses what is none
        del self._data[: end + 4]
        body = bytes(self._body)
        self._body, self._last_chunk = bytearray(), False
        return body


def _length(headers: Mapping[str, str]) -> int | None:
    """Returns the length of the body in bytes; None if it is in chunks. Raises BadRequestError."""
    if "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower() != "chunked" or "content-length" in headers:
            raise BadRequestError(400, "Transfer-Encoding: expected chunked, and no Content-Length")
        return None
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdecimal()):
        raise BadRequestError(400, f"Content-Length: expected a number, got {text[:80]!r}")
    if len(text) > 20 or int(text) > MOST_BYTES:
        raise _too_long()
    return int(text)


def _too_long() -> BadRequestError:
    return BadRequestError(413, f"Request entity too large: limit is {MOST_BYTES} bytes")


def _headers(text: str) -> Mapping[str, str]:
    """Returns the headers by lower-case name. Raises BadRequestError."""
    headers: dict[str, str] = {}
    for line in text.split("\r\n") if text else ():
        header = _HEADER.fullmatch(line)
        if header is None:
            raise BadRequestError(400, f"expected a header, got {line[:80]!r}")
        name, value = header[1].lower(), header[2].strip(" \t")
        if name in headers:
            if name == "content-length" and headers[name] != value:
                raise BadRequestError(400, "Content-Length: expected one")
            comma = "\n" if name.startswith("impersonate-") else ", "
            value = value if name == "content-length" else f"{headers[name]}{comma}{value}"
        headers[name] = value
    return MappingProxyType(headers)


_common_headers = lru_cache(maxsize=1024)(_headers)
