"""Prints the answer of a sweep: as a table, as JSON, as CSV, or as a page with a plot."""

from __future__ import annotations

import csv
import io
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from ...explain.words import shown
from ...terminal.sheet import Sheet
from .cheapest_fleet import Choice, SweepAnswer
from .fleet_plot import plot


def show(answer: SweepAnswer, top: int, console: Console) -> None:
    """Prints the conclusion, and at most `top` rows of the table."""
    console.print(shown(answer.conclusion), highlight=False)
    best = answer.choices[0]
    if not best.holds:
        console.print(shown(best.reason), highlight=False)
    if isinstance(console, Sheet):
        console.print(plot(answer))
    console.print(_table(answer, top))
    reasons = dict.fromkeys(failure.reason for failure in answer.failed)
    for reason in reasons:
        number = sum(failure.reason == reason for failure in answer.failed)
        console.print(shown(f"{number} of the what-ifs failed: {reason}"), highlight=False)


def _table(answer: SweepAnswer, top: int) -> Table:
    table = Table(title=None)
    table.add_column("per hour", justify="right")
    table.add_column("fleet", overflow="fold")
    configured, seeded = len(answer.plan.configurations) > 1, len(answer.plan.seeds) > 1
    if configured:
        table.add_column("configuration", overflow="fold")
    if seeded:
        table.add_column("seeds that fit", justify="right")
    for column in ("pending", "evicted", "cpu %", "memory %"):
        table.add_column(column, justify="right")
    for choice in answer.choices[:top]:
        cells = [answer.in_words(choice.cost), choice.fleet_in_words]
        cells += [choice.configuration] if configured else []
        cells += [f"{choice.holding} of {len(answer.plan.seeds)}"] if seeded else []
        table.add_row(
            *map(shown, cells), *_figures(choice), style="green" if choice.holds else None
        )
    if len(answer.choices) > top:
        table.add_row("", f"and {len(answer.choices) - top} more")
    return table


def _figures(choice: Choice) -> list[str]:
    """Returns each figure, as a range if it depends on the seed."""
    figures = []
    for name in ("waiting", "evicted", "cpu", "memory"):
        values = [getattr(result, name) for result in choice.results]
        least, most = min(values, default="failed"), max(values, default="failed")
        figures.append(str(most) if least == most else f"{least}-{most}")
    return figures


def as_json(answer: SweepAnswer) -> bytes:
    cheapest = answer.cheapest
    document: dict[str, Any] = {
        "conclusion": answer.conclusion,
        "cheapest": None
        if cheapest is None
        else {
            "fleet": cheapest.fleet,
            "configuration": cheapest.configuration,
            "cost": cheapest.cost,
        },
        "results": answer.results,
        "failed": answer.failed,
    }
    return msgspec.json.encode(document)


def as_csv(answer: SweepAnswer) -> str:
    """Returns a line for each cell with a result, with the number of nodes of each type."""
    types = [of.name for of in answer.plan.types]
    figures = ("cost", "nodes", "cpu", "memory", "placed", "evicted", "waiting")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cell", *types, "configuration", "seed", *figures[:-1], "pending"])
    for result in answer.results:
        counts = [result.fleet.get(name, 0) for name in types]
        values = [getattr(result, figure) for figure in figures]
        writer.writerow([result.cell, *counts, result.configuration, result.seed, *values])
    return text.getvalue()
