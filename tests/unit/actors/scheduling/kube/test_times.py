"""Tests of times as the API server writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from berth.actors.scheduling.kube.times import rfc3339, seconds_of


def test_a_written_time_has_whole_seconds_and_is_read_again() -> None:
    time = datetime(2026, 3, 1, 4, 5, 6, 999_999, UTC)
    assert rfc3339(time) == "2026-03-01T04:05:06Z"
    assert seconds_of(rfc3339(time)) == time.replace(microsecond=0).timestamp()
