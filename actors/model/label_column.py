"""LabelColumn: one label of all nodes, as codes, so that a rule about it is one operation over all of them."""

from __future__ import annotations

import numpy as np

from actors.model.vectors import Ints


class LabelColumn:
    """The values of one label key: codes[row] is a position in `values`, -1 where the node has no such label.

    `version` moves with every change; `nodes` is on how many rows the label is.
    """

    def __init__(self, rows: int) -> None:
        self.version = 0
        self.nodes = 0
        self.codes: Ints = np.full(rows, -1, dtype=np.int64)
        self.values: list[str] = []
        self._code_of: dict[str, int] = {}

    def code(self, value: str) -> int | None:
        """The code of a value, or None if no node ever had it."""
        return self._code_of.get(value)

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
