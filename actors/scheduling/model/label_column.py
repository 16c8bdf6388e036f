"""LabelColumn: one label of all nodes, as codes, so that a rule about it is one operation over all
of them.
"""

from __future__ import annotations

import numpy as np
from berth.actors.scheduling.kube.node_selector import integer
from berth.actors.scheduling.model.vectors import Bools, Ints


class LabelColumn:
    """The values of one label key: codes[row] is a position in `values`, -1 where the node has no
    such label.

    `version` moves with every change; `nodes` is on how many rows the label is.
    """

    def __init__(self, rows: int) -> None:
        self.version = 0
        self.nodes = 0
        self.codes: Ints = np.full(rows, -1, dtype=np.int64)
        self.values: list[str] = []
        self._code_of: dict[str, int] = {}
        self._numbers: tuple[Ints, Bools] = (
            np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=np.bool_),
        )

    def code(self, value: str) -> int | None:
        """The code of a value, or None if no node ever had it."""
        return self._code_of.get(value)

    def numbers(self) -> tuple[Ints, Bools]:
        """By code the value as a 64-bit integer, and whether it is one; read anew only where values
        have come.
        """
        known = len(self._numbers[0])
        if known < len(self.values):
            found = [integer(text) for text in self.values[known:]]
            numbers = np.array([number or 0 for number in found], dtype=np.int64)
            valid = np.array([number is not None for number in found], dtype=np.bool_)
            self._numbers = (
                np.append(self._numbers[0], numbers),
                np.append(self._numbers[1], valid),
            )
        return self._numbers

    def set(self, row: int, value: str | None) -> None:
        code = -1
        if value is not None:
            code = self._code_of.setdefault(value, len(self.values))
            if code == len(self.values):
                self.values.append(value)
        before = self.codes[row]
        if before != code:
            self.nodes += int(code >= 0) - int(before >= 0)
            self.codes[row] = code
            self.version += 1

    def grow(self, rows: int) -> None:
        old = self.codes
        self.version += 1
        self.codes = np.full(rows, -1, dtype=np.int64)
        self.codes[: len(old)] = old
