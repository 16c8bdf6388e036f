"""Sums of amounts, and the forms in which they are shown."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.types.amounts import NOTHING, Sum


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        ((), "0"),
        (("0.5",), "500m"),
        (("1500m", "500m"), "2"),
        (("1Gi", "512Mi"), "1536Mi"),
        (("1G", "1Gi"), "2073741824"),
        (("512", "1Ki"), "1536"),
        (("1Ki", "512"), "1536"),
        (("1Ki", "1024"), "2Ki"),
        (("100",), "100"),
        (("1000",), "1k"),
        (("512Mi", "512Mi"), "1Gi"),
    ],
)
def test_a_sum_is_shown_in_the_form_of_its_first_amount(
    amounts: tuple[str, ...], text: str
) -> None:
    total = NOTHING
    for amount in amounts:
        total = total.plus(Sum.of(amount))
    assert total.text() == text


def test_what_is_given_back_is_gone() -> None:
    total = Sum.of("1Gi").plus(Sum.of("1Mi")).minus(Sum.of("1Gi"))
    assert total.text() == "1Mi"
    empty = total.minus(Sum.of("1Mi"))
    assert empty.text() == "0"
    assert empty.plus(Sum.of("2k")).text() == "2k", "an empty sum has no form yet"


def test_part_of_a_byte_is_a_byte() -> None:
    assert Sum.of("1500m").whole().text() == "2"
    assert Sum.of("3").whole().text() == "3"
