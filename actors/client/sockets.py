"""Sockets that notice within 45 seconds that nobody is at the other end any more, as client-go's
connections do.

A peer whose machine or network is gone says nothing. The kernel asks an idle one for a sign of life
after 15 seconds, then every 5, and gives the connection up 30 seconds after the last one; what was
sent is given up 30 seconds after it was not acknowledged. What is only slow is not given up: its
kernel answers.
"""

from __future__ import annotations

import socket
import struct
from typing import Protocol

import aiohttp

IDLE_SECONDS = 15
INTERVAL_SECONDS = 5
GIVEN_UP_SECONDS = 30
_TCP_OPTIONS = {
    "TCP_KEEPIDLE": IDLE_SECONDS,
    "TCP_KEEPALIVE": IDLE_SECONDS,  # what macOS calls it
    "TCP_KEEPINTVL": INTERVAL_SECONDS,
    "TCP_KEEPCNT": (GIVEN_UP_SECONDS - IDLE_SECONDS) // INTERVAL_SECONDS,
    "TCP_USER_TIMEOUT": GIVEN_UP_SECONDS * 1000,
}


class _Socket(Protocol):
    """What event loops give as a transport's socket."""

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None: ...


def keep_alive(sock: _Socket) -> None:
    """Give up what is dead, as far as the machine's kernel can."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_OPTIONS.items():
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def drop_at_close(sock: _Socket) -> None:
    """Have the kernel forget what is not delivered when the socket is closed, instead of delivering
    it later.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def connector(limit: int) -> aiohttp.TCPConnector:
    """At most `limit` connections that are kept alive; 0 is no limit."""
    return aiohttp.TCPConnector(limit=limit, socket_factory=_kept_alive)


def _kept_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, number, _, _ = address
    made = socket.socket(family, kind, number)
    keep_alive(made)
    return made
