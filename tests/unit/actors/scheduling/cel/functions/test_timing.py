"""Durations and timestamps."""

from __future__ import annotations

import pytest

from tests.unit.actors.scheduling.cel.expressions import outcome


@pytest.mark.parametrize(
    "expression",
    [
        "[duration('1m'), duration('1s')].sum() == duration('61s')",
        "duration('1h30m').getMinutes() == 90",
        "duration('1h') > duration('59m')",
        "duration('1.5s').getMilliseconds() == 1500",
        "string(duration('1.5s')) == '1.5s'",
        "string(duration('1h')) == '3600s'",
        "timestamp('2023-01-01T00:00:00Z') + duration('24h') == timestamp('2023-01-02T00:00:00Z')",
        "timestamp('2023-01-01T00:00:00Z').getFullYear() == 2023",
        "timestamp('2023-01-01T00:00:00Z').getDayOfWeek() == 0",
        "timestamp('2023-01-01T00:00:00Z').getDate() == 1",
        "timestamp('2023-01-01T00:00:00Z').getDayOfMonth() == 0",
        "timestamp('2023-01-01T00:00:00Z').getMonth() == 0",
        "timestamp('2023-12-25T00:00:00Z').getDayOfYear() == 358",
        "timestamp('2023-01-01T00:00:00Z').getHours('-08:00') == 16",
        "timestamp('2023-01-01T00:00:00Z').getHours('02:00') == 2",
        "timestamp('2023-01-02T00:00:00Z') - timestamp('2023-01-01T00:00:00Z') == duration('24h')",
        "int(timestamp('1970-01-01T00:00:10Z')) == 10",
        "string(timestamp('2023-01-01T00:00:00Z')) == '2023-01-01T00:00:00Z'",
        "string(timestamp('2023-01-01T00:00:00.5+02:00')) == '2023-01-01T00:00:00.5+02:00'",
        "timestamp(0) == timestamp('1970-01-01T00:00:00Z')",
        "duration('0') == duration('0s')",
    ],
)
def test_is_true(expression: str) -> None:
    assert outcome(expression) is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1s') == timestamp(0)",
            "timestamp overflow",
        ),
        ("duration('2000000h') + duration('2000000h') == duration('1s')", "duration overflow"),
        ("timestamp(0).getHours('Nowhere') == 0", "unknown time zone Nowhere"),
    ],
)
def test_fails(expression: str, message: str) -> None:
    assert message in str(outcome(expression))
