"""The axes of plots."""

from __future__ import annotations

import pytest

from berth.tools.answers.terminal.axes import round_above


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 1), (1, 1), (1.1, 2), (4, 5), (99, 100), (100, 100), (0.03, 0.05)]
)
def test_axes_end_at_a_round_number(value: float, expected: float) -> None:
    assert round_above(value) == pytest.approx(expected)
