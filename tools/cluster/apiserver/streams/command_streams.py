"""The streams of a command, whatever protocol carries them."""

from __future__ import annotations

import asyncio
import re
from typing import Protocol

MOST_UNREAD = 1 << 20  # bytes of stdin that a command has not read
_SIZE = re.compile(rb'"(Width|Height)"\s*:\s*([0-9]{1,6})')


class CommandStreams(Protocol):
    """The streams between a client and a command.

    `open` waits for the streams, while `receive` takes what the client sends until it leaves, and
    `stdin` has it. `send` writes to a stream of the client by its name, such as
    stdout, and does nothing for a stream that the client did not ask for; it raises
    ConnectionResetError once the client has left. `finish` sends a status, and ends the streams.
    """

    stdin: Incoming
    size: tuple[int, int] | None

    async def open(self) -> None: ...

    async def receive(self) -> None: ...

    async def send(self, stream: str, data: bytes) -> None: ...

    async def finish(self, status: bytes) -> None: ...


class Incoming:
    """The bytes of one stream from a client, which has to wait if they are not read."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ended = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, data: bytes) -> None:
        """Adds bytes, and waits for room if too many are unread. After the end, they are lost."""
        if self._ended:
            return
        self._data += data
        self._news.set()
        if len(self._data) > MOST_UNREAD:
            self._room.clear()
        await self._room.wait()

    def end(self) -> None:
        self._ended = True
        self._news.set()
        self._room.set()

    def drop(self) -> None:
        """Drops what is unread and what is to come: nobody reads it any more."""
        self._data.clear()
        self.end()

    async def read(self) -> bytes:
        """Returns what has come, as soon as there is any; b"" at the end."""
        while not self._data and not self._ended:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._data)
        self._data.clear()
        self._room.set()
        return data


def size_in(data: bytes) -> tuple[int, int] | None:
    """Returns the last columns and rows in the messages of a resize stream, if they have both."""
    found = {name: int(number) for name, number in _SIZE.findall(data)}
    return (found[b"Width"], found[b"Height"]) if len(found) == 2 else None
