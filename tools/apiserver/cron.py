"""Schedules of cron, in the notation of Kubernetes: five fields, @daily and the like, or @every."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
MOST_SECONDS = (2**63 - 1) / 1e9  # of an interval: nanoseconds in 64 bits
YEARS = 5  # a schedule that has no time in so many years never has one


class Field(NamedTuple):
    """A field of a schedule: its name, its bounds, and the words for its numbers, from the lowest
    on.
    """

    name: str
    low: int
    high: int
    words: list[str]


_FIELDS = (
    Field("minute", 0, 59, []),
    Field("hour", 0, 23, []),
    Field("day of month", 1, 31, []),
    Field("month", 1, 12, _MONTHS),
    Field("day of week", 0, 6, _DAYS),
)


class Schedule(NamedTuple):
    """The times that match all sets or, if `interval` is not 0, the times at an interval in
    seconds.

    If both the day of the month and the day of the week are restricted, one of them suffices.
    """

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = False
    interval: float = 0.0

    def after(self, time: datetime, zone: ZoneInfo) -> datetime | None:
        """Returns the next time after this one; None if there is none.

        A time that a change of the clocks skips does not occur; a time that it repeats occurs
        twice.
        """
        if self.interval:
            return time.replace(microsecond=0) + timedelta(seconds=self.interval)
        local = (time.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE).astimezone(zone)
        end = local.year + YEARS
        while local.year <= end:
            if local.month not in self.months:
                first = local.replace(day=1, hour=0, minute=0, fold=0)
                local = _normal(first + timedelta(days=32), zone).replace(day=1)
            elif not self._has_day(local):
                midnight = local.replace(hour=0, minute=0, fold=0)
                local = _normal(midnight + timedelta(days=1), zone)
            elif local.hour not in self.hours:
                local = _later(local, 60 - local.minute)
            elif local.minute not in self.minutes:
                local = _later(local, 1)
            else:
                return local.astimezone(UTC)
        return None

    def _has_day(self, local: datetime) -> bool:
        in_month = local.day in self.days
        in_week = local.isoweekday() % 7 in self.weekdays
        return (in_month and in_week) if self.any_day else (in_month or in_week)


_MINUTE = timedelta(minutes=1)


def _later(local: datetime, minutes: int) -> datetime:
    zone = local.tzinfo
    return (local.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(zone)


def _normal(local: datetime, zone: ZoneInfo) -> datetime:
    """Returns a local time as one that the clocks show."""
    return local.astimezone(UTC).astimezone(zone)


@lru_cache(maxsize=1 << 10)
def parse(text: str) -> Schedule:
    """Returns the schedule. Raises ValueError."""
    if text.startswith("@every "):
        return Schedule(interval=_duration(text.removeprefix("@every ")))
    if text.startswith("@") and text not in _NICKNAMES:
        raise ValueError(f"unrecognized descriptor: {text}")
    parts = _NICKNAMES.get(text, text).split()
    if len(parts) != len(_FIELDS):
        listed = " ".join(parts)
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}: [{listed}]")
    minutes, hours, days, months, weekdays = (
        frozenset(_values(part, field)) for part, field in zip(parts, _FIELDS, strict=True)
    )
    some = {item.removesuffix("/1") for part in (parts[2], parts[4]) for item in part.split(",")}
    any_day = not some.isdisjoint("*?")
    return Schedule(minutes, hours, days, months, weekdays, any_day)


def _duration(text: str) -> float:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"failed to parse duration @every {text}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > MOST_SECONDS:
        raise ValueError(f"failed to parse duration @every {text}: it is longer than 292 years")
    return max(float(int(seconds)), 1.0)


def _values(text: str, field: Field) -> Iterator[int]:
    for part in text.split(","):
        span, slash, every = part.partition("/")
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            low, high = field.low, field.high
        else:
            low = _number(first, field)
            high = _number(last, field) if dash else field.high if slash else low
        step = _number(every, field) if slash else 1
        if low < field.low:
            raise ValueError(f"beginning of range ({low}) below minimum ({field.low}): {part}")
        if high > field.high:
            raise ValueError(f"end of range ({high}) above maximum ({field.high}): {part}")
        if low > high:
            raise ValueError(f"beginning of range ({low}) beyond end of range ({high}): {part}")
        if step < 1:
            raise ValueError(f"step of range should be a positive number: {part}")
        yield from range(low, high + 1, step)


def _number(text: str, field: Field) -> int:
    if text.lower() in field.words:
        return field.low + field.words.index(text.lower())
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"failed to parse int from {text}: the {field.name} is not a number")
    return int(text)
