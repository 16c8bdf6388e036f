"""The common parts of the programs beside `berth bench`: the option `-o`, tables and JSON, timing,
and small objects to time.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from berth.actors.scheduling.kube.core import Node, Pod

from ..answers.terminal.options import output_option

OPERATIONS = 1_000
WIDTH = 100  # of tables that are not on a terminal

figures_option = output_option(words="How to print the figures.")
pods_option = click.option("--pods", default=150_000, type=click.IntRange(min=0), show_default=True)
nodes_option = click.option("--nodes", default=5_000, type=click.IntRange(1), show_default=True)


class NoReply:
    """A reply that never comes: to send one is an error."""

    def set(self, value: object) -> None:
        raise AssertionError(value)


def show(output: str, figures: object, *parts: Table | str) -> None:
    """Prints figures as JSON, or as the parts that present the same figures to people."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(figures)))
        return
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    for part in parts:
        console.print(part)


def table(
    columns: Sequence[str], rows: Iterable[Iterable[object]], form: str = "{}", title: str = ""
) -> Table:
    """Returns a table of texts, whole numbers and other numbers. The other numbers have a form such
    as `{:,.1f}`. None is shown as "-".
    """
    shown = Table(title=title or None, title_justify="left")
    shown.add_column(columns[0], overflow="fold")
    for column in columns[1:]:
        shown.add_column(column, justify="right")
    for row in rows:
        shown.add_row(*(_cell(value, form) for value in row))
    return shown


def _cell(value: object, form: str) -> str:
    match value:
        case None:
            return "-"
        case int():
            return f"{value:,}"
        case float():
            return form.format(value)
    return str(value)


def microseconds(work: Callable[[int], object], times: int = OPERATIONS) -> float:
    """Returns the microseconds per call of `work`, which gets the number of the call."""
    with no_collector():
        start = perf_counter()
        for number in range(times):
            work(number)
        seconds = perf_counter() - start
    return seconds / times * 1e6


@contextmanager
def no_collector() -> Iterator[None]:
    """Keeps the garbage collector from running."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def make_pod(namespace: str, number: int, labels: Mapping[str, str], **spec: Any) -> Pod:
    metadata = {"namespace": namespace, "name": f"p{number}", "uid": f"u{number}", "labels": labels}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


def make_node(number: int, labels: Mapping[str, str], version: int = 0, **room: Any) -> Node:
    metadata = {"name": f"n{number}", "labels": labels, "resourceVersion": str(version)}
    return msgspec.convert({"metadata": metadata, "status": {"allocatable": room}}, Node)
