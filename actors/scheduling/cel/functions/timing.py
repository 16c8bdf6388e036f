"""The functions that return the parts of timestamps and durations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ..declarations import Budget, budgeted, overload
from ..times import GIGA, Duration, Timestamp, in_zone

ZONE_WORK = 500  # the work of finding a time zone by its name


def _part_of_time(read: Callable[[datetime], int]) -> Callable[..., int]:
    def part(budget: Budget, time: Timestamp, zone: str = "UTC") -> int:
        return read(_local(budget, time, zone))

    return part


def _local(budget: Budget, time: Timestamp, zone: str) -> datetime:
    if zone != "UTC":
        budget.strain(ZONE_WORK)
    return in_zone(time, zone)


def _millis_of_time(budget: Budget, time: Timestamp, zone: str = "UTC") -> int:
    _local(budget, time, zone)
    return time.nanos % GIGA // 10**6


def _whole_units(unit: int) -> Callable[[Duration], int]:
    def whole(span: Duration) -> int:
        count = abs(span.nanos) // unit
        return -count if span.nanos < 0 else count

    return whole


_PARTS: dict[str, Callable[..., int]] = {
    "getFullYear": _part_of_time(lambda t: t.year),
    "getMonth": _part_of_time(lambda t: t.month - 1),
    "getDayOfYear": _part_of_time(lambda t: t.timetuple().tm_yday - 1),
    "getDayOfMonth": _part_of_time(lambda t: t.day - 1),
    "getDate": _part_of_time(lambda t: t.day),
    "getDayOfWeek": _part_of_time(lambda t: t.isoweekday() % 7),
    "getHours": _part_of_time(lambda t: t.hour),
    "getMinutes": _part_of_time(lambda t: t.minute),
    "getSeconds": _part_of_time(lambda t: t.second),
    "getMilliseconds": _millis_of_time,
}
_SPANS = {
    "getHours": _whole_units(3600 * GIGA),
    "getMinutes": _whole_units(60 * GIGA),
    "getSeconds": _whole_units(GIGA),
    "getMilliseconds": _whole_units(10**6),
}


OVERLOADS = [
    *(
        budgeted(f"timestamp_{name}{suffix}", f"timestamp::{name}({zone}) -> int", run)
        for name, run in _PARTS.items()
        for suffix, zone in (("", ""), ("_tz", "string"))
    ),
    *(
        overload(f"duration_{name}", f"duration::{name}() -> int", run)
        for name, run in _SPANS.items()
    ),
]
