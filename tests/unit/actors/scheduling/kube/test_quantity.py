"""Quantities against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.quantity import MAX_INT64, QuantityError, milli_value, value

SCALES = {
    **{
        s: Fraction(10) ** p
        for s, p in {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12}.items()
    },
    **{s: Fraction(2) ** p for s, p in {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}.items()},
    **{s: Fraction(10) ** p for s, p in {"e3": 3, "E-2": -2, "e+1": 1}.items()},
}


@given(
    st.sampled_from(["", "-", "+"]),
    st.decimals(0, 10**6, places=3),
    st.sampled_from(sorted(SCALES)),
)
def test_rounds_away_from_zero(sign: str, number: object, suffix: str) -> None:
    exact = Fraction(str(number)) * SCALES[suffix] * (-1 if sign == "-" else 1)

    def rounded(amount: Fraction) -> int:
        whole = math.ceil(abs(amount))
        return max(-MAX_INT64, min(MAX_INT64, whole if amount >= 0 else -whole))

    assert value(f"{sign}{number}{suffix}") == rounded(exact)
    assert milli_value(f"{sign}{number}{suffix}") == rounded(exact * 1000)


@pytest.mark.parametrize(
    ("text", "units", "thousandths"),
    [
        ("100m", 1, 100),
        ("1.5", 2, 1500),
        ("2Gi", 2 << 30, (2 << 30) * 1000),
        (".5", 1, 500),
        ("5.", 5, 5000),
        (3, 3, 3000),
        (0.25, 1, 250),
        ("1n", 1, 1),
        ("100E", MAX_INT64, MAX_INT64),
    ],
)
def test_forms(text: str | int | float, units: int, thousandths: int) -> None:
    assert value(text) == units
    assert milli_value(text) == thousandths


@pytest.mark.parametrize("text", ["", "m", "1x", "1 Gi", "--1", "1.2.3", "0x10", "1ki", "."])
def test_an_invalid_quantity_is_named(text: str) -> None:
    with pytest.raises(QuantityError, match="expected a quantity"):
        value(text)
