"""Quantities against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.quantity import (
    MAX_INT64,
    QuantityError,
    binary_text,
    decimal_text,
    exponent_text,
    milli_value,
    value,
)

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


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (1000, "1k"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1500, "1500"),
        (104857600, "100Mi"),
        (1610612736, "1536Mi"),
        (1 << 40, "1Ti"),
        (10737418400, "10737418400"),
        (-2048, "-2Ki"),
    ],
)
def test_bytes_have_the_largest_binary_unit_without_a_fraction(amount: int, text: str) -> None:
    assert binary_text(amount) == text


@pytest.mark.parametrize(
    ("nano", "decimal", "exponent"),
    [
        (0, "0", "0"),
        (1, "1n", "1e-9"),
        (250 * 10**6, "250m", "250e-3"),
        (5 * 10**9, "5", "5"),
        (1500 * 10**9, "1500", "1500"),
        (15000 * 10**9, "15k", "15e3"),
        (-2000 * 10**9, "-2k", "-2e3"),
        (10**30, "1000E", "1e21"),
    ],
)
def test_other_amounts_have_the_largest_unit_or_exponent_without_a_fraction(
    nano: int, decimal: str, exponent: str
) -> None:
    assert (decimal_text(nano), exponent_text(nano)) == (decimal, exponent)
