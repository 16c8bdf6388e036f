"""The bindings that are being written: their number, in all and by namespace.

They wait for the client's rate limit, where the namespaces take turns, and for the API server. A
namespace with MOST_OF_NAMESPACE of them is paused until a quarter has ended; with MOST of all, the
cycle waits. Pure.
"""

from __future__ import annotations

MOST = 1024
MOST_OF_NAMESPACE = 256
FEW = MOST_OF_NAMESPACE * 3 // 4


class Writes:
    def __init__(self) -> None:
        self._by_namespace: dict[str, int] = {}
        self._number = 0
        self._paused: set[str] = set()

    def are_too_many(self) -> bool:
        return self._number >= MOST

    def began(self, namespace: str) -> bool:
        """Counts a binding. Returns True if its namespace has to pause."""
        self._number += 1
        number = self._by_namespace.get(namespace, 0) + 1
        self._by_namespace[namespace] = number
        if number < MOST_OF_NAMESPACE or namespace in self._paused:
            return False
        self._paused.add(namespace)
        return True

    def ended(self, namespace: str) -> bool:
        """Uncounts a binding. Returns True if its namespace may continue."""
        self._number -= 1
        number = self._by_namespace.pop(namespace) - 1
        if number:
            self._by_namespace[namespace] = number
        if namespace not in self._paused or number > FEW:
            return False
        self._paused.remove(namespace)
        return True
