"""ChangeLog: what changed, in order, so that whoever remembers a version can be told what to look
at again.
"""

from __future__ import annotations

from typing import Generic, TypeVar

LONGEST = 8192
T = TypeVar("T")


class ChangeLog(Generic[T]):
    """A version is the number of changes so far. What happened long ago is forgotten; `since` says
    so.
    """

    def __init__(self) -> None:
        self.version = 0
        self._changed: list[T] = []
        self._forgotten = 0

    def add(self, changed: T) -> None:
        self.version += 1
        self._changed.append(changed)
        if len(self._changed) > 2 * LONGEST:
            del self._changed[:LONGEST]
            self._forgotten += LONGEST

    def since(self, version: int) -> set[T] | None:
        """What changed after this version, or None if that is too long ago to tell."""
        return (
            None if version < self._forgotten else set(self._changed[version - self._forgotten :])
        )
