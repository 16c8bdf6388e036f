"""A heap with keys: the smallest slot first, with update and removal by key in O(log n).

An item that is moved or removed stays in the heap until it comes to the top, or until half of the
heap is such leftovers. Then the heap is rebuilt. So every operation is O(log n), amortised. Mirrors
kube-scheduler's heap.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

V = TypeVar("V")
Slot = tuple[Any, ...]
_Item = tuple[Slot, int, str]

SMALLEST_REBUILD = 64


class KeyedHeap(Generic[V]):
    """A heap by key. Values with equal slots come out in the order in which they came in."""

    def __init__(self) -> None:
        self._heap: list[_Item] = []
        self._live: dict[str, tuple[_Item, V]] = {}
        self._number = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[V]:
        """Yields the values, in no particular order."""
        return (value for _, value in self._live.values())

    def put(self, key: str, slot: Slot, value: V) -> None:
        """Adds a value, or replaces the value of this key and moves it to the slot."""
        present = self._live.get(key)
        if present is not None and present[0][0] == slot:
            self._live[key] = (present[0], value)
            return
        self._number += 1
        item = (slot, self._number, key)
        self._live[key] = (item, value)
        heapq.heappush(self._heap, item)
        self._drop_removed()

    def peek(self) -> tuple[Slot, V] | None:
        """Returns the smallest slot and its value; None if the heap is empty."""
        while self._heap:
            item = self._heap[0]
            live = self._live.get(item[2])
            if live is not None and live[0] is item:
                return item[0], live[1]
            heapq.heappop(self._heap)
        return None

    def remove(self, key: str) -> V | None:
        """Removes and returns the value of this key; None if there is none."""
        live = self._live.pop(key, None)
        if live is None:
            return None
        if self._heap[0] is live[0]:
            heapq.heappop(self._heap)
        self._drop_removed()
        return live[1]

    def _drop_removed(self) -> None:
        if len(self._heap) > 2 * len(self._live) + SMALLEST_REBUILD:
            self._heap = [item for item, _ in self._live.values()]
            heapq.heapify(self._heap)

    def validate(self) -> None:
        """Raises AssertionError if an invariant does not hold."""
        assert {item for item, _ in self._live.values()} <= set(self._heap), (
            "a value cannot be found"
        )
        assert len(self._heap) <= 2 * len(self._live) + SMALLEST_REBUILD, "too many leftovers"
