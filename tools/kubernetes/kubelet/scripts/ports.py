"""The ports of this machine that stand for the ports of a pod.

Any user of the API writes annotations, and the server may reach what that user may not: without a
limit, an annotation would open whatever listens where the server runs. So an annotation names ports
alone, never a host; they are those of the loopback address 127.0.0.1; and each of them must be
among the ports that whoever started the server allowed. Without such ports no annotation is
followed.
"""

from __future__ import annotations

import re
from collections.abc import Container

from .commands import ScriptError

HOST = "127.0.0.1"
MOST_PORT = 65535
_PAIR = re.compile(r"([0-9]{1,5})=([0-9]{1,5})")
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class AllowedPorts(Container[int]):
    """The ports of this machine that annotations may name, such as 8080,9000-9010."""

    def __init__(self, text: str = "") -> None:
        """Reads a list of ports and ranges. Raises ScriptError."""
        self._ranges: list[range] = []
        for part in filter(None, map(str.strip, text.split(","))):
            match = _RANGE.fullmatch(part)
            if match is None:
                raise ScriptError(f"expected ports such as 8080,9000-9010, got {part[:80]!r}")
            first, last = port_of(match[1]), port_of(match[2] or match[1])
            self._ranges.append(range(first, last + 1))

    def __contains__(self, port: object) -> bool:
        return any(port in ports for ports in self._ranges)


def read_ports(text: str) -> dict[int, int]:
    """Reads the ports of this machine that stand for ports of a pod, such as 80=18080,443=18443.

    Raises ScriptError, also for a host: there is no place for one.
    """
    ports: dict[int, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        match = _PAIR.fullmatch(part)
        if match is None:
            message = "expected pairs of ports of the pod and of this machine, without a host"
            raise ScriptError(f"{message}, such as 80=18080, got {part[:80]!r}")
        ports[port_of(match[1])] = port_of(match[2])
    return ports


def port_of(text: str) -> int:
    """Returns the number of a port. Raises ScriptError."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= MOST_PORT):
        raise ScriptError(f"expected a port from 1 to {MOST_PORT}, got {text[:80]!r}")
    return int(text)
