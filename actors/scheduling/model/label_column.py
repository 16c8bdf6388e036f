"""LabelColumn: one label of all nodes as codes, so that a rule about it is one vector operation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np

from ..kube.node_selector import integer
from .class_column import ClassColumn
from .read_only_arrays import read_only
from .vectors import Bools, Ints

NO_NUMBERS: tuple[Ints, Bools] = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_))


class LabelColumn(ClassColumn[str]):
    """The values of one label key: codes[row] is the code of its value, or -1 for no such label.

    `version` increases with every change; `nodes` is the number of rows that have the label.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.version = 0
        self.nodes = 0
        self._numbers = NO_NUMBERS

    @property
    def values(self) -> Mapping[str, int]:
        """The codes of the values: of all that nodes have, and of some that they had."""
        return self.classes

    def code(self, value: str) -> int | None:
        """Returns the code of a value, or None if no node has the value."""
        return self.classes.get(value)

    def numbers(self) -> tuple[Ints, Bools]:
        """Returns, by code, the values as 64-bit integers, and which of the values are integers.

        Only values added since the last call are parsed.
        """
        parsed = len(self._numbers[0])
        if parsed < len(self.classes):
            integers = [integer(text) for text in islice(self.classes, parsed, None)]
            numbers = np.array([number or 0 for number in integers], dtype=np.int64)
            valid = np.array([number is not None for number in integers], dtype=np.bool_)
            self._numbers = (
                read_only(np.append(self._numbers[0], numbers)),
                read_only(np.append(self._numbers[1], valid)),
            )
        return self._numbers

    def grow(self, rows: int) -> None:
        self.version += 1
        super().grow(rows)

    def _changed(self, before: int, code: int) -> None:
        self.nodes += int(code >= 0) - int(before >= 0)
        self.version += 1

    def _drop_unused(self) -> None:
        super()._drop_unused()
        self._numbers = NO_NUMBERS
