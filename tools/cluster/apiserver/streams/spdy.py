"""SPDY/3.1 for a server, as far as Kubernetes uses it: frames as bytes. No I/O.

Streams that a client opens, with their headers; data, the half-closing of a stream, resets, pings
and the end of a session. Windows of flow control are left out, as Kubernetes' own SPDY leaves them
out: TCP slows a sender down. Only a client opens streams.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import msgspec

MOST_FRAME_BYTES = 1 << 20
MOST_HEADER_BYTES = 64 << 10
MOST_STREAMS = 4096  # open at once
PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL = 1, 2, 3, 5  # reasons of a reset
_SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 2, 3, 6, 7
_CONTROL, _VERSION = 0x80000000, 3
_FIN = 0x01

# The text that the protocol gives both sides to compress headers with: names and values, each after
# its length in four bytes, and then the most frequent strings.
_FIRST_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language "
    "accept-ranges age allow authorization cache-control connection content-base content-encoding "
    "content-language content-length content-location content-md5 content-range content-type date "
    "etag expect expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified location max-forwards pragma proxy-authenticate "
    "proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_LAST_NAMES = (
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
)
_STATUS_LINES = (
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service Unavailable"
)
_FREQUENT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    f"{_STATUS_LINES}"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, "
    "Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _pascal(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode("latin-1")


DICTIONARY = b"".join(map(_pascal, (*_FIRST_NAMES.split(" "), *_LAST_NAMES))) + _FREQUENT.encode()


class SpdyError(Exception):
    """The client broke the protocol; the session ends."""


class StreamOpened(msgspec.Struct, frozen=True):
    """The client opened a stream. `ends` is True if it sends nothing on it."""

    stream: int
    headers: dict[str, str]
    ends: bool


class StreamData(msgspec.Struct, frozen=True):
    """The client sent data on a stream. `ends` is True if these are its last."""

    stream: int
    data: bytes
    ends: bool


class StreamReset(msgspec.Struct, frozen=True):
    """The client gave up a stream."""

    stream: int


class SessionEnded(msgspec.Struct, frozen=True):
    """The client opens no more streams."""


class PingReceived(msgspec.Struct, frozen=True):
    """The client asked for a sign of life: these bytes answer it."""

    answer: bytes


Event = StreamOpened | StreamData | StreamReset | SessionEnded | PingReceived


class SpdySession:
    """A session with a client: reads its frames, and makes those of the server."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._inflater = zlib.decompressobj(zdict=DICTIONARY)
        self._deflater = zlib.compressobj(zdict=DICTIONARY)
        self._latest = 0  # the latest stream that the client has opened

    def feed(self, data: bytes) -> Iterator[Event]:
        """Yields what these bytes complete. Raises SpdyError."""
        self._data += data
        while len(self._data) >= 8:
            word, rest = struct.unpack_from(">II", self._data)
            flags, length = rest >> 24, rest & 0xFFFFFF
            if length > MOST_FRAME_BYTES:
                raise SpdyError(f"a frame has more than {MOST_FRAME_BYTES} bytes")
            if len(self._data) < 8 + length:
                return
            payload = bytes(self._data[8 : 8 + length])
            del self._data[: 8 + length]
            if not word & _CONTROL:
                yield StreamData(word, payload, bool(flags & _FIN))
                continue
            if (word >> 16) & 0x7FFF != _VERSION:
                raise SpdyError("expected version 3")
            event = self._control(word & 0xFFFF, flags, payload)
            if event is not None:
                yield event

    def reply(self, stream: int) -> bytes:
        """Returns the frame that accepts a stream."""
        block = self._deflater.compress(struct.pack(">I", 0))
        block += self._deflater.flush(zlib.Z_SYNC_FLUSH)
        return _control_frame(_SYN_REPLY, struct.pack(">I", stream) + block)

    def _control(self, sort: int, flags: int, payload: bytes) -> Event | None:
        """Reads a control frame. Returns None for one that says nothing to a server."""
        try:
            match sort:
                case 1:  # SYN_STREAM
                    stream = struct.unpack_from(">I", payload)[0] & 0x7FFFFFFF
                    if stream <= self._latest or stream % 2 == 0:
                        raise SpdyError(f"stream {stream} is opened out of order")
                    self._latest = stream
                    return StreamOpened(stream, self._headers(payload[10:]), bool(flags & _FIN))
                case 3:  # RST_STREAM
                    return StreamReset(struct.unpack_from(">I", payload)[0] & 0x7FFFFFFF)
                case 6:  # PING; even numbers would be answers to pings of a server
                    number = struct.unpack_from(">I", payload)[0]
                    return PingReceived(_control_frame(_PING, payload[:4])) if number % 2 else None
                case 7:  # GOAWAY
                    return SessionEnded()
                case 8:  # HEADERS: more headers of a stream; they change the state of the inflater
                    self._headers(payload[4:])
        except struct.error:
            raise SpdyError("a frame is too short") from None
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflater.decompress(block, MOST_HEADER_BYTES)
        except zlib.error as problem:
            raise SpdyError(f"headers: {problem}") from None
        if self._inflater.unconsumed_tail:
            raise SpdyError(f"a stream has more than {MOST_HEADER_BYTES} bytes of headers")
        (count,), at = struct.unpack_from(">I", plain), 4
        texts: list[str] = []
        while len(texts) < 2 * count:
            (length,), at = struct.unpack_from(">I", plain, at), at + 4
            if at + length > len(plain):
                raise SpdyError("a header is cut off")
            texts.append(plain[at : at + length].decode("latin-1"))
            at += length
        return dict(zip(map(str.lower, texts[::2]), texts[1::2], strict=True))


def data_frame(stream: int, data: bytes, *, ends: bool = False) -> bytes:
    """Returns data of a stream, at most 16 MiB; `ends` half-closes it."""
    return struct.pack(">II", stream, (_FIN if ends else 0) << 24 | len(data)) + data


def reset_frame(stream: int, reason: int) -> bytes:
    return _control_frame(_RST_STREAM, struct.pack(">II", stream, reason))


def goodbye_frame(latest: int) -> bytes:
    """Returns the frame that ends a session whose `latest` stream was served."""
    return _control_frame(_GOAWAY, struct.pack(">II", latest, 0))


def _control_frame(sort: int, payload: bytes) -> bytes:
    return struct.pack(">II", _CONTROL | _VERSION << 16 | sort, len(payload)) + payload
