"""The page of a time line: one HTML file without scripts."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

from ...answers.terminal.sheet import Markup, Sheet, element
from .simulation import Story
from .timeline import Timeline, TimelineEntry

MOST_ROWS = 5000
MOST_MARKS = 4000
WIDTH, LEFT, RIGHT, LANE = 1100, 240, 1080, 22  # of the picture


def page(name: str, story: Story, timeline: Timeline, seconds: float) -> str:
    """Returns the document about a story of so many seconds."""
    entries = timeline.entries
    sheet = Sheet(f"berth simulate: {name}")
    sheet.print(
        f"{story.writes} writes, {story.bound} pods bound, {story.faults} faults met, "
        f"digest {story.digest}"
    )
    for violation in story.violations:
        sheet.print(f"[red]{violation.at:g} s, {violation.property}: {escape(violation.text)}[/]")
    if not story.violations:
        sheet.print("[green]every property holds[/]")
    if timeline.left_out:
        sheet.print(f"after {entries[-1].at:g} s, {timeline.left_out} entries are left out")
    sheet.print(_picture(entries, story, seconds))
    for lane, own in sorted(_by_lane(entries).items()):
        sheet.fold(f"{lane} ({len(own)})", _table(own))
    sheet.fold(f"everything ({len(entries)})", _table(entries))
    return sheet.document()


def _by_lane(entries: Iterable[TimelineEntry]) -> dict[str, list[TimelineEntry]]:
    lanes: dict[str, list[TimelineEntry]] = {}
    for entry in entries:
        lanes.setdefault(entry.lane, []).append(entry)
    return lanes


def _table(entries: list[TimelineEntry]) -> Table:
    more = len(entries) - MOST_ROWS
    table = Table(title=f"the first {MOST_ROWS}, {more} more are left out" if more > 0 else None)
    table.add_column("second", justify="right")
    for column in ("where", "about", "what"):
        table.add_column(column)
    for entry in entries[:MOST_ROWS]:
        table.add_row(
            f"{entry.at:.3f}", escape(entry.lane), escape(entry.about), escape(entry.text)
        )
    return table


def _picture(entries: list[TimelineEntry], story: Story, seconds: float) -> Markup:
    """Returns lanes with a mark for each entry, and a line for each violation. Of many entries of a
    lane some are left out.
    """
    lanes = sorted(_by_lane(entries).items())
    step = (RIGHT - LEFT) / max(seconds, 1.0)
    height = LANE * (len(lanes) + 2)
    parts: list[Markup] = []
    for number, (lane, own) in enumerate(lanes):
        y = LANE * (number + 1)
        parts.append(element("text", lane, x=4, y=y + 4))
        parts.append(element("line", x1=LEFT, x2=RIGHT, y1=y, y2=y, class_="axis"))
        every = max(1, len(own) * len(lanes) // MOST_MARKS)
        for entry in own[::every]:
            title = element("title", f"{entry.at:.3f} s {entry.about}: {entry.text}")
            x = LEFT + entry.at * step
            parts.append(element("circle", title, cx=f"{x:.1f}", cy=y, r=3, class_="area"))
    for violation in story.violations:
        mark = f"{LEFT + violation.at * step:.1f}"
        title = element("title", f"{violation.property}: {violation.text}")
        parts.append(
            element("line", title, x1=mark, x2=mark, y1="1", y2=height - LANE, class_="line second")
        )
    for share in range(5):
        x = LEFT + (RIGHT - LEFT) * share / 4
        at = f"{seconds * share / 4:g} s"
        parts.append(element("text", at, x=f"{x - 30 * (share == 4):.0f}", y=height - 4))
    caption = element("figcaption", "When something happened, by where")
    svg = element(
        "svg", *parts, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label="time line"
    )
    return element("figure", caption, svg)
