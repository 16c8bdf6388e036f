"""`berth chaos`: faults among real processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path

import anyio
import click
import msgspec
from rich.markup import escape
from rich.table import Table

from berth.actors.runtime.exceptions import ungrouped
from berth.actors.telemetry.logs import configure_logs

from ...answers.terminal.options import output_option
from ...answers.terminal.sheet import Sheet
from ...cluster.faults.fault_files import read_faults
from ...cluster.faults.vocabulary import Fault, FaultError, FaultPlace
from ..run_length import run_seconds
from .chaos import Chaos, ChaosResult
from .lent_folder import lent_folder
from .program import ProgramError
from .troubles import OF_SCHEDULERS

BROKEN = 1


@click.command()
@click.option("--time", "length", default="1m", show_default=True, help="How long it lasts.")
@click.option("--seed", default=1, show_default=True, help="What draws faults and clients.")
@click.option("--schedulers", default=2, show_default=True, type=click.IntRange(1, 10))
@click.option("--nodes", default=10, show_default=True, type=click.IntRange(1, 1000))
@click.option(
    "--faults",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Faults that are in force from the beginning, beside those of the seed.",
)
@click.option(
    "--page",
    "page_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report as an HTML file.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the processes' output and the objects in this folder.",
)
@output_option()
def chaos(
    length: str,
    seed: int,
    schedulers: int,
    nodes: int,
    file: Path | None,
    page_file: Path | None,
    keep: Path | None,
    output: str,
) -> None:
    """Disturb and kill real processes; check that nothing is lost.

    An API server, schedulers that elect a leader, and clients run on loopback. Faults on the wire,
    kill -9 and SIGSTOP are drawn from the seed. At the end they cease: every pod that fits must be
    bound, to one node, and whatever was acknowledged must be there. The exit code is 1 if
    something is not so, and 2 for what cannot be used.

    \b
    berth chaos --time 10m --page chaos.html
    """
    if page_file is not None and not os.access(page_file.parent, os.W_OK):
        raise click.UsageError(f"--page: expected a folder to write to, got {page_file.parent}")
    try:
        seconds = run_seconds(length)
        first = () if file is None else _faults(file, schedulers)
    except (ValueError, FaultError, OSError) as problem:
        raise click.UsageError(str(problem)) from None
    try:
        with nullcontext(keep) if keep is not None else lent_folder("berth-chaos-") as folder:
            folder.mkdir(parents=True, exist_ok=True)
            run = Chaos(folder, seconds, seed, schedulers, nodes, first)
            with ungrouped(), _log_beside_others(folder):
                result = anyio.run(run.run)
    except (ProgramError, OSError) as problem:
        raise click.ClickException(str(problem)) from None
    if output == "json":
        click.echo(msgspec.json.encode(result).decode())
    else:
        for line in (*_summary(result), *result.problems):
            click.echo(line)
    if page_file is not None:
        try:
            page_file.write_text(_page(result, seed), encoding="utf-8")
        except OSError as problem:
            raise click.ClickException(f"{page_file}: {problem.strerror}") from None
    sys.exit(BROKEN if result.problems else 0)


def _faults(file: Path, schedulers: int) -> tuple[Fault, ...]:
    """Reads the faults of a file. Raises FaultError and OSError."""
    faults = read_faults(file, FaultPlace.CHAOS).faults
    for number, fault in enumerate(faults):
        if fault.does in OF_SCHEDULERS and fault.number >= schedulers:
            expected = f"one of {schedulers} schedulers, from 0"
            raise FaultError(
                f"{file}: faults[{number}].number: expected {expected}, got {fault.number}"
            )
    return faults


@contextmanager
def _log_beside_others(folder: Path) -> Iterator[None]:
    """Writes the log of this process to a file, as those of the others: the faults interrupt its
    clients too, which is no news.
    """
    try:
        with (folder / "chaos.log").open("a", encoding="utf-8") as lines, redirect_stderr(lines):
            configure_logs(quiet=True)
            yield
    finally:
        configure_logs(quiet=True)


def _summary(result: ChaosResult) -> list[str]:
    starts = ", ".join(f"{name} {number}" for name, number in result.starts.items())
    told = f"{len(result.problems)} problems" if result.problems else "nothing is lost"
    faults = f"{len(result.troubles)} faults, met {sum(result.met.values())} times"
    work = f"{result.writes} writes of clients, {result.bound} pods bound"
    return [
        f"{result.seconds:g} s: {work}, {faults}: {told}",
        f"starts of processes: {starts}; leaders: {result.leaders}",
    ]


def _page(result: ChaosResult, seed: int) -> str:
    sheet = Sheet(f"berth chaos: seed {seed}")
    for line in _summary(result):
        sheet.print(escape(line))
    for problem in result.problems:
        sheet.print(f"[red]{escape(problem)}[/]")
    met = Table(title="Faults that were met")
    met.add_column("fault")
    met.add_column("times", justify="right")
    for does, number in sorted(result.met.items()):
        met.add_row(does, str(number))
    sheet.print(met)
    all_of_them = Table()
    for column in ("second", "fault"):
        all_of_them.add_column(column)
    for trouble in result.troubles:
        said = msgspec.json.encode(trouble.fault).decode()
        all_of_them.add_row(f"{trouble.at:g}", escape(said))
    sheet.fold("All faults", all_of_them)
    return sheet.document()
