"""ChangeLog: the changes in order, by which a cache of an older version is updated."""

from __future__ import annotations

from typing import Generic, TypeVar

MAX_CHANGES = 8192
T = TypeVar("T")


class ChangeLog(Generic[T]):
    """A log of changes. A version is the number of changes so far. At least the last MAX_CHANGES
    are kept.
    """

    def __init__(self) -> None:
        self.version = 0
        self._changed: list[T] = []
        self._forgotten = 0

    def add(self, changed: T) -> None:
        self.version += 1
        self._changed.append(changed)
        if len(self._changed) > 2 * MAX_CHANGES:
            del self._changed[:MAX_CHANGES]
            self._forgotten += MAX_CHANGES

    def since(self, version: int) -> set[T] | None:
        """Returns the changes after this version, or None if the version is too old."""
        return (
            None if version < self._forgotten else set(self._changed[version - self._forgotten :])
        )
