"""The columns of a table and their cells: as many columns as the terminal is wide enough for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from rich.cells import cell_len, chop_cells, set_cell_size

from berth.actors.telemetry.klog import printable

Cell = tuple[str, str]  # a text, and its kind: good, warn, bad, dim, head, strong or ""
Line = tuple[Cell, ...]
GAP = 1
INDENT = "  "
_SPACES = str.maketrans("\n\t", "  ")


class ScreenColumn(msgspec.Struct, frozen=True):
    """A column of at least `width` cells; the rest of the terminal is shared by `weight`.

    A terminal narrower than `since` does not show it. Texts that are too long are cut in the
    `middle`, or else at their end.
    """

    title: str
    width: int
    weight: int = 0
    since: int = 0
    right: bool = False
    middle: bool = False


def widths(columns: Sequence[ScreenColumn], width: int) -> list[int]:
    """Returns the widths of the columns in this number of cells; 0 for columns that are
    left out.
    """
    shown = [column.width if column.since <= width else 0 for column in columns]
    spare = width - sum(shown) - GAP * (sum(map(bool, shown)) - 1)
    weights = [column.weight if room else 0 for column, room in zip(columns, shown, strict=True)]
    total = sum(weights)
    if spare > 0 and total:
        shown = [
            room + spare * weight // total for room, weight in zip(shown, weights, strict=True)
        ]
    return shown


def one_line(text: str) -> str:
    """Returns a text on one line, without control characters."""
    return printable(text.translate(_SPACES))


def fitted_text(text: str, column: ScreenColumn, width: int) -> str:
    """Returns a text in exactly this number of cells, with a mark where it is cut."""
    text = one_line(text)
    size = cell_len(text)
    if size <= width:
        return text.rjust(width - size + len(text)) if column.right else set_cell_size(text, width)
    if not column.middle:
        return set_cell_size(text, width - 1) + "~"
    last = text[-((width - 1) // 2) :]
    return set_cell_size(set_cell_size(text, width - 1 - cell_len(last)) + "~" + last, width)


def wrapped_lines(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """Breaks lines that are longer than the terminal is wide, at spaces where there are some."""
    for line in lines:
        indent = INDENT if line and line[0][0].startswith(INDENT) else ""
        parts: list[Cell] = []
        room = width
        for text, kind in line:
            for word in _words(one_line(text)):
                rest = word
                if cell_len(rest) > room and room < width - len(indent):
                    yield tuple(parts)
                    parts, room = _continuation(indent, width)
                    rest = rest.lstrip()
                while cell_len(rest) > room:
                    first, *_ = chop_cells(rest, max(room, 2))
                    yield (*parts, (first, kind))
                    parts, room = _continuation(indent, width)
                    rest = rest[len(first) :]
                if parts and parts[-1][1] == kind:
                    parts[-1] = parts[-1][0] + rest, kind
                else:
                    parts.append((rest, kind))
                room -= cell_len(rest)
        yield tuple(parts)


def _continuation(indent: str, width: int) -> tuple[list[Cell], int]:
    return ([(indent, "")] if indent else []), max(width - len(indent), 2)


def _words(text: str) -> Iterator[str]:
    """Yields the words of a text, each with the spaces before it."""
    start = 0
    for index in range(1, len(text)):
        if text[index] == " " and text[index - 1] != " ":
            yield text[start:index]
            start = index
    if text:
        yield text[start:]


def bar(share: float, width: int) -> str:
    """Returns a share as a bar with its percentage, in this number of cells."""
    percent = f"{share:.0%}".rjust(4)
    room = width - len(percent)
    return (
        "|" * min(room, round(room * share))
        + " " * (room - min(room, round(room * share)))
        + percent
    )


def sparkline(values: Sequence[int]) -> str:
    """Returns a line of bars, one character for each value."""
    most = max(values, default=0)
    if not most:
        return "." * len(values)
    return "".join(" ▁▂▃▄▅▆▇█"[-(-8 * value // most)] for value in values)


def number_of_things(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)
