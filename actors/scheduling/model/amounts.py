"""Amounts: how much of each resource the rows have, and no more memory than nodes and pods account
for.

A resource that few rows have (a device that is one node's own) is kept as these rows; from one row
in ONE_ROW_IN on as a column over all of them, and then for good. Whoever reads gets a column either
way.

What is put may be any sum; what is read is from 0 to the largest int64, so that the difference of
two amounts is an int64 as well. Their sum need not be, nor a hundred times one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from berth.actors.scheduling.kube.quantity import MAX, room
from berth.actors.scheduling.model.vectors import Ints, grown

CPU, MEMORY, EPHEMERAL_STORAGE = "cpu", "memory", "ephemeral-storage"
PODS = "pods"
FEW_ROWS = 16
ONE_ROW_IN = 64
PLAIN = MAX // 100  # a hundred times as much is an int64


def is_many(rows: int, of: int) -> bool:
    """Whether something that is on so many rows is worth a column over all of them."""
    return rows > max(FEW_ROWS, of // ONE_ROW_IN)


class Amounts:
    """In thousandths of a core for cpu and whole units for all else; 0 where nothing was put.

    `huge` once an amount was put that is more than PLAIN.
    """

    __slots__ = ("_columns", "_few", "_nothing", "_rows", "huge")

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.huge = False
        always = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
        self._columns: dict[str, Ints] = {name: np.zeros(rows, dtype=np.int64) for name in always}
        self._few: dict[str, dict[int, int]] = {}
        self._nothing: Ints = np.zeros(rows, dtype=np.int64)

    def __call__(self, resource: str) -> Ints:
        """A column, int64[rows], to read only; of a resource that few rows have it is a copy."""
        if resource in self._columns:
            return self._columns[resource]
        if resource not in self._few:
            return self._nothing
        column = self._nothing.copy()
        for row, amount in self._few[resource].items():
            column[row] = amount
        return column

    def __contains__(self, resource: object) -> bool:
        """False if no row has any of the resource."""
        return resource in self._columns or resource in self._few

    def put(self, row: int, amounts: Mapping[str, int]) -> None:
        """Write what a row has of these resources."""
        columns = self._columns
        for name, amount in amounts.items():
            kept = amount if 0 <= amount <= PLAIN else self._bounded(amount)
            if name in columns:
                columns[name][row] = kept
            elif kept:
                self._put_few(name, row, kept)
            else:
                self._drop_few(name, row)

    def _bounded(self, amount: int) -> int:
        self.huge = self.huge or amount > PLAIN
        return room(amount)

    def clear(self, row: int, resources: Iterable[str]) -> None:
        """The row has nothing of these resources any more."""
        self.put(row, dict.fromkeys(resources, 0))

    def grow(self, rows: int) -> None:
        self._rows = rows
        self._nothing = grown(self._nothing, rows)
        for name, column in self._columns.items():
            self._columns[name] = grown(column, rows)

    def _put_few(self, resource: str, row: int, amount: int) -> None:
        few = self._few.setdefault(resource, {})
        few[row] = amount
        if is_many(len(few), self._rows):
            self._columns[resource] = self(resource)
            del self._few[resource]

    def _drop_few(self, resource: str, row: int) -> None:
        few = self._few.get(resource)
        if few is not None:
            few.pop(row, None)
            if not few:
                del self._few[resource]
