"""Kubernetes' channels in WebSocket messages: the first byte of a message is its channel.

In the base64 variants a message is text, its first character the digit of the channel. The fifth
version of the protocol of commands has a message that closes a channel: 255 and the channel.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from ....kubernetes.api.requests.request import HttpRequest
from ....kubernetes.api.types.api_documents import RefusedError
from ..upgraded_connection import UpgradedConnection
from .command_streams import Incoming, size_in
from .websocket import (
    BINARY,
    CLOSE,
    NORMAL,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    WebSocketError,
    WebSocketReader,
    close_frame,
    frame,
    handshake,
    offered_protocols,
)

# The subprotocols of exec and attach; "" is that of a client which offers none.
COMMAND_PROTOCOLS = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
)
# Those of port-forward, beside the tunnel of SPDY.
PORT_PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")
MOST_PIECE = 32 << 10  # bytes of data in a message
# Some versions of kubectl, such as 1.32, may make their streams after they read the first messages,
# and drop those that are for streams they do not have yet (kubernetes#131203). No container starts
# a command sooner.
_CLIENT_STREAMS_SECONDS = 0.01
_CLOSE_CHANNEL = 255
_NUMBERS = {"stdin": 0, "stdout": 1, "stderr": 2, "error": 3, "resize": 4}


def chosen_protocol(request: HttpRequest, served: Sequence[str]) -> str:
    """Returns the first subprotocol that a client offers and the server has.

    Raises RefusedError with 403 if there is none, as Kubernetes does.
    """
    offered = offered_protocols(request.headers) or [""]
    for protocol in offered:
        if protocol in served:
            return protocol
    message = f"no WebSocket protocol in common: expected one of {', '.join(filter(None, served))}"
    raise RefusedError(403, "Forbidden", f"{message}, got {', '.join(offered)[:200]}")


def accepting_headers(request: HttpRequest, protocol: str) -> dict[str, str]:
    """Returns the headers that accept a WebSocket. Raises RefusedError with 400."""
    try:
        return handshake(request.headers, protocol)
    except ValueError as problem:
        raise RefusedError(400, "BadRequest", str(problem)) from None


class WebMessages:
    """The messages of a WebSocket on a connection: pings are answered, and its end is noted."""

    def __init__(self, connection: UpgradedConnection) -> None:
        self._connection = connection
        self._reader = WebSocketReader()
        self._closed = False

    async def receive(self) -> AsyncIterator[bytes]:
        """Yields the messages with data until the client closes the WebSocket or breaks its rules,
        which is answered with the reason.
        """
        try:
            while data := await self._connection.read():
                for message in self._reader.feed(data):
                    if message.opcode == CLOSE:
                        await self._close(message.payload[:2] or close_frame(NORMAL)[2:4])
                        return
                    if message.opcode == PING:
                        await self._connection.write(frame(PONG, message.payload))
                    elif message.opcode in (TEXT, BINARY):
                        yield message.payload
        except WebSocketError as problem:
            await self._send_close(close_frame(problem.code, str(problem)))

    async def send(self, data: bytes, opcode: int = BINARY) -> None:
        """Sends a message. Raises ConnectionResetError if the client has left."""
        if self._closed:
            raise ConnectionResetError("the WebSocket is closed")
        await self._connection.write(frame(opcode, data))

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        await self._send_close(close_frame(code, reason))

    async def _close(self, code: bytes) -> None:
        await self._send_close(frame(CLOSE, code))

    async def _send_close(self, closing: bytes) -> None:
        if not self._closed:
            self._closed = True
            with suppress(ConnectionResetError):
                await self._connection.write(closing)


class WebChannels:
    """Numbered channels on a WebSocket, as its subprotocol encodes them."""

    def __init__(self, messages: WebMessages, protocol: str) -> None:
        self._messages = messages
        self._base64 = "base64" in protocol

    async def receive(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yields channels and what was sent on them. Empty messages, which keep a connection
        alive, are left out.
        """
        async for message in self._messages.receive():
            if not message:
                continue
            if not self._base64:
                yield message[0], message[1:]
                continue
            try:
                yield message[0] - 48, base64.b64decode(message[1:], validate=True)
            except binascii.Error:
                await self._messages.close(PROTOCOL_ERROR, "expected base64")
                return

    async def send(self, channel: int, data: bytes) -> None:
        """Sends data on a channel, in several messages if they are long."""
        for at in range(0, len(data), MOST_PIECE) if data else (0,):
            piece = data[at : at + MOST_PIECE]
            if self._base64:
                await self._messages.send(b"%d" % channel + base64.b64encode(piece), TEXT)
            else:
                await self._messages.send(bytes((channel,)) + piece)

    async def close(self) -> None:
        await self._messages.close()


class WebCommandStreams:
    """The streams of a command on a WebSocket. `asked` says which the client asked for."""

    def __init__(
        self, connection: UpgradedConnection, protocol: str, asked: Mapping[str, bool]
    ) -> None:
        self._protocol = protocol
        self._channels = WebChannels(WebMessages(connection), protocol)
        self._asked = asked
        self.stdin = Incoming()
        self.size: tuple[int, int] | None = None
        if not asked["stdin"]:
            self.stdin.end()

    async def open(self) -> None:
        """Greets the client with an empty message on its first stream, as Kubernetes does.

        Waits before that for a client of the fifth version, which is kubectl, to make its streams.
        """
        if self._protocol.startswith("v5."):
            await asyncio.sleep(_CLIENT_STREAMS_SECONDS)
        first = next((each for each in ("stdout", "stderr") if self._asked[each]), "error")
        await self.send(first, b"")

    async def receive(self) -> None:
        """Takes what the client sends until it leaves."""
        try:
            async for channel, data in self._channels.receive():
                if channel == _NUMBERS["stdin"]:
                    await self.stdin.put(data)
                elif channel == _NUMBERS["resize"]:
                    self.size = size_in(data) or self.size
                elif channel == _CLOSE_CHANNEL and data[:1] == b"\x00":
                    self.stdin.end()
        finally:
            self.stdin.end()

    async def send(self, stream: str, data: bytes) -> None:
        if self._asked.get(stream, True):
            await self._channels.send(_NUMBERS[stream], data)

    async def finish(self, status: bytes) -> None:
        self.stdin.drop()
        with suppress(ConnectionResetError):
            await self.send("error", status)
            await self._channels.close()


def has_status(protocol: str) -> bool:
    """True if the error channel of a protocol carries a Status in JSON; earlier ones carry text."""
    return protocol.startswith(("v4.", "v5."))
