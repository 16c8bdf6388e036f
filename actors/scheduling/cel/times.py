"""Durations and timestamps, with nanoseconds and Go's limits."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import NamedTuple

from .errors import CelError

MAX_INT64, MIN_INT64 = (1 << 63) - 1, -(1 << 63)
GIGA = 10**9
LONGEST_ZONE = 64  # characters
# The first and the last second of the years 1 to 9999, in seconds since 1970.
MIN_TIME, MAX_TIME = -62135596800, 253402300799
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": GIGA}
_UNITS |= {"m": 60 * GIGA, "h": 3600 * GIGA}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]+))?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
_OFFSET = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")


class Duration(NamedTuple):
    nanos: int

    def __str__(self) -> str:
        text = format(Decimal(repr(self.nanos / GIGA)), "f")
        return (text.removesuffix(".0")) + "s"


class Timestamp(NamedTuple):
    """A point in time. `offset` is the time zone in which it was written, in seconds. Comparisons
    ignore it.
    """

    nanos: int
    offset: int = 0

    def __str__(self) -> str:
        zone = timezone(timedelta(seconds=self.offset))
        text = _with_offset(self.nanos, zone).replace(microsecond=0).isoformat()
        fraction = self.nanos % GIGA
        if fraction:
            shown = f"{fraction:09d}".rstrip("0")
            text = f"{text[:19]}.{shown}{text[19:]}"
        return text.removesuffix("+00:00") + "Z" if self.offset == 0 else text


def duration(nanos: int) -> Duration:
    """Returns a duration. Raises CelError if it is out of range."""
    if not MIN_INT64 <= nanos <= MAX_INT64:
        raise CelError("duration overflow")
    return Duration(nanos)


def timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Returns a timestamp. Raises CelError if it is out of range."""
    if not MIN_TIME <= nanos // GIGA <= MAX_TIME:
        raise CelError("timestamp overflow")
    return Timestamp(nanos, offset)


def parse_duration(text: str) -> Duration | None:
    """Parses a duration of Go such as `1h2.5s`; returns None if the text is not one."""
    unsigned = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if unsigned == "0":
        return Duration(0)
    at = total = 0
    while at < len(unsigned):
        match = _PART.match(unsigned, at)
        if match is None or not (match[1] or match[2]) or len(match[1]) > 20:
            return None
        unit, fraction = _UNITS[match[3]], (match[2] or "")[:20]
        total += int(match[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        at = match.end()
    if text.startswith("-"):
        total = -total
    return Duration(total) if at and -MAX_INT64 - 1 <= total <= MAX_INT64 else None


def parse_timestamp(text: str) -> Timestamp | None:
    """Parses a time of RFC 3339; returns None if the text is not one. Raises CelError."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    try:
        local = datetime.fromisoformat(f"{match[1]}T{match[2]}")
    except ValueError:
        return None
    offset = 0
    if match[4] != "Z":
        hours, minutes = int(match[4][1:3]), int(match[4][4:])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if match[4][0] == "-" else 1)
    since = local.replace(tzinfo=UTC) - _EPOCH
    seconds = since.days * 86400 + since.seconds - offset
    fraction = int((match[3] or "")[:9].ljust(9, "0"))
    return timestamp(seconds * GIGA + fraction, offset if abs(offset) < 86400 else 0)


def _with_offset(nanos: int, zone: tzinfo) -> datetime:
    whole = _EPOCH + timedelta(seconds=nanos // GIGA)
    try:
        return whole.astimezone(zone)
    except OverflowError:
        return whole


def in_zone(time: Timestamp, zone: str = "UTC") -> datetime:
    """Returns the time in a zone: a name, or an offset such as -07:00. Raises CelError."""
    match = _OFFSET.fullmatch(zone)
    if match:
        seconds = int(match[2]) * 3600 + int(match[3]) * 60
        if seconds >= 86400:
            raise CelError(f"unknown time zone {zone}")
        offset = timedelta(seconds=-seconds if match[1] == "-" else seconds)
        return _with_offset(time.nanos, timezone(offset))
    return _with_offset(time.nanos, _zone(zone))


def _zone(name: str) -> tzinfo:
    if name in ("", "UTC"):
        return UTC
    if len(name) > LONGEST_ZONE:
        raise CelError(f"unknown time zone {name[:LONGEST_ZONE]}...")
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None
