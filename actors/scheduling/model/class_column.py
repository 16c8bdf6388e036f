"""ClassColumn: the class of each node by one of its values. A rule is decided once for each class,
and a node takes the result of its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np

from .read_only_arrays import read_only
from .vectors import Ints, grown

T = TypeVar("T")
FEW_UNUSED = 4


class ClassColumn(Generic[T]):
    """The class of each row: `codes[row]` is the code of its value, and `classes` has the values in
    the order of their codes. `empty` is the class of rows without a value; if it is None, their
    code is -1.

    Values such as the times of an autoscaler's taints never come again. So the classes that no row
    uses go once they are the majority, and more than FEW_UNUSED: then all codes change, and
    `classes` is another object.
    """

    def __init__(self, rows: int, empty: T | None = None) -> None:
        self._none = -1 if empty is None else 0
        self._codes: Ints = np.full(rows, self._none, dtype=np.int64)
        self._classes: dict[T, int] = {} if empty is None else {empty: 0}
        self._rows = [1] * len(self._classes)  # by code: how many rows have it
        self._unused = 0
        self._publish()

    def _publish(self) -> None:
        """Publishes the new arrays of codes and classes to readers."""
        self.codes: Ints = read_only(self._codes)
        self.classes: Mapping[T, int] = MappingProxyType(self._classes)

    def set(self, row: int, value: T | None) -> None:
        classes = self._classes
        code = self._none if value is None else classes.setdefault(value, len(classes))
        before = int(self._codes[row])
        if code == before:
            return
        self._codes[row] = code
        if code == len(self._rows):
            self._rows.append(0)
            self._unused += 1
        if code != self._none:
            self._unused -= not self._rows[code]
            self._rows[code] += 1
        if before != self._none:
            self._rows[before] -= 1
            self._unused += not self._rows[before]
        self._changed(before, code)
        if self._unused > max(len(classes) // 2, FEW_UNUSED):
            self._drop_unused()

    def grow(self, rows: int) -> None:
        self._codes = grown(self._codes, rows, self._none)
        self._publish()

    def _changed(self, before: int, code: int) -> None:
        """Records that the code of a row has changed."""

    def _drop_unused(self) -> None:
        used = np.array(self._rows, dtype=np.int64) > 0
        # By old code the new one; the last element is for -1, which stays.
        self._codes = np.append(np.cumsum(used) - 1, -1)[self._codes]
        left = [value for value, rows in zip(self._classes, self._rows, strict=True) if rows]
        self._classes = {value: code for code, value in enumerate(left)}
        self._rows = [rows for rows in self._rows if rows]
        self._unused = 0
        self._publish()
