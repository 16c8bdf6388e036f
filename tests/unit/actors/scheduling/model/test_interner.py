"""An interner keeps the first of equal values, within limits."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.model.interner import LONGEST, MAX_BYTES, MAX_VALUES, Interner


def test_the_first_of_equal_values_is_kept() -> None:
    interner: Interner[str, list[int]] = Interner()
    first = interner.first("a", [1])
    assert interner.first("a", [1]) is first
    assert interner.get("a") is first
    assert interner.get("b") is None


def test_beyond_the_number_of_values_the_older_half_is_forgotten() -> None:
    interner: Interner[str, int] = Interner()
    for number in range(MAX_VALUES + 1):
        interner.first(str(number), number)
    assert interner.get("0") is None
    assert interner.get(str(MAX_VALUES // 2 - 1)) is None
    assert interner.get(str(MAX_VALUES // 2 + 1)) is not None
    assert interner.get(str(MAX_VALUES)) is not None


@pytest.mark.parametrize("sort", [str, bytes])
def test_long_keys_are_forgotten_sooner(sort: type[str] | type[bytes]) -> None:
    texts: Interner[str, int] = Interner()
    binary: Interner[bytes, int] = Interner()
    for number in range(2 * MAX_BYTES // LONGEST):
        key = f"{number:04}".ljust(LONGEST)
        if sort is str:
            texts.first(key, number)
        else:
            binary.first(key.encode(), number)
    first = "0000".ljust(LONGEST)
    assert (texts.get(first) if sort is str else binary.get(first.encode())) is None
    last = key
    assert (texts.get(last) if sort is str else binary.get(last.encode())) is not None


def test_values_of_very_long_keys_are_not_kept() -> None:
    interner: Interner[str, int] = Interner()
    key = "x" * (LONGEST + 1)
    assert interner.put(key, 1) == 1
    assert interner.get(key) is None
