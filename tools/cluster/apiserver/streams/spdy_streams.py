"""Streams over SPDY/3.1: on a connection, or through a WebSocket that carries its bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Protocol

from ....kubernetes.api.requests.request import HttpRequest
from ....kubernetes.api.types.api_documents import RefusedError
from ..upgraded_connection import UpgradedConnection
from .command_streams import Incoming, size_in
from .spdy import (
    CANCEL,
    INVALID_STREAM,
    MOST_STREAMS,
    REFUSED_STREAM,
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
from .web_channels import WebMessages

PROTOCOL_HEADER = "X-Stream-Protocol-Version"
# The protocols of exec and attach on SPDY; "" is that of a client which names none.
COMMAND_PROTOCOLS = (
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
    "",
)
PORT_PROTOCOL = "portforward.k8s.io"
TUNNEL_PROTOCOL = f"SPDY/3.1+{PORT_PROTOCOL}"
OPEN_SECONDS = 30.0  # for a client to open the streams of a command, as in the kubelet
MOST_PIECE = 32 << 10  # bytes of data in a frame


def is_spdy(headers: Mapping[str, str]) -> bool:
    """True if a request asks for SPDY."""
    upgrades = "upgrade" in headers.get("connection", "").lower()
    return upgrades and headers.get("upgrade", "").lower() == "spdy/3.1"


def accepting_headers(request: HttpRequest, served: tuple[str, ...]) -> dict[str, str]:
    """Returns the headers that accept SPDY, with the first protocol of the client that the server
    has. Raises RefusedError with 403 if there is none.
    """
    offered = request.headers.get(PROTOCOL_HEADER.lower(), "")
    names = [each for part in offered.split(",") if (each := part.strip())]
    accepted = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    if not names:
        return accepted
    for name in names:
        if name in served:
            return {**accepted, PROTOCOL_HEADER: name}
    message = f"unable to upgrade: unable to negotiate protocol: client supports {names}"
    raise RefusedError(403, "Forbidden", f"{message[:400]}, server accepts {list(served)}")


class Pipe(Protocol):
    """Bytes both ways. `read` returns b"" once the client has left."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...


class Tunnel:
    """A pipe through the messages of a WebSocket."""

    def __init__(self, connection: UpgradedConnection) -> None:
        self._messages = WebMessages(connection)
        self._received: AsyncIterator[bytes] = self._messages.receive()

    async def read(self) -> bytes:
        async for data in self._received:
            if data:
                return data
        return b""

    async def write(self, data: bytes) -> None:
        await self._messages.send(data)

    async def close(self) -> None:
        await self._messages.close()


class SpdyStream:
    """A stream that a client has opened."""

    def __init__(self, session: SpdyStreams, number: int, headers: Mapping[str, str]) -> None:
        self._session = session
        self._open = True
        self.number = number
        self.headers = headers
        self.incoming = Incoming()

    async def send(self, data: bytes) -> None:
        """Sends data. Raises ConnectionResetError if the client has left or given up the stream."""
        if not self._open:
            raise ConnectionResetError("the stream is closed")
        for at in range(0, len(data), MOST_PIECE):
            await self._session.write(data_frame(self.number, data[at : at + MOST_PIECE]))

    async def end(self) -> None:
        """Says that nothing more is sent. What the client still sends is dropped."""
        self.incoming.drop()
        if self._open:
            self._open = False
            with suppress(ConnectionResetError):
                await self._session.write(data_frame(self.number, b"", ends=True))

    async def reset(self) -> None:
        """Gives up the stream, in both directions."""
        self.stop()
        self._session.forget(self.number)
        with suppress(ConnectionResetError):
            await self._session.write(reset_frame(self.number, CANCEL))

    def stop(self) -> None:
        """Notes that the stream is over."""
        self._open = False
        self.incoming.end()


