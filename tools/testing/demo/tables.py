"""What a demo prints: tables of pods and nodes, and lines about how far it is and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .placements import Placements, Row, Summary

MOST_ROWS = 30  # of the last table
BAR_WIDTH = 20
WHY = "why not running"
_FRAME = 2  # the title and the head of a live table
_BESIDES = 2  # the line of the progress, and that of the cursor
_LEAST_ROWS = 2


def live_view(placements: Placements, now: float, height: int) -> RenderableType:
    """Returns the progress, the nodes and the pods in this number of lines."""
    room = max(height - _BESIDES - 2 * _FRAME, 2 * _LEAST_ROWS)
    nodes = min(len(placements.nodes), max(room - len(placements), room // 4, _LEAST_ROWS))
    return Group(
        _progress(placements, now),
        nodes_table(placements, nodes),
        _compact(pods_table(placements.rows(), len(placements), room - nodes, in_lines=True)),
    )


def progress_line(placements: Placements, now: float) -> str:
    placed, total = placements.placed, placements.total
    return (
        f"placing {placed:,} / {total:,}, {placements.rate(now):,.0f}/s, "
        f"{placements.unschedulable:,} unschedulable{_failed(placements.failed)}"
    )


def _failed(number: int) -> str:
    return f", {number:,} failed" if number else ""


def _progress(placements: Placements, now: float) -> Table:
    line = Table.grid(padding=(0, 1))
    bar = ProgressBar(max(placements.total, 1), placements.placed, BAR_WIDTH)
    line.add_row(bar, _in_one_line(progress_line(placements, now)))
    return line


def _compact(table: Table) -> Table:
    """Changes a table so that each row takes one line, without a frame."""
    table.box = None
    for column in table.columns:
        if column.header != WHY:  # that one gives way first, and its texts do not wrap
            column.no_wrap, column.overflow = True, "ellipsis"
    return table


def _in_one_line(text: str) -> Text:
    return Text(" ".join(text.split()), no_wrap=True, overflow="ellipsis")


def pods_table(
    rows: Iterable[Row], total: int, most: int = MOST_ROWS, *, in_lines: bool = False
) -> Table:
    """Returns a table of at most this many rows of `total` pods, each in one line if `in_lines`.

    Without a pod that is pending or failed, there is no column for the reason.
    """
    table = Table(title="pods", title_justify="left")
    shown = list(islice(rows, most if total <= most else most - 1))
    columns = ["namespace", "name", "node", "phase"]
    if any(row.why for row in shown):
        columns.append(WHY)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in shown:
        reason = _in_one_line(row.why) if in_lines else row.why
        cells = (row.namespace, row.name, row.node, row.phase, reason)[: len(columns)]
        table.add_row(*cells, style="yellow" if row.why or not row.node else None)
    if len(shown) < total:
        table.add_row("", f"and {total - len(shown):,} more", style="dim")
    return table


def nodes_table(placements: Placements, most: int) -> Table:
    """Returns a table of the nodes with their zone, state and number of pods."""
    table = Table(title="nodes", title_justify="left")
    for column in ("name", "zone", "ready", "pods"):
        table.add_column(column)
    total = len(placements.nodes)
    names = list(islice(placements.nodes, most if total <= most else most - 1))
    for name in names:
        node = placements.nodes[name]
        conditions = (node.get("status") or {}).get("conditions", ())
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        cordoned = ", cordoned" if (node.get("spec") or {}).get("unschedulable") else ""
        state = f"{'yes' if ready else 'no'}{cordoned}"
        table.add_row(name, placements.zone_of(name), state, str(placements.pods_on[name]))
    if len(names) < total:
        table.add_row(f"and {total - len(names):,} more", style="dim")
    return _compact(table)


def closing_lines(summary: Summary) -> list[str]:
    """Returns the lines at the end of a demo, without the table of pods."""
    rate = summary.placed / summary.seconds if summary.seconds else 0.0
    first = f"{summary.placed:,} placed, {summary.pending:,} pending{_failed(summary.failed)}"
    lines = [f"{first} in {summary.seconds:.1f} s ({rate:,.0f}/s)"]
    lines += [f"not happened: {sentence}" for sentence in summary.missing]
    if summary.zones:
        zones = ", ".join(f"{zone} {count:,}" for zone, count in summary.zones.items())
        lines.append(f"pods by zone: {zones}")
    if summary.fullest:
        nodes = ", ".join(
            f"{use.name} ({use.pods} pod{'s' * (use.pods != 1)}, {_percent_words(use.percent)})"
            for use in summary.fullest
        )
        lines.append(f"fullest nodes: {nodes}")
        lines.append(f"requested of all nodes: {_percent_words(summary.percent)}")
    return lines


def _percent_words(percent: dict[str, float]) -> str:
    return ", ".join(f"{resource} {share:g}%" for resource, share in percent.items())
