"""Amounts of resources by row, in as little memory as possible.

A resource that few rows have (such as a device of a single node) is stored as a dict of these rows.
Once more than one row in COLUMN_SHARE has it, it is stored as a column over all rows, and stays so.
Readers get a column in both cases.

Any sum may be stored; reading returns amounts from 0 to the largest int64, so that the difference
of two amounts is an int64 as well. Their sum may exceed int64, and so may an amount times 100.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..kube.quantity import MAX_INT64, clamp_amount
from .read_only_arrays import read_only
from .vectors import Ints, grown

CPU, MEMORY, EPHEMERAL_STORAGE = "cpu", "memory", "ephemeral-storage"
PODS = "pods"
MIN_COLUMN_ROWS = 16
COLUMN_SHARE = 64
SAFE_AMOUNT = MAX_INT64 // 100  # the largest amount that can be multiplied by 100 within int64


def needs_column(rows: int, size: int) -> bool:
    """True if something that `rows` of `size` rows have should be stored as a column."""
    return rows > max(MIN_COLUMN_ROWS, size // COLUMN_SHARE)


class Amounts:
    """Amounts of cpu in thousandths of a core, of all else in whole units; 0 by default.

    `huge` is true once an amount above SAFE_AMOUNT was stored.
    """

    __slots__ = ("_columns", "_few", "_lent", "_nothing", "_rows", "huge")

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.huge = False
        always = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
        self._columns: dict[str, Ints] = {name: np.zeros(rows, dtype=np.int64) for name in always}
        self._lent = {name: read_only(column) for name, column in self._columns.items()}
        self._few: dict[str, dict[int, int]] = {}
        self._nothing: Ints = read_only(np.zeros(rows, dtype=np.int64))

    def __call__(self, resource: str) -> Ints:
        """Returns a read-only column, int64[rows]; it is a copy if few rows have the resource."""
        if resource in self._lent:
            return self._lent[resource]
        return read_only(self._spread(resource)) if resource in self._few else self._nothing

    def __contains__(self, resource: object) -> bool:
        """True if a row may have the resource; False if none has it."""
        return resource in self._columns or resource in self._few

    def put(self, row: int, amounts: Mapping[str, int], names: Iterable[str] | None = None) -> None:
        """Sets the amounts of these resources on a row: of `names`, by default of all."""
        columns = self._columns
        for name in amounts if names is None else names:
            amount = amounts[name]
            kept = amount if 0 <= amount <= SAFE_AMOUNT else self._bounded(amount)
            if name in columns:
                columns[name][row] = kept
            elif kept:
                self._put_few(name, row, kept)
            else:
                self._drop_few(name, row)

    def _bounded(self, amount: int) -> int:
        self.huge = self.huge or amount > SAFE_AMOUNT
        return clamp_amount(amount)

    def clear(self, row: int, resources: Iterable[str]) -> None:
        """Sets the amounts of these resources on a row to 0."""
        self.put(row, dict.fromkeys(resources, 0))

    def grow(self, rows: int) -> None:
        self._rows = rows
        self._nothing = read_only(grown(self._nothing, rows))
        for name, column in self._columns.items():
            self._put_column(name, grown(column, rows))

    def _put_column(self, resource: str, column: Ints) -> None:
        self._columns[resource] = column
        self._lent[resource] = read_only(column)

    def _spread(self, resource: str) -> Ints:
        """Returns a new column of a resource that few rows have."""
        column = self._nothing.copy()
        for row, amount in self._few[resource].items():
            column[row] = amount
        return column

    def _put_few(self, resource: str, row: int, amount: int) -> None:
        few = self._few.setdefault(resource, {})
        few[row] = amount
        if needs_column(len(few), self._rows):
            self._put_column(resource, self._spread(resource))
            del self._few[resource]

    def _drop_few(self, resource: str, row: int) -> None:
        few = self._few.get(resource)
        if few is not None:
            few.pop(row, None)
            if not few:
                del self._few[resource]
