"""A connection that a client has upgraded: bytes both ways, after the last HTTP answer on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

MOST_UNREAD = 256 << 10  # bytes of the client that wait to be read before it has to wait
WRITE_SECONDS = 90.0  # for a client that does not read what it is sent


class UpgradedConnection:
    """The bytes of a connection, from the upgrade on.

    `send` writes to the client, and waits while it does not read. `hold` makes the client wait, or
    lets it go on.
    """

    def __init__(
        self,
        first: bytes,
        send: Callable[[bytes], Awaitable[None]],
        hold: Callable[[bool], None],
    ) -> None:
        self._unread = bytearray(first)
        self._send = send
        self._hold = hold
        self._news = asyncio.Event()
        self._over = False

    async def read(self) -> bytes:
        """Returns what the client has sent, as soon as there is any; b"" once it has left."""
        while not self._unread:
            if self._over:
                return b""
            self._news.clear()
            await self._news.wait()
        data = bytes(self._unread)
        self._unread.clear()
        self._hold(False)
        return data

    async def write(self, data: bytes) -> None:
        """Sends bytes. Raises ConnectionResetError if the client has left, or reads nothing."""
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._send(data)
        except TimeoutError:
            raise ConnectionResetError("the client does not read") from None

    def feed(self, data: bytes) -> None:
        """Takes bytes of the client."""
        self._unread += data
        self._hold(len(self._unread) > MOST_UNREAD)
        self._news.set()

    def end(self) -> None:
        """Notes that the client has left."""
        self._over = True
        self._news.set()
