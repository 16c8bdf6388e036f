"""Sockets that detect a dead peer within 45 seconds, as client-go's connections do.

A peer whose machine or network is gone sends nothing. The kernel probes an idle peer after 15
seconds and then every 5 seconds, and closes the connection 30 seconds after the last sign of life.
It also closes the connection if data stays unacknowledged for 30 seconds. A peer that is only slow
keeps its connection, because its kernel answers.
"""

from __future__ import annotations

import socket
import struct
from typing import Protocol

import aiohttp

IDLE_SECONDS = 15
INTERVAL_SECONDS = 5
DEAD_SECONDS = 30
_TCP_OPTIONS = {
    "TCP_KEEPIDLE": IDLE_SECONDS,
    "TCP_KEEPALIVE": IDLE_SECONDS,  # the name on macOS
    "TCP_KEEPINTVL": INTERVAL_SECONDS,
    "TCP_KEEPCNT": (DEAD_SECONDS - IDLE_SECONDS) // INTERVAL_SECONDS,
    "TCP_USER_TIMEOUT": DEAD_SECONDS * 1000,
}


class _Socket(Protocol):
    """The socket of a transport, as event loops return it."""

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None: ...


def keep_alive(sock: _Socket) -> None:
    """Makes the kernel detect a dead peer, as far as this kernel can."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_OPTIONS.items():
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def drop_at_close(sock: _Socket) -> None:
    """Makes the kernel discard undelivered data when the socket is closed."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def connector(limit: int) -> aiohttp.TCPConnector:
    """Returns a connector with at most `limit` connections with keep-alive; 0 means no limit."""
    return aiohttp.TCPConnector(limit=limit, socket_factory=_kept_alive)


def _kept_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, number, _, _ = address
    sock = socket.socket(family, kind, number)
    keep_alive(sock)
    return sock
