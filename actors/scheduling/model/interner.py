"""Interner: one object in place of many equal ones, because most pods come from few templates."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K", bytes, str)
V = TypeVar("V")
MAX_VALUES = 8192
MAX_BYTES = 4 << 20  # of keys, at most
LONGEST = 1 << 14  # of a key that is kept; those of most pods have a few hundred bytes


class Interner(Generic[K, V]):
    """The first value of each key. Beyond a limit the older half is forgotten, and values with very
    long keys are not kept, so that deleted pods leave little behind.

    A value that is not kept costs memory alone: a later equal value takes its place. A character of
    a key counts as a byte.
    """

    def __init__(self) -> None:
        self._first: dict[K, V] = {}
        self._bytes = 0

    def get(self, key: K) -> V | None:
        return self._first.get(key)

    def put(self, key: K, value: V) -> V:
        """Keeps a value whose key is new, and returns it."""
        if len(key) > LONGEST:
            return value
        self._bytes += len(key)
        if len(self._first) >= MAX_VALUES or self._bytes > MAX_BYTES:
            for oldest in list(self._first)[: len(self._first) // 2 + 1]:
                self._bytes -= len(oldest)
                del self._first[oldest]
        self._first[key] = value
        return value

    def first(self, key: K, value: V) -> V:
        """Returns the first value of this key. If the key is new, that is this value."""
        first = self._first.get(key)
        return self.put(key, value) if first is None else first
