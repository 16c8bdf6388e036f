from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from berth.tools.views.top.columns import (
    ScreenColumn,
    bar,
    fitted_text,
    one_line,
    sparkline,
    widths,
    wrapped_lines,
)

COLUMNS = (
    ScreenColumn("A", 4, weight=1),
    ScreenColumn("B", 3),
    ScreenColumn("C", 5, weight=2, since=40),
)
TEXTS = st.text(st.characters() | st.sampled_from(" \n\t\x1b[]漢é"), max_size=60)


def test_columns_share_what_is_left_and_leave_out_what_does_not_fit() -> None:
    assert widths(COLUMNS, 39) == [4 + 31, 3, 0]
    assert widths(COLUMNS, 44) == [4 + 10, 3, 5 + 20]
    assert widths(COLUMNS, 3) == [4, 3, 0]


@given(TEXTS, st.integers(2, 40), st.booleans(), st.booleans())
def test_a_cell_is_as_wide_as_its_column(text: str, width: int, right: bool, middle: bool) -> None:
    cell = fitted_text(text, ScreenColumn("", width, right=right, middle=middle), width)
    assert cell_len(cell) == width
    assert cell.isprintable()


def test_a_long_cell_is_cut_at_its_end_or_in_its_middle() -> None:
    assert fitted_text("abcdefghi", ScreenColumn("", 6), 6) == "abcde~"
    assert fitted_text("abcdefghi", ScreenColumn("", 6, middle=True), 6) == "abc~hi"
    assert fitted_text("ab", ScreenColumn("", 6, right=True), 6) == "    ab"
    assert fitted_text("a\nb \x1b[31m", ScreenColumn("", 12), 12) == "a b \\x1b[31m"


@given(st.lists(st.tuples(TEXTS, st.just("")), max_size=4), st.integers(4, 40))
def test_wrapped_lines_fit_and_lose_no_letter(line: list[tuple[str, str]], width: int) -> None:
    lines = list(wrapped_lines([tuple(line)], width))
    assert all(sum(cell_len(text) for text, _ in part) <= width for part in lines)
    letters = "".join(text for part in lines for text, _ in part)
    assert letters.isprintable()
    assert letters.replace(" ", "") == "".join(one_line(text) for text, _ in line).replace(" ", "")


def test_lines_wrap_at_spaces_and_keep_their_indent() -> None:
    lines = wrapped_lines([(("  one two three", ""),), (("abcdefghij", ""),)], 9)
    assert ["".join(text for text, _ in line) for line in lines] == [
        "  one two",
        "  three",
        "abcdefghi",
        "j",
    ]


@pytest.mark.parametrize(
    ("share", "text"), [(0, "       0%"), (0.5, "||    50%"), (1, "|||||100%"), (9.9, "|||||990%")]
)
def test_a_bar_shows_its_share(share: float, text: str) -> None:
    assert bar(share, 9) == text


def test_a_spark_line_has_a_bar_for_each_value_above_zero() -> None:
    assert sparkline([0, 1, 100]) == " ▁█"
    assert sparkline([0, 0]) == ".."
