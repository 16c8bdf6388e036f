"""The array types of columns, and fast functions on them.

NumPy's own min, max, any and all take several times as long on arrays of a few hundred elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Rows = slice | Ints


def lowest(numbers: Integers) -> int:
    """Returns the smallest number; there must be at least one."""
    return numbers.item(numbers.argmin())


def highest(numbers: Integers) -> int:
    """Returns the largest number; there must be at least one."""
    return numbers.item(numbers.argmax())


def any_true(marks: Bools) -> bool:
    """True if at least one element is true."""
    return len(marks) > 0 and marks.item(marks.argmax())


def all_true(marks: Bools) -> bool:
    """True if all elements are true, also if there are none."""
    return not len(marks) or marks.item(marks.argmin())


def nth_true(marks: Bools, number: int) -> int:
    """Returns the position of a true element, `number` counted from 0 among the true ones."""
    start, stop = 0, len(marks)
    while stop - start > 256:
        middle = (start + stop) // 2
        before = int(np.count_nonzero(marks[start:middle]))
        if number < before:
            stop = middle
        else:
            start, number = middle, number - before
    return start + int(marks[start:stop].nonzero()[0][number])


class Flags:
    """A bool[size] with a quick test of its spans, which creates no array.

    `bools` is an array that shares its memory.
    """

    __slots__ = ("_bytes", "bools")

    def __init__(self, size: int, mark: bool) -> None:
        self._bytes = bytearray([mark]) * size
        self.bools: Bools = np.frombuffer(self._bytes, dtype=np.bool_)

    def any_in(self, start: int, stop: int) -> bool:
        return self._bytes.find(1, start, stop) >= 0

    def all_in(self, start: int, stop: int) -> bool:
        return self._bytes.find(0, start, stop) < 0


def grown(array: NDArray[Any], rows: int, fill: int = 0) -> NDArray[Any]:
    """Returns a copy of the array whose last axis has `rows` elements; the new ones are `fill`."""
    wider = np.full((*array.shape[:-1], rows), fill, dtype=array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider
