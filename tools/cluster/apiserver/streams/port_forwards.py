"""Port-forward: bytes between a client and a port of this machine.

On SPDY a client opens two streams for each of its connections, one for data and one for an error.
In the legacy WebSocket protocol each port of the request has two channels, each of which begins
with the port's number. A port that cannot be connected to is told on its channel for errors, as a
kubelet does, and in the legacy protocol so is a pod without a node. So the upgrade itself succeeds:
clients that repeat a refused one without a pause have nothing to repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import msgspec

from ....kubernetes.api.types.api_documents import Document, RefusedError
from ....kubernetes.kubelet.scripts.commands import ScriptError
from ....kubernetes.kubelet.scripts.container_states import check_host
from ....kubernetes.kubelet.scripts.ports import HOST, MOST_PORT, port_of
from ....kubernetes.kubelet.scripts.script_rules import Scripts
from ..upgraded_connection import UpgradedConnection
from .command_streams import Incoming
from .spdy_streams import OPEN_SECONDS, Pipe, SpdyStream, SpdyStreams, Tunnel
from .until_first import until_first
from .web_channels import WebChannels, WebMessages

CONNECT_SECONDS = 10.0
MOST_PORTS = 64  # in one request; their channels have to fit into a byte
READ_BYTES = 32 << 10
_WAITS_FOR_PAIR = 256  # streams without their partner


def ports_in(parameters: str) -> list[int]:
    """Returns the ports that a WebSocket request asks for. Raises RefusedError with 400."""
    texts = parse_qs(parameters, keep_blank_values=True).get("ports", [])
    ports = [_port(part) for text in texts for part in text.split(",")]
    if len(ports) > MOST_PORTS:
        raise RefusedError(400, "BadRequest", f"ports: expected at most {MOST_PORTS}")
    return ports


def _port(text: str) -> int:
    try:
        return port_of(text)
    except ScriptError:
        is_number = text.isascii() and text.isdecimal()
        why = "value out of range" if is_number else "invalid syntax"
        message = f'cannot convert to []int32: strconv.ParseUint: parsing "{text[:80]}": {why}'
        raise RefusedError(400, "BadRequest", message) from None


class ForwardedPod(msgspec.Struct, frozen=True):
    """A pod whose ports a client reaches through the server."""

    pod: Document
    scripts: Scripts

    async def run_spdy(self, pipe: Pipe) -> None:
        """Forwards the connections of a client on SPDY until it leaves."""
        await _SpdyForwards(self, pipe).run()

    async def run_tunnel(self, connection: UpgradedConnection) -> None:
        """Forwards connections on SPDY within a WebSocket."""
        tunnel = Tunnel(connection)
        await self.run_spdy(tunnel)
        await tunnel.close()

    async def run_channels(
        self, connection: UpgradedConnection, protocol: str, ports: Sequence[int]
    ) -> None:
        """Forwards one connection for each port on the channels of a WebSocket."""
        await _ChannelForwards(self, WebChannels(WebMessages(connection), protocol), ports).run()

    async def forward(
        self, port: int, incoming: Incoming, send: Callable[[bytes], Awaitable[None]]
    ) -> str:
        """Copies bytes both ways until the port's connection ends. Returns why it failed, or ""."""
        try:
            check_host(self.pod)
            local = self.scripts.port(self.pod, port)
            if local is None:
                why = "no script says which port of this machine it stands for: the pod is hollow"
                return self._failure(port, why)
            if not 0 < local <= MOST_PORT:
                return self._failure(port, f"port {local} does not exist")
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(HOST, local)
        except (RefusedError, ScriptError, OSError, TimeoutError) as problem:
            return self._failure(port, f"failed to connect: {problem or 'timeout'}")
        sending = asyncio.create_task(_copy_in(incoming, writer))
        try:
            while data := await reader.read(READ_BYTES):
                await send(data)
        except ConnectionError as problem:
            return self._failure(port, str(problem))
        finally:
            # no wait here: it could be cancelled once more
            sending.cancel()
            writer.close()
        return ""

    def _failure(self, port: int, why: str) -> str:
        metadata = self.pod["metadata"]
        return (
            f"error forwarding port {port} to pod {metadata['name']}, uid {metadata['uid']}: {why}"
        )


