"""ChangeLog: which rows changed, in order, so that whoever remembers a version can be told what to look at again."""

from __future__ import annotations

LONGEST = 8192


class ChangeLog:
    """A version is the number of changes so far. What happened long ago is forgotten; `since` says so."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._forgotten = 0

    @property
    def version(self) -> int:
        return self._forgotten + len(self._rows)

    def add(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > 2 * LONGEST:
            del self._rows[:LONGEST]
            self._forgotten += LONGEST

    def since(self, version: int) -> set[int] | None:
        """The rows that changed after this version, or None if that is too long ago to tell."""
        return None if version < self._forgotten else set(self._rows[version - self._forgotten :])
