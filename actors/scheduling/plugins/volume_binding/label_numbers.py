"""LabelNumbers: a number for each value of one label, gathered for many nodes by label code."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from berth.plugin import Ints, NodeView

NONE = -1


class LabelNumbers:
    """A table of numbers from 0 on by label value. NONE means no number, or no such label."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._numbers: dict[str, int] = {}
        self._values: Mapping[str, int] = {}
        self._by_code: Ints = np.zeros(0, dtype=np.int64)

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def set(self, value: str, number: int) -> None:
        """Sets the number of a value; NONE removes it."""
        if number == NONE:
            self._numbers.pop(value, None)
        else:
            self._numbers[value] = number
        code = self._values.get(value)
        if code is not None and code < len(self._by_code) - 1:
            self._by_code[code] = number

    def of(self, nodes: NodeView) -> Ints:
        """Returns int64[nodes.size]: the number of each node's value."""
        column = nodes.columns.label(self._label)
        if column.values is not self._values or len(self._by_code) != len(column.values) + 1:
            self._values = column.values
            # The last element is for code -1, a node without the label.
            self._by_code = np.full(len(column.values) + 1, NONE, dtype=np.int64)
            for value, number in self._numbers.items():
                code = column.code(value)
                if code is not None:
                    self._by_code[code] = number
        return np.asarray(self._by_code[column.codes[nodes.rows]])
