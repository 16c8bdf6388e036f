"""Durations as kubectl prints them: in one unit, or two where the smaller one matters."""

from __future__ import annotations

from datetime import datetime, timedelta

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


def human(duration: timedelta) -> str:
    """Returns a duration in a form such as 59s, 5m30s, 3h12m, 2d5h, 45d or 2y10d.

    A negative duration of less than two seconds, from clocks that differ, is 0s; a longer one is
    <invalid>.
    """
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * MINUTE:
        return _pair(seconds, MINUTE, "m", 1, "s")
    if seconds < 3 * HOUR:
        return f"{seconds // MINUTE}m"
    if seconds < 8 * HOUR:
        return _pair(seconds, HOUR, "h", MINUTE, "m")
    if seconds < 2 * DAY:
        return f"{seconds // HOUR}h"
    if seconds < 8 * DAY:
        return _pair(seconds, DAY, "d", HOUR, "h")
    if seconds < 2 * YEAR:
        return f"{seconds // DAY}d"
    if seconds < 8 * YEAR:
        return _pair(seconds, YEAR, "y", DAY, "d")
    return f"{seconds // YEAR}y"


def _pair(seconds: int, coarse: int, coarse_name: str, fine: int, fine_name: str) -> str:
    remainder = seconds % coarse // fine
    return f"{seconds // coarse}{coarse_name}" + (f"{remainder}{fine_name}" if remainder else "")


def moment(timestamp: str) -> datetime | None:
    """Parses an RFC 3339 timestamp, with or without fractions; None if it is not one."""
    try:
        read = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return read if read.tzinfo else None


def age(timestamp: str, now: datetime) -> str:
    then = moment(timestamp)
    return "<unknown>" if then is None else human(now - then)
