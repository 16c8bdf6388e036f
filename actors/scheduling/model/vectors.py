"""The array types of columns, and quick looks at them.

The methods of NumPy that have the same names cost several times as much on arrays of a few hundred
places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Integers = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Rows = slice | Ints


def lowest(numbers: Integers) -> int:
    """Of at least one number."""
    return int(numbers[numbers.argmin()])


def highest(numbers: Integers) -> int:
    """Of at least one number."""
    return int(numbers[numbers.argmax()])


def some(marks: Bools) -> bool:
    """Whether there is a mark."""
    return len(marks) > 0 and bool(marks[marks.argmax()])


def every(marks: Bools) -> bool:
    """Whether there are marks alone."""
    return not len(marks) or bool(marks[marks.argmin()])


def nth(marks: Bools, number: int) -> int:
    """Where the mark is before which there are `number` others."""
    start, stop = 0, len(marks)
    while stop - start > 256:
        middle = (start + stop) // 2
        before = int(np.count_nonzero(marks[start:middle]))
        if number < before:
            stop = middle
        else:
            start, number = middle, number - before
    return start + int(marks[start:stop].nonzero()[0][number])


class Marks:
    """bool[size] of which a span can be looked at without an array: `bools` is an array of the same
    memory.
    """

    __slots__ = ("_bytes", "bools")

    def __init__(self, size: int, mark: bool) -> None:
        self._bytes = bytearray([mark]) * size
        self.bools: Bools = np.frombuffer(self._bytes, dtype=np.bool_)

    def some(self, start: int, stop: int) -> bool:
        return self._bytes.find(1, start, stop) >= 0

    def every(self, start: int, stop: int) -> bool:
        return self._bytes.find(0, start, stop) < 0


def grown(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """The array with room for `rows` in its last axis; what is new is zero."""
    wider = np.zeros((*array.shape[:-1], rows), dtype=array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider
