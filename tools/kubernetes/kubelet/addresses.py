"""Addresses for hollow nodes and pods, one after another from the first."""

from __future__ import annotations

from ipaddress import IPv4Address

MOST = 65_000


class Addresses:
    """The addresses from a first one on. Addresses that have been used are given last."""

    def __init__(self, first: str) -> None:
        self._first = int(IPv4Address(first))
        self._next = 0

    def note(self, address: str | None) -> None:
        """Notes an address that was given before, perhaps by kubelets that ran earlier."""
        try:
            number = int(IPv4Address(address or "")) - self._first
        except ValueError:
            return
        if 0 <= number < MOST:
            self._next = max(self._next, number + 1)

    def take(self) -> str:
        """Returns the next address; after the last one, the first again."""
        number, self._next = self._next, self._next + 1
        return str(IPv4Address(self._first + number % MOST))
