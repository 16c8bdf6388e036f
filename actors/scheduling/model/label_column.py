"""LabelColumn: one label of all nodes as codes, so that a rule about it is one vector operation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType

import numpy as np

from ..kube.node_selector import integer
from .lent import lent
from .vectors import Bools, Ints, grown


class LabelColumn:
    """The values of one label key: codes[row] is the code of its value, or -1 for no such label.

    `values` has the codes of all values that a node ever had, in their order. `version` increases
    with every change; `nodes` is the number of rows that have the label.
    """

    def __init__(self, rows: int) -> None:
        self.version = 0
        self.nodes = 0
        self._codes: Ints = np.full(rows, -1, dtype=np.int64)
        self._values: dict[str, int] = {}
        self.codes: Ints = lent(self._codes)
        self.values: Mapping[str, int] = MappingProxyType(self._values)
        self._numbers: tuple[Ints, Bools] = (
            np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=np.bool_),
        )

    def code(self, value: str) -> int | None:
        """Returns the code of a value, or None if no node ever had the value."""
        return self.values.get(value)

    def numbers(self) -> tuple[Ints, Bools]:
        """Returns, by code, the values as 64-bit integers, and which of the values are integers.

        Only values added since the last call are parsed.
        """
        parsed = len(self._numbers[0])
        if parsed < len(self.values):
            integers = [integer(text) for text in islice(self.values, parsed, None)]
            numbers = np.array([number or 0 for number in integers], dtype=np.int64)
            valid = np.array([number is not None for number in integers], dtype=np.bool_)
            self._numbers = (
                lent(np.append(self._numbers[0], numbers)),
                lent(np.append(self._numbers[1], valid)),
            )
        return self._numbers

    def set(self, row: int, value: str | None) -> None:
        code = -1 if value is None else self._values.setdefault(value, len(self._values))
        before = self._codes[row]
        if before != code:
            self.nodes += int(code >= 0) - int(before >= 0)
            self._codes[row] = code
            self.version += 1

    def grow(self, rows: int) -> None:
        self.version += 1
        self._codes = grown(self._codes, rows, -1)
        self.codes = lent(self._codes)
