"""Completion indexes as ranges."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.workloads.job.indexes import (
    first_free,
    has,
    overlap,
    parse,
    single,
    text_of,
    total,
    union,
)


@pytest.mark.parametrize(
    ("text", "completions", "normal"),
    [
        ("", 9, ""),
        ("0", 9, "0"),
        ("0,1", 9, "0,1"),
        ("0-2", 9, "0-2"),
        ("0,1,2,5", 9, "0-2,5"),
        ("1-4,7-12", 9, "1-4,7,8"),
        ("3,x,5-y,7", 9, "3,7"),
        ("8-12,20", 5, ""),
    ],
)
def test_ranges_are_read_and_written(text: str, completions: int, normal: str) -> None:
    assert text_of(parse(text, completions)) == normal


def test_unions_keep_order_and_join_neighbors() -> None:
    ranges = union(parse("2-4,8", 10), single([0, 5, 9, 9, 3]))
    assert text_of(ranges) == "0,2-5,8,9"
    assert total(ranges) == 7
    assert [index for index in range(12) if has(ranges, index)] == [0, 2, 3, 4, 5, 8, 9]
    assert overlap(ranges, parse("1-3,9", 10)) == 3


@pytest.mark.parametrize(
    ("taken", "count", "free"),
    [("", 2, [0, 1]), ("0,2-4", 3, [1, 5, 6]), ("0-8", 3, [9]), ("0-9", 1, []), ("5", 0, [])],
)
def test_the_lowest_free_indexes_come_first(taken: str, count: int, free: list[int]) -> None:
    assert first_free(parse(taken, 10), 10, count) == free
