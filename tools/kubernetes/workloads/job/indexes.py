"""Completion indexes as sorted ranges, so that the work grows with the ranges, not the indexes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter

_start = attrgetter("start")


def parse(text: str | None, completions: int) -> list[range]:
    """Returns the indexes below `completions` of a text such as `0-2,5`; bad parts are left out."""
    ranges = []
    for part in (text or "").split(","):
        first, dash, last = part.partition("-")
        if first.isdecimal() and (last.isdecimal() if dash else True):
            ranges.append(range(int(first), min(int(last or first) + 1, completions)))
    return union(ranges)


def text_of(ranges: Iterable[range]) -> str:
    """Returns the ranges in the notation of completedIndexes, such as `0-2,4,5`."""
    parts = []
    for each in ranges:
        parts.append(str(each[0]))
        if len(each) > 1:
            parts[-1] += f"{',' if len(each) == 2 else '-'}{each[-1]}"
    return ",".join(parts)


def single(indexes: Iterable[int]) -> list[range]:
    return [range(index, index + 1) for index in indexes]


def union(*groups: Iterable[range]) -> list[range]:
    """Returns the indexes of all groups, in order and without gaps between neighbors."""
    ranges: list[range] = []
    for each in sorted((each for group in groups for each in group if each), key=_start):
        if ranges and each.start <= ranges[-1].stop:
            ranges[-1] = range(ranges[-1].start, max(ranges[-1].stop, each.stop))
        else:
            ranges.append(each)
    return ranges


def total(ranges: Iterable[range]) -> int:
    return sum(map(len, ranges))


def has(ranges: list[range], index: int) -> bool:
    place = bisect_right(ranges, index, key=_start)
    return place > 0 and index in ranges[place - 1]


def overlap(some: Iterable[range], others: list[range]) -> int:
    """Returns the number of indexes that are in both; the ranges of `some` do not overlap."""
    return sum(len(range(max(a.start, b.start), min(a.stop, b.stop))) for a in some for b in others)


def first_free(used: list[range], completions: int, count: int) -> list[int]:
    """Returns the lowest `count` indexes below `completions` that are not taken."""
    free: list[int] = []
    start = 0
    for each in [*used, range(completions, completions + 1)]:
        free += range(start, min(each.start, completions, start + count - len(free)))
        start = max(start, each.stop)
        if len(free) >= count:
            break
    return free