class SpdyStreams:
    """The streams of a client. `opened` is called with each new one; False refuses it."""

    def __init__(self, pipe: Pipe, opened: Callable[[SpdyStream], bool]) -> None:
        self._pipe = pipe
        self._opened = opened
        self._session = SpdySession()
        self._streams: dict[int, SpdyStream] = {}
        self._latest = 0

    async def run(self) -> None:
        """Takes what the client sends until it leaves, ends the session or breaks its rules."""
        try:
            while data := await self._pipe.read():
                for event in self._session.feed(data):
                    if isinstance(event, SessionEnded):
                        return
                    await self._take(event)
        except SpdyError:
            with suppress(ConnectionResetError):
                await self.say_goodbye()
        finally:
            for stream in self._streams.values():
                stream.stop()

    async def say_goodbye(self) -> None:
        await self.write(goodbye_frame(self._latest))

    async def write(self, data: bytes) -> None:
        await self._pipe.write(data)

    def forget(self, number: int) -> None:
        self._streams.pop(number, None)

    async def _take(self, event: StreamOpened | StreamData | StreamReset | PingReceived) -> None:
        match event:
            case StreamOpened(number, headers, ends):
                await self._open(number, headers, ends=ends)
            case StreamData(number, data, ends):
                stream = self._streams.get(number)
                if stream is None:
                    if number > self._latest or number == 0:
                        await self.write(reset_frame(number, INVALID_STREAM))
                    return
                await stream.incoming.put(data)
                if ends:
                    stream.incoming.end()
            case StreamReset(number):
                if (stream := self._streams.pop(number, None)) is not None:
                    stream.stop()
            case PingReceived(answer):
                await self.write(answer)

    async def _open(self, number: int, headers: dict[str, str], *, ends: bool) -> None:
        self._latest = number
        stream = SpdyStream(self, number, headers)
        if len(self._streams) >= MOST_STREAMS or not self._opened(stream):
            await self.write(reset_frame(number, REFUSED_STREAM))
            return
        self._streams[number] = stream
        if ends:
            stream.incoming.end()
        await self.write(self._session.reply(number))


class SpdyCommandStreams:
    """The streams of a command over SPDY: each is opened by the client, with its sort as a header.

    `asked` says which the client asked for.
    """

    def __init__(self, pipe: Pipe, asked: Mapping[str, bool]) -> None:
        self._expected = {"error", *(stream for stream, wanted in asked.items() if wanted)}
        self._asked = asked
        self._by_sort: dict[str, SpdyStream] = {}
        self._complete = asyncio.Event()
        self._session = SpdyStreams(pipe, self._add)
        self._resizing: asyncio.Task[None] | None = None
        self.stdin = Incoming()
        self.size: tuple[int, int] | None = None

    async def open(self) -> None:
        """Waits for the streams. Raises TimeoutError if they do not come."""
        async with asyncio.timeout(OPEN_SECONDS):
            await self._complete.wait()
        if "resize" in self._by_sort:
            self._resizing = asyncio.create_task(self._follow_size(self._by_sort["resize"]))

    async def receive(self) -> None:
        try:
            await self._session.run()
        finally:
            self.stdin.end()
            if self._resizing is not None:
                self._resizing.cancel()

    async def send(self, stream: str, data: bytes) -> None:
        if data and stream in self._by_sort:
            await self._by_sort[stream].send(data)

    async def finish(self, status: bytes) -> None:
        self.stdin.drop()
        with suppress(ConnectionResetError):
            await self.send("error", status)
            for stream in self._by_sort.values():
                await stream.end()
            await self._session.say_goodbye()

    def _add(self, stream: SpdyStream) -> bool:
        sort = stream.headers.get("streamtype", "")
        if sort not in self._expected or sort in self._by_sort:
            return False
        self._by_sort[sort] = stream
        if sort == "stdin":
            stream.incoming = self.stdin
        if self._by_sort.keys() >= self._expected:
            if not self._asked["stdin"]:
                self.stdin.end()
            self._complete.set()
        return True

    async def _follow_size(self, stream: SpdyStream) -> None:
        while data := await stream.incoming.read():
            self.size = size_in(data) or self.size
