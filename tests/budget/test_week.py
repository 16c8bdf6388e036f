"""What came and went on a cluster makes no later decision slower, and leaves little behind."""

from __future__ import annotations

import pytest

from tests.kit.week import HOURS, play

FILLED = 12_000_000  # bytes that what is kept for later pods may take: it has limits


@pytest.mark.parametrize(
    ("first", "hours", "nodes"),
    [
        pytest.param(2, 6, 12, id="a morning"),
        pytest.param(24, HOURS, 50, id="a week", marks=pytest.mark.full),
    ],
)
def test_decisions_and_memory_are_at_the_end_as_at_the_beginning(
    first: int, hours: int, nodes: int
) -> None:
    before, after = play(first, hours, nodes)
    assert after.calls < 1.1 * before.calls
    assert after.used < before.used + FILLED
