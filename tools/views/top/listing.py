"""The scrolling part of the screen: a table with a cursor, or text.

It draws only the rows in sight, and cuts them into segments itself, so that no text of a cluster is
read as markup or reaches the terminal as a control character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from .columns import GAP, Line, ScreenColumn, fitted_text, one_line, widths

STYLES = {
    "": Style(),
    "good": Style(color="green"),
    "warn": Style(color="yellow"),
    "bad": Style(color="red", bold=True),
    "dim": Style(dim=True),
    "head": Style(bold=True, underline=True),
    "strong": Style(bold=True),
}
WHEEL_LINES = 3
_CURSOR = Style(reverse=True)


class Lines(Widget):
    """A few lines, each cut at the edge of the screen."""

    DEFAULT_CSS = "Lines { height: 0; }"

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self._lines: Sequence[Line] = ()

    def put(self, lines: Sequence[Line]) -> None:
        if lines != self._lines:
            self._lines = lines
            self.styles.height = len(lines)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else ()
        return Strip(list(segments(line))).adjust_cell_length(self.size.width)


class Listing(Widget, can_focus=True):
    """Rows of a table or of text. `draw` returns the cells of a row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)"),
        Binding("k,up", "move(-1)"),
        Binding("pagedown,ctrl+f,space", "page(1)"),
        Binding("pageup,ctrl+b", "page(-1)"),
        Binding("g,home", "end(0)"),
        Binding("G,end", "end(1)"),
        Binding("enter,d", "open"),
    ]
    DEFAULT_CSS = "Listing { height: 1fr; }"

    class Opened(Message):
        """The message that a row was opened."""

        def __init__(self, row: Any) -> None:
            self.row = row
            super().__init__()

    def __init__(self) -> None:
        super().__init__()
        self._columns: Sequence[ScreenColumn] = ()
        self._rows: Sequence[Any] = ()
        self._draw: Callable[[Any], Line] = tuple
        self._first = 0  # row in sight
        self._cursor = 0

    def begin(self) -> None:
        """Moves to the first row, for another view."""
        self._first = self._cursor = 0
        self._rows = ()

    def fill(
        self, columns: Sequence[ScreenColumn], rows: Sequence[Any], draw: Callable[[Any], Line]
    ) -> None:
        """Shows these rows, with the cursor at the same row as before if it is still there."""
        if columns and rows and self._rows and rows is not self._rows:
            row = self.row
            if self._cursor >= len(rows) or rows[self._cursor] != row:
                self._cursor = rows.index(row) if row in rows else self._cursor
        self._columns, self._rows, self._draw = columns, rows, draw
        self._keep_in_sight()
        self.refresh()

    @property
    def row(self) -> Any:
        """The row at the cursor; None if there is no row, or the rows are text."""
        return self._rows[self._cursor] if self._columns and self._rows else None

    def place(self) -> str:
        """Returns which rows are in sight, such as "1-20 of 90"; if all are, their number, or ""
        for text.
        """
        shown = self._room()
        if len(self._rows) <= shown:
            return f"{len(self._rows):,}" if self._columns else ""
        return f"{self._first + 1:,}-{self._first + shown:,} of {len(self._rows):,}"

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        index = self._first + y - bool(self._columns)
        if self._columns and y == 0:
            titles = tuple((column.title, "strong") for column in self._columns)
            return Strip(list(self._segments(titles, " "))).adjust_cell_length(width)
        if index >= len(self._rows):
            return Strip.blank(width)
        is_here = bool(self._columns) and index == self._cursor
        cells = self._draw(self._rows[index])
        if is_here:
            cells = tuple((text, "") for text, _ in cells)
        strip = Strip(list(self._segments(cells, ">" if is_here else " ")))
        strip = strip.adjust_cell_length(width)
        return strip.apply_style(_CURSOR) if is_here else strip

    def _segments(self, cells: Line, mark: str) -> Iterator[Segment]:
        if not self._columns:
            yield from segments(cells)
            return
        yield Segment(mark)
        shown = widths(self._columns, self.size.width - 1)
        for column, (text, kind), width in zip(self._columns, cells, shown, strict=True):
            if width:
                yield Segment(fitted_text(text, column, width), STYLES[kind])
                yield Segment(" " * GAP)

    def on_resize(self) -> None:
        self._keep_in_sight()

    def on_mouse_scroll_down(self) -> None:
        self.action_move(WHEEL_LINES)

    def on_mouse_scroll_up(self) -> None:
        self.action_move(-WHEEL_LINES)

    def on_click(self, event: events.Click) -> None:
        index = self._first + event.y - 1
        if self._columns and event.y and index < len(self._rows):
            if index == self._cursor:
                self.action_open()
            self._cursor = index
            self.refresh()

    def action_move(self, rows: int) -> None:
        if self._columns:
            self._cursor += rows
        else:
            self._first += rows
        self._keep_in_sight()
        self.refresh()

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self._room() - 1))

    def action_end(self, last: int) -> None:
        self.action_move(len(self._rows) if last else -len(self._rows))

    def action_open(self) -> None:
        if self.row is not None:
            self.post_message(self.Opened(self.row))

    def _room(self) -> int:
        """Returns the number of rows that fit."""
        return max(1, self.size.height - bool(self._columns))

    def _keep_in_sight(self) -> None:
        room = self._room()
        self._cursor = max(0, min(self._cursor, len(self._rows) - 1))
        if self._columns:
            self._first = max(self._cursor - room + 1, min(self._first, self._cursor))
        self._first = max(0, min(self._first, len(self._rows) - room))


def segments(line: Line) -> Iterator[Segment]:
    return (Segment(one_line(text), STYLES[kind]) for text, kind in line)
