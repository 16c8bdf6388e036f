"""The text of quantities, as Kubernetes prints them."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.kubelet.pressure.quantities import binary_text, canonical, printed_as


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
    ("text", "printed"),
    [
        ("1Gi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("0.5", "500m"),
        ("1000M", "1G"),
        ("1500M", "1500M"),
        ("2", "2"),
        (3000, "3k"),
        ("0", "0"),
    ],
)
def test_a_quantity_keeps_its_kind_of_unit(text: str | int, printed: str) -> None:
    assert canonical(text) == printed


def test_a_sum_is_printed_like_its_first_part() -> None:
    assert printed_as("1Gi", 3 * (1 << 30) * 10**9) == "3Gi"
    assert printed_as("1G", 3 * 10**18) == "3G"
