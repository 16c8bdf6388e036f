"""Lines of waiting items, one for each owner. The owners take turns.

So an owner with a thousand items does not hold back the one item of another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Lines(Generic[T]):
    """The lines by owner. Each item is in one line, once."""

    def __init__(self) -> None:
        # By owner; in both, the next is the first. No line is empty.
        self._lines: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()

    def append(self, owner: str, item: T) -> None:
        """Adds an item at the end of the owner's line."""
        self._lines.setdefault(owner, OrderedDict())[item] = None

    def put_first(self, owner: str, items: Sequence[T]) -> None:
        """Adds items at the head of the owner's line."""
        for item in reversed(items):
            self.append(owner, item)
            self._lines[owner].move_to_end(item, last=False)

    def peek(self) -> T | None:
        """Returns the first item of the next owner; None if no item waits."""
        for line in self._lines.values():
            return next(iter(line))
        return None

    def take(self) -> T | None:
        """Removes and returns the first item of the next owner, who goes behind the others."""
        if not self._lines:
            return None
        owner, line = self._lines.popitem(last=False)
        item, _ = line.popitem(last=False)
        if line:
            self._lines[owner] = line
        return item

    def remove(self, owner: str, item: T) -> None:
        """Removes an item. Its owner keeps its turn."""
        line = self._lines[owner]
        del line[item]
        if not line:
            del self._lines[owner]

    def clear(self) -> None:
        self._lines.clear()

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def __bool__(self) -> bool:
        return bool(self._lines)