async def _copy_in(incoming: Incoming, writer: asyncio.StreamWriter) -> None:
    """Copies what the client sends, and half-closes after its end."""
    with suppress(OSError):
        while data := await incoming.read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()


class _SpdyForwards:
    """The connections of a client on SPDY."""

    def __init__(self, pod: ForwardedPod, pipe: Pipe) -> None:
        self._pod = pod
        self._session = SpdyStreams(pipe, self._opened)
        self._waiting: dict[str, tuple[SpdyStream, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        try:
            with suppress(ConnectionResetError):
                await self._session.run()
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _opened(self, stream: SpdyStream) -> bool:
        """Pairs a stream with its partner. Returns False for one that is no part of a pair."""
        sort, port = stream.headers.get("streamtype"), stream.headers.get("port", "")
        try:
            port_of(port)
        except ScriptError:
            return False
        if sort not in ("data", "error"):
            return False
        # Without a name for its connection, a stream of data is the one after its stream of errors.
        number = stream.number - 2 if sort == "data" else stream.number
        name = stream.headers.get("requestid") or str(number)
        if name not in self._waiting:
            if len(self._waiting) >= _WAITS_FOR_PAIR:
                return False
            self._waiting[name] = stream, self._start(self._give_up(name, stream))
            return True
        partner, giving_up = self._waiting[name]
        if partner.headers.get("streamtype") == sort:
            return False
        del self._waiting[name]
        giving_up.cancel()
        data, error = (stream, partner) if sort == "data" else (partner, stream)
        self._start(self._forward(data, error))
        return True

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def run() -> None:
            with suppress(ConnectionResetError):
                await work

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # one that is cancelled before it begins
        return task

    async def _give_up(self, name: str, stream: SpdyStream) -> None:
        """Resets a stream whose partner does not come."""
        await asyncio.sleep(OPEN_SECONDS)
        del self._waiting[name]
        await stream.reset()

    async def _forward(self, data: SpdyStream, error: SpdyStream) -> None:
        failure = await self._pod.forward(int(data.headers["port"]), data.incoming, data.send)
        if failure:
            with suppress(ConnectionResetError):
                await error.send(failure.encode())
            await data.reset()
            await error.reset()
            return
        for stream in (data, error):
            await stream.end()
            self._session.forget(stream.number)


class _ChannelForwards:
    """The ports of a request on the channels of a WebSocket."""

    def __init__(self, pod: ForwardedPod, channels: WebChannels, ports: Sequence[int]) -> None:
        self._pod = pod
        self._channels = channels
        self._ports = ports
        self._incoming = [Incoming() for _ in ports]

    async def run(self) -> None:
        """Forwards until the client leaves or the connections of all ports have ended."""
        for i, port in enumerate(self._ports):
            for channel in (2 * i, 2 * i + 1):
                await self._channels.send(channel, port.to_bytes(2, "little"))
        await until_first(self._receive(), self._forward_all())
        await self._channels.close()

    async def _receive(self) -> None:
        with suppress(ConnectionResetError):
            async for channel, data in self._channels.receive():
                if channel % 2 == 0 and channel // 2 < len(self._incoming):
                    await self._incoming[channel // 2].put(data)

    async def _forward_all(self) -> None:
        await asyncio.gather(*map(self._forward, range(len(self._ports))))

    async def _forward(self, i: int) -> None:
        async def send(data: bytes) -> None:
            await self._channels.send(2 * i, data)

        with suppress(ConnectionResetError):
            failure = await self._pod.forward(self._ports[i], self._incoming[i], send)
            self._incoming[i].drop()
            if failure:
                await self._channels.send(2 * i + 1, failure.encode())
