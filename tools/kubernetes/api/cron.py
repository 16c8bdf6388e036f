"""Schedules of cron, in the notation of Kubernetes: five fields, @daily and the like, or @every."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from berth.actors.scheduling.cel.times import GIGA, parse_duration

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
        return _Search(self, time, zone).run()

    def has_day(self, local: datetime) -> bool:
        in_month = local.day in self.days
        in_week = local.isoweekday() % 7 in self.weekdays
        return (in_month and in_week) if self.any_day else (in_month or in_week)


class _Search:
    """A search for the next time of a schedule, which advances field by field, from the month down
    to the minute.

    It goes the way of Go's cron v3 exactly, which decides about days whose midnight the clocks
    skip: in a zone west of Greenwich the day begins at 1:00, in one east of it the day is left out.
    """

    def __init__(self, schedule: Schedule, time: datetime, zone: ZoneInfo) -> None:
        minute = int(time.timestamp()) // 60 * 60 + 60
        self._schedule = schedule
        self._zone = zone
        self._local = datetime.fromtimestamp(minute, zone)
        self._moved = False  # True once the lower fields are at their beginning

    def run(self) -> datetime | None:
        steps = (self._to_month, self._to_day, self._to_hour, self._to_minute)
        end = self._local.year + YEARS
        while self._local.year <= end:
            if all(step() for step in steps):
                return self._local.astimezone(UTC)
        return None

    # Each step goes to the next value that matches. It returns False if a higher field has changed.

    def _to_month(self) -> bool:
        while self._local.month not in self._schedule.months:
            local = self._with_lower_fields_reset(self._local.year, self._local.month, 1)
            self._local = _local_time(local, self._zone, months=1)
            if self._local.month == 1:
                return False
        return True

    def _to_day(self) -> bool:
        while not self._schedule.has_day(self._local):
            local = self._with_lower_fields_reset(
                self._local.year, self._local.month, self._local.day
            )
            local = _local_time(local, self._zone, days=1)
            if local.hour:  # the clocks skip midnight
                hours = 24 - local.hour if local.hour > 12 else -local.hour
                local = _time_later(local, hours * 60)
            self._local = local
            if local.day == 1:
                return False
        return True

    def _to_hour(self) -> bool:
        while self._local.hour not in self._schedule.hours:
            now = self._local
            self._local = _time_later(
                self._with_lower_fields_reset(now.year, now.month, now.day, now.hour), 60
            )
            if not self._local.hour:
                return False
        return True

    def _to_minute(self) -> bool:
        while self._local.minute not in self._schedule.minutes:
            self._moved = True
            self._local = _time_later(self._local, 1)
            if not self._local.minute:
                return False
        return True

    def _with_lower_fields_reset(self, year: int, month: int, day: int, hour: int = 0) -> datetime:
        """Returns the time. The first field that moves sets all lower fields to their beginning."""
        if self._moved:
            return self._local
        self._moved = True
        return _local_time(datetime(year, month, day, hour, tzinfo=UTC), self._zone)


def _local_time(local: datetime, zone: ZoneInfo, *, months: int = 0, days: int = 0) -> datetime:
    """Returns the local time of a zone some months or days later.

    Of a time that they skip, it is the time before or after the gap that Go chooses.
    """
    years, month = divmod(local.month - 1 + months, 12)
    first = datetime(local.year + years, month + 1, 1, local.hour, local.minute, tzinfo=UTC)
    moved = first + timedelta(days=local.day - 1 + days)
    guess = moved.astimezone(zone).utcoffset() or timedelta()
    offset = (moved - guess).astimezone(zone).utcoffset() or timedelta()
    return (moved - offset).astimezone(zone)


def _time_later(local: datetime, minutes: int) -> datetime:
    zone = local.tzinfo
    return (local.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(zone)


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
    interval = parse_duration(text)
    if interval is None:
        raise ValueError(f"failed to parse duration @every {text}")
    return max(float(interval.nanos // GIGA), 1.0)


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
