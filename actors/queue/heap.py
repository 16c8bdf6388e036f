"""A heap with keys: the least slot first, and update and removal by key in O(log n).

An entry that is moved or removed stays behind in the heap until it comes to the top, or until half
of the heap is such leftovers; then the heap is built anew. So every operation is O(log n),
amortised. Mirrors kube-scheduler's heap.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")
Slot = tuple[float, ...]
_Item = tuple[Slot, int, str]

SMALLEST_REBUILD = 64


class KeyedHeap(Generic[V]):
    """Values by key. Equal slots come out in the order in which they were put in."""

    def __init__(self) -> None:
        self._heap: list[_Item] = []
        self._live: dict[str, tuple[_Item, V]] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[V]:
        """The values, in no order that means anything."""
        return (value for _, value in self._live.values())

    def put(self, key: str, slot: Slot, value: V) -> None:
        """Put a value in, or in another place if its key is here already."""
        known = self._live.get(key)
        if known is not None and known[0][0] == slot:
            self._live[key] = (known[0], value)
            return
        self._number += 1
        item = (slot, self._number, key)
        self._live[key] = (item, value)
        heapq.heappush(self._heap, item)
        self._tidy()

    def peek(self) -> tuple[Slot, V] | None:
        """The least slot and its value."""
        while self._heap:
            item = self._heap[0]
            live = self._live.get(item[2])
            if live is not None and live[0] is item:
                return item[0], live[1]
            heapq.heappop(self._heap)
        return None

    def pop(self) -> V | None:
        """Take the value of the least slot out."""
        top = self.peek()
        if top is None:
            return None
        del self._live[heapq.heappop(self._heap)[2]]
        return top[1]

    def remove(self, key: str) -> V | None:
        """Take a value out, wherever it is."""
        live = self._live.pop(key, None)
        if live is None:
            return None
        self._tidy()
        return live[1]

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._live) + SMALLEST_REBUILD:
            self._heap = [item for item, _ in self._live.values()]
            heapq.heapify(self._heap)
