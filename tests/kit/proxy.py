"""A TCP proxy between clients and a server. It lists the writes that pass, can stall, and answers
CONNECT.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, SocketAttribute, SocketStream

_WRITE = re.compile(rb"(?:POST|PUT|PATCH|DELETE) \S+(?= HTTP/1\.1\r\n)")


class Proxy:
    """`writes` are the writes that passed, such as "POST /path", in their order. They are seen for
    clients that send each request in one piece of plain HTTP.
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
        self.writes: list[str] = []

    def stall(self) -> None:
        """Stops forwarding on the open connections, and keeps them open."""
        self._stalled = set(self._clients)

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
                    self.writes.append(write[0].decode())
            await to.send(piece)
        await to.aclose()


@asynccontextmanager
async def proxy(url: str) -> AsyncIterator[Proxy]:
    """Runs a proxy to the server of this URL."""
    running = Proxy(url)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        running.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        group.start_soon(listener.serve, running.handle)
        yield running
        group.cancel_scope.cancel()
