"""The text of quantities, as Kubernetes prints them."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.kubelet.pressure.quantities import canonical, printed_as


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
