"""A TCP proxy between clients and a server: it counts the writes that pass, stalls, and may be
asked to CONNECT.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketAttribute, SocketStream

_WRITE = re.compile(rb"(?:POST|PUT|PATCH|DELETE) \S+(?= HTTP/1\.1\r\n)")


class Proxy:
    """`writes` are the writes that passed, as (time.monotonic(), "POST /path"), for clients of
    plain HTTP that send each request in a piece of its own.
    """

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        assert target.hostname is not None
        assert target.port is not None
        self._target = (target.hostname, target.port)
        self._stalled: set[SocketStream] = set()
        self._clients: set[SocketStream] = set()
        self.url = ""
        self.connects: list[str] = []
        self.writes: list[tuple[float, str]] = []

    def stall(self) -> None:
        """Forward nothing more on the connections there are, and keep them open."""
        self._stalled = set(self._clients)

    def count(self, since: float) -> list[str]:
        """The writes since that time."""
        return [write for at, write in self.writes if at >= since]

    async def handle(self, client: SocketStream) -> None:
        self._clients.add(client)
        try:
            async with (
                client,
                await anyio.connect_tcp(*self._target) as server,
                anyio.create_task_group() as group,
            ):
                group.start_soon(self._forward, client, server, client)
                group.start_soon(self._forward, server, client, client)
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        finally:
            self._clients.discard(client)

    async def _forward(
        self, source: ByteReceiveStream, to: ByteSendStream, client: SocketStream
    ) -> None:
        async for piece in source:
            if client in self._stalled:
                await anyio.sleep_forever()
            if source is client:
                if piece.startswith(b"CONNECT "):
                    self.connects.append(piece.decode())
                    await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    continue
                write = _WRITE.match(piece)
                if write is not None:
                    self.writes.append((time.monotonic(), write[0].decode()))
            await to.send(piece)
        await to.aclose()


@asynccontextmanager
async def proxy(url: str) -> AsyncIterator[Proxy]:
    """A proxy to the server of this URL, at a URL of its own."""
    running = Proxy(url)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        running.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        group.start_soon(listener.serve, running.handle)
        yield running
        group.cancel_scope.cancel()
