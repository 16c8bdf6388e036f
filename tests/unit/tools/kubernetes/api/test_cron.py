"""Schedules of cron: what is read, and which time comes next."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from berth.tools.kubernetes.api.cron import parse


@pytest.mark.parametrize(
    ("schedule", "time", "following"),
    [
        ("*/15 * * * *", "2026-07-09T14:45:00", "2026-07-09T15:00:00"),
        ("20-35/15 * * * *", "2026-07-09T14:45:00", "2026-07-09T15:20:00"),
        ("*/15 14 * * *", "2026-07-09T14:59:00", "2026-07-10T14:00:00"),
        ("0 0 */5 * *", "2026-07-09T00:00:00", "2026-07-11T00:00:00"),
        ("0 0 31 * *", "2026-03-31T00:00:00", "2026-05-31T00:00:00"),
        ("0 0 29 2 *", "2026-07-09T14:45:00", "2028-02-29T00:00:00"),
        ("0 0 30 2 *", "2026-07-09T14:45:00", ""),
        ("0 12 * jan mon-fri", "2026-12-31T13:00:00", "2027-01-01T12:00:00"),
        ("0 0 13 * FRI", "2026-07-09T00:00:00", "2026-07-10T00:00:00"),
        ("0 0 */2 * fri", "2026-07-09T00:00:00", "2026-07-10T00:00:00"),
        ("0 0 * * sun", "2026-07-09T00:00:00", "2026-07-12T00:00:00"),
        ("@hourly", "2026-07-09T14:45:30", "2026-07-09T15:00:00"),
        ("@weekly", "2026-07-09T14:45:30", "2026-07-12T00:00:00"),
        ("@yearly", "2026-07-09T14:45:30", "2027-01-01T00:00:00"),
        ("@every 1h30m", "2026-07-09T14:45:30", "2026-07-09T16:15:30"),
        ("@every 10ms", "2026-07-09T14:45:30", "2026-07-09T14:45:31"),
    ],
)
def test_the_next_time(schedule: str, time: str, following: str) -> None:
    after = parse(schedule).after(datetime.fromisoformat(f"{time}Z"), ZoneInfo("UTC"))
    assert (after.isoformat()[:19] if after else "") == following


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        # the clocks go from 2:00 to 3:00 on March 8, and from 2:00 back to 1:00 on November 1
        ("30 2 * 3 *", ["2026-03-07T07:30", "2026-03-09T06:30"]),
        ("0 3 * 3 *", ["2026-03-07T08:00", "2026-03-08T07:00", "2026-03-09T07:00"]),
        ("30 1 1 11 *", ["2026-11-01T05:30", "2026-11-01T06:30", "2027-11-01T05:30"]),
        ("0 0 1-2 11 *", ["2026-11-01T04:00", "2026-11-02T05:00"]),
    ],
)
def test_changes_of_the_clocks(schedule: str, times: list[str]) -> None:
    zone, (first, *rest) = ZoneInfo("America/New_York"), times
    time = datetime.fromisoformat(f"{first}:00Z")
    for expected in rest:
        following = parse(schedule).after(time, zone)
        assert following is not None
        assert following.tzinfo is UTC
        assert following.isoformat()[:16] == expected
        time = following


@pytest.mark.parametrize(
    ("zone", "schedule", "time", "following"),
    [
        # recorded from the cron of Kubernetes' controller, where the clocks skip midnight
        ("Africa/Casablanca", "0 1 * * 0", "2008-05-30T18:00", "2008-06-08T00:00"),
        ("Asia/Amman", "0 12 * * 5", "2008-03-25T18:00", "2008-04-04T09:00"),
        ("Asia/Beirut", "0 1 * * 0", "2008-03-29T18:00", "2008-04-05T22:00"),
        ("America/Asuncion", "30 2 * 3,10 *", "2017-06-06T01:25", "2017-10-31T05:30"),
        ("America/Havana", "0 3 20-31 3 *", "2012-03-31T18:00", "2012-04-01T07:00"),
        ("America/Havana", "30 2 * 3,10 *", "2012-04-01T12:00", "2012-10-02T06:30"),
        ("Australia/Lord_Howe", "0 12 * * *", "2008-10-04T06:00", "2008-10-06T01:00"),
    ],
)
def test_a_midnight_that_does_not_exist(
    zone: str, schedule: str, time: str, following: str
) -> None:
    after = parse(schedule).after(datetime.fromisoformat(f"{time}:00Z"), ZoneInfo(zone))
    assert after is not None
    assert after.isoformat()[:16] == following


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("* * * *", "expected exactly 5 fields, found 4"),
        ("60 * * * *", "end of range (60) above maximum (59)"),
        ("* * 0 * *", "beginning of range (0) below minimum (1)"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3)"),
        ("*/0 * * * *", "step of range"),
        ("x * * * *", "failed to parse int from x"),
        ("@never", "unrecognized descriptor: @never"),
        ("@every soon", "failed to parse duration"),
        ("@every 99999999h", "failed to parse duration"),
        ("@every " + "9" * 400 + "h", "failed to parse duration"),
    ],
)
def test_what_is_no_schedule(schedule: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse(schedule)
