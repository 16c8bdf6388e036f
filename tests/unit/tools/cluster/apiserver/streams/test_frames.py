"""WebSocket messages and SPDY frames to the byte, from well-behaved clients and others."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tools.cluster.apiserver.streams.spdy import (
    DICTIONARY,
    PingReceived,
    SessionEnded,
    SpdyError,
    SpdySession,
    StreamData,
    StreamOpened,
    StreamReset,
    data_frame,
    goodbye_frame,
    reset_frame,
)
from berth.tools.cluster.apiserver.streams.websocket import (
    BINARY,
    CLOSE,
    PING,
    TEXT,
    Message,
    WebSocketError,
    WebSocketReader,
    close_frame,
    frame,
    handshake,
)


def masked(first: int, payload: bytes, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    """Returns a frame as a client sends it; `first` is its first byte."""
    length = len(payload)
    sizes = (
        bytes((0x80 | length,))
        if length < 126
        else b"\xfe" + length.to_bytes(2, "big")
        if length < 1 << 16
        else b"\xff" + length.to_bytes(8, "big")
    )
    return bytes((first,)) + sizes + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


@given(st.lists(st.binary(max_size=400), max_size=5), st.integers(1, 50))
def test_messages_arrive_whole_however_they_are_cut(messages: list[bytes], size: int) -> None:
    sent = b"".join(masked(0x80 | BINARY, each) for each in messages)
    reader = WebSocketReader()
    read = [
        message for at in range(0, len(sent), size) for message in reader.feed(sent[at : at + size])
    ]
    assert read == [Message(BINARY, each) for each in messages]


@pytest.mark.parametrize("length", [0, 125, 126, 65535, 65536])
def test_long_messages_have_longer_lengths(length: int) -> None:
    payload = bytes(length)
    assert [*WebSocketReader().feed(masked(0x82, payload))] == [Message(BINARY, payload)]
    assert frame(BINARY, payload).endswith(payload)


def test_a_message_in_parts_is_joined_around_a_ping() -> None:
    sent = masked(TEXT, b"a") + masked(0x80 | PING, b"?") + masked(0, b"b") + masked(0x80, b"c")
    assert [*WebSocketReader().feed(sent)] == [Message(PING, b"?"), Message(TEXT, b"abc")]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(BINARY, b"not masked"), 1002),
        (masked(0xC2, b"extended"), 1002),
        (masked(0x83, b"unknown"), 1002),
        (masked(0x80, b"goes on, but with what"), 1002),
        (masked(BINARY, b"a") + masked(BINARY, b"b"), 1002),
        (masked(PING, b"divided"), 1002),
        (masked(0x89, b"x" * 126), 1002),
        (masked(0x82, b"x" * 101), 1009),
        (masked(BINARY, b"x" * 60) + masked(0, b"x" * 60), 1009),
        (b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1009),
    ],
)
def test_a_broken_rule_has_its_code(sent: bytes, code: int) -> None:
    with pytest.raises(WebSocketError) as broken:
        [*WebSocketReader(100).feed(sent)]
    assert broken.value.code == code


def test_a_close_has_a_code_and_as_much_of_a_reason_as_fits() -> None:
    assert close_frame(1000) == b"\x88\x02\x03\xe8"
    closing = close_frame(1011, "ä" * 100)
    assert (closing[1], closing[4:].decode()) == (2 + 122, "ä" * 61)
    assert closing[0] == 0x80 | CLOSE


def test_the_handshake_is_that_of_the_standard() -> None:
    headers = {"sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
    accepted = handshake(headers, "v5.channel.k8s.io")
    assert accepted["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert accepted["Sec-WebSocket-Protocol"] == "v5.channel.k8s.io"
    with pytest.raises(ValueError, match="Sec-WebSocket-Key"):
        handshake({**headers, "sec-websocket-key": "eA=="}, "")
    with pytest.raises(ValueError, match="Sec-WebSocket-Version"):
        handshake({**headers, "sec-websocket-version": "8"}, "")


class SpdyClient:
    """Makes the frames of a client."""

    def __init__(self) -> None:
        self._deflater = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, headers: dict[str, str], *, ends: bool = False) -> bytes:
        plain = struct.pack(">I", len(headers))
        for text in (part for pair in headers.items() for part in pair):
            plain += struct.pack(">I", len(text)) + text.encode()
        block = self._deflater.compress(plain) + self._deflater.flush(zlib.Z_SYNC_FLUSH)
        payload = struct.pack(">IIH", stream, 0, 0) + block
        return control(1, payload, flags=1 if ends else 0)


def control(sort: int, payload: bytes, *, flags: int = 0, version: int = 3) -> bytes:
    word = 0x80000000 | version << 16 | sort
    return struct.pack(">II", word, flags << 24 | len(payload)) + payload


def test_the_dictionary_is_that_of_the_protocol() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_session_is_read_however_it_is_cut(size: int) -> None:
    client = SpdyClient()
    sent = (
        client.open(1, {"StreamType": "error"}, ends=True)
        + client.open(3, {"streamtype": "stdin", "port": "80"})
        + data_frame(3, b"hello")
        + data_frame(3, b"", ends=True)
        + control(6, struct.pack(">I", 1))
        + control(4, bytes(4))  # SETTINGS
        + control(9, struct.pack(">II", 3, 100))  # WINDOW_UPDATE
        + reset_frame(1, 5)
        + goodbye_frame(0)
    )
    session = SpdySession()
    events = [
        event for at in range(0, len(sent), size) for event in session.feed(sent[at : at + size])
    ]
    assert events == [
        StreamOpened(1, {"streamtype": "error"}, ends=True),
        StreamOpened(3, {"streamtype": "stdin", "port": "80"}, ends=False),
        StreamData(3, b"hello", ends=False),
        StreamData(3, b"", ends=True),
        PingReceived(control(6, struct.pack(">I", 1))),
        StreamReset(1),
        SessionEnded(),
    ]


def test_replies_share_one_compression() -> None:
    session = SpdySession()
    inflater = zlib.decompressobj(zdict=DICTIONARY)
    for stream in (1, 3):
        reply = session.reply(stream)
        assert struct.unpack_from(">III", reply) == (0x80030002, len(reply) - 8, stream)
        assert inflater.decompress(reply[12:]) == bytes(4)


BOMB = zlib.compressobj(zdict=DICTIONARY)


@pytest.mark.parametrize(
    "sent",
    [
        control(1, bytes(10), version=2),
        control(1, struct.pack(">IIH", 2, 0, 0)),
        control(1, struct.pack(">IIH", 1, 0, 0) + b"no headers"),
        control(1, b""),
        control(3, b""),
        control(6, b""),
        b"\x00\x00\x00\x01\x00\xff\xff\xff",
        control(
            1,
            struct.pack(">IIH", 1, 0, 0)
            + BOMB.compress(bytes(1 << 20))
            + BOMB.flush(zlib.Z_SYNC_FLUSH),
        ),
        SpdyClient().open(3, {}) + SpdyClient().open(3, {}),
    ],
)
def test_a_broken_session_ends(sent: bytes) -> None:
    with pytest.raises(SpdyError):
        [*SpdySession().feed(sent)]


@given(st.binary(max_size=300))
def test_whatever_is_sent_is_read_or_refused(sent: bytes) -> None:
    for reader, error in ((WebSocketReader(), WebSocketError), (SpdySession(), SpdyError)):
        try:
            [*reader.feed(sent)]
        except error:
            continue
