"""Amounts are read as they were put in every form of a resource; the forms change with the data."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.quantity import MAX_INT64
from berth.actors.scheduling.model.amounts import SAFE_AMOUNT, Amounts

ROWS = 128
RESOURCES = ("cpu", "example.com/fpga", "example.com/gpu")
AMOUNTS = st.integers(0, 3) | st.sampled_from(
    [-1, SAFE_AMOUNT, SAFE_AMOUNT + 1, MAX_INT64, MAX_INT64 + 1, 1 << 70]
)
PUTS = st.tuples(st.integers(0, ROWS - 1), st.dictionaries(st.sampled_from(RESOURCES), AMOUNTS))


@given(st.lists(PUTS, max_size=60), st.booleans())
def test_amounts_are_read_as_they_were_put(
    puts: list[tuple[int, dict[str, int]]], grows: bool
) -> None:
    amounts = Amounts(ROWS)
    expected = {name: np.zeros(2 * ROWS if grows else ROWS, dtype=np.int64) for name in RESOURCES}
    for at, (row, put) in enumerate(puts):
        if grows and at == len(puts) // 2:
            amounts.grow(2 * ROWS)
        amounts.put(row, put)
        for name, amount in put.items():
            expected[name][row] = max(0, min(amount, MAX_INT64))
    if grows and not puts:
        amounts.grow(2 * ROWS)
    for name in RESOURCES:
        assert np.array_equal(amounts(name), expected[name])
    assert amounts.huge == any(amount > SAFE_AMOUNT for _, put in puts for amount in put.values())


def test_the_amounts_of_many_rows_stay_when_the_form_changes() -> None:
    amounts = Amounts(ROWS)
    for row in range(ROWS):
        amounts.put(row, {"example.com/gpu": row})
        assert amounts("example.com/gpu").tolist() == [*range(row + 1)] + [0] * (ROWS - 1 - row)
    for row in range(ROWS):
        amounts.clear(row, ("example.com/gpu", "example.com/fpga"))
    assert not amounts("example.com/gpu").any()
    assert not amounts("example.com/fpga").any()
