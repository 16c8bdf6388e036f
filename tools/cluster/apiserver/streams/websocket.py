"""WebSocket for a server (RFC 6455): the handshake, and the frames as bytes. No I/O.

No extension is negotiated. Clients mask what they send, and a server does not.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping

import msgspec

MOST_MESSAGE_BYTES = 4 << 20
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
NORMAL, GOING_AWAY, PROTOCOL_ERROR, TOO_BIG = 1000, 1001, 1002, 1009
_CONTINUATION, _FINAL, _MASKED = 0, 0x80, 0x80
_MOST_CONTROL_BYTES = 125
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocketError(Exception):
    """The client broke the protocol. The connection is closed with `code`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Message(msgspec.Struct, frozen=True):
    """A whole message, or a control frame."""

    opcode: int
    payload: bytes


def is_websocket(headers: Mapping[str, str]) -> bool:
    """True if a request asks for a WebSocket."""
    upgrades = "upgrade" in headers.get("connection", "").lower()
    return upgrades and headers.get("upgrade", "").lower() == "websocket"


def offered_protocols(headers: Mapping[str, str]) -> list[str]:
    """Returns the subprotocols that a client offers, in its order."""
    offered = headers.get("sec-websocket-protocol", "")
    return [each for part in offered.split(",") if (each := part.strip(" \t"))]


def handshake(headers: Mapping[str, str], protocol: str) -> dict[str, str]:
    """Returns the headers that accept a request; `protocol` is the subprotocol, or "".

    Raises ValueError if the request is no valid handshake.
    """
    key = headers.get("sec-websocket-key", "")
    if headers.get("sec-websocket-version") != "13":
        raise ValueError("Sec-WebSocket-Version: expected 13")
    try:
        nonce = base64.b64decode(key, validate=True)
    except ValueError:
        nonce = b""
    if len(nonce) != 16:
        raise ValueError("Sec-WebSocket-Key: expected 16 bytes in base64")
    digest = hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()
    accepted = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Accept": base64.b64encode(digest).decode(),
    }
    return {**accepted, "Sec-WebSocket-Protocol": protocol} if protocol else accepted


def frame(opcode: int, payload: bytes) -> bytes:
    """Returns a message in one frame."""
    length = len(payload)
    if length < 126:
        head = bytes((_FINAL | opcode, length))
    elif length < 1 << 16:
        head = bytes((_FINAL | opcode, 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((_FINAL | opcode, 127)) + length.to_bytes(8, "big")
    return head + payload


def close_frame(code: int, reason: str = "") -> bytes:
    """Returns the frame that closes a connection. A reason is cut to the room that it has."""
    text = reason.encode()[: _MOST_CONTROL_BYTES - 2].decode(errors="ignore")
    return frame(CLOSE, code.to_bytes(2, "big") + text.encode())


class WebSocketReader:
    """Reads messages from the bytes of a client."""

    def __init__(self, most_bytes: int = MOST_MESSAGE_BYTES) -> None:
        self._most_bytes = most_bytes
        self._data = bytearray()
        self._parts: bytearray | None = None  # of a message in several frames
        self._opcode = 0

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yields the messages that these bytes complete. Raises WebSocketError."""
        self._data += data
        while True:
            message, more = self._next()
            if message is not None:
                yield message
            elif not more:
                return

    def _next(self) -> tuple[Message | None, bool]:
        """Reads a frame. Returns the message that it completes, and if there was a frame."""
        data = self._data
        if len(data) < 2:
            return None, False
        first, second = data[0], data[1]
        opcode, length, at = first & 0x0F, second & 0x7F, 2
        final, control = bool(first & _FINAL), opcode >= CLOSE
        if first & 0x70:
            raise WebSocketError(PROTOCOL_ERROR, "a frame uses an extension")
        if not second & _MASKED:
            raise WebSocketError(PROTOCOL_ERROR, "a frame of a client is not masked")
        if opcode not in (_CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise WebSocketError(PROTOCOL_ERROR, f"opcode {opcode} does not exist")
        if control and (length > _MOST_CONTROL_BYTES or not final):
            raise WebSocketError(PROTOCOL_ERROR, "a control frame is long or divided")
        if length > _MOST_CONTROL_BYTES:
            size = 2 if length == 126 else 8
            if len(data) < at + size:
                return None, False
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        if not control and length + len(self._parts or b"") > self._most_bytes:
            raise WebSocketError(TOO_BIG, f"a message has more than {self._most_bytes} bytes")
        if len(data) < at + 4 + length:
            return None, False
        payload = _unmasked(bytes(data[at + 4 : at + 4 + length]), bytes(data[at : at + 4]))
        del data[: at + 4 + length]
        if control:
            return Message(opcode, payload), True
        return self._joined(opcode, payload, final=final), True

    def _joined(self, opcode: int, payload: bytes, *, final: bool) -> Message | None:
        """Adds a frame to its message. Returns the message if it is whole."""
        if (opcode == _CONTINUATION) != (self._parts is not None):
            raise WebSocketError(PROTOCOL_ERROR, "a message begins within another, or nowhere")
        if self._parts is None:
            if final:
                return Message(opcode, payload)
            self._parts, self._opcode = bytearray(), opcode
        self._parts += payload
        if not final:
            return None
        whole, self._parts = bytes(self._parts), None
        return Message(self._opcode, whole)


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    length = len(payload)
    repeated = (mask * (length // 4 + 1))[:length]
    number = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return number.to_bytes(length, "big")
