"""`berth whatif sweep`: which fleet holds a workload for the least cost."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from berth.actors.cli.plugin_options import plugin_option
from berth.actors.configuration.plugin_files import plugins_of_files
from berth.actors.telemetry.logs import configure_logs

from ...answers.explain.cluster_source import NO_ANSWER, Live
from ...answers.terminal.feature_gates import feature_gates_option, gates_from
from ...answers.terminal.options import output_option, top_option
from ...answers.terminal.sheet import Sheet
from ...answers.whatif.sweep import process_pool, ray_pool
from ...answers.whatif.sweep.cell import Failed, Outcome
from ...answers.whatif.sweep.cheapest_fleet import answer_of
from ...answers.whatif.sweep.definition import Definition, NamedFile, definition_of, type_of
from ...answers.whatif.sweep.plan import Cell, digest_of, plan_of
from ...answers.whatif.sweep.results_file import Header, Results, open_results
from ...answers.whatif.sweep.sweep_report import as_csv, as_json, show
from .cluster_options import live_options

INTERRUPTED = 130


class _Problem(click.ClickException):
    exit_code = 2


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    metavar="PATH",
    help="The cluster, or with --kubeconfig or --master what is added to it: manifests, or folders "
    "of them; repeatable.",
)
@live_options("The cluster: a live one, by its kubeconfig. Without a cluster, it is empty.")
@click.option(
    "--workload",
    multiple=True,
    metavar="PATH",
    help="Manifests of the pods to place, or of their workloads; repeatable. Without them, the "
    "pods are those of the cluster that are pending.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="NAME=NODE:PRICE",
    help="A type of nodes to add: like a node of the cluster, or like that of a manifest "
    "(FILE.yaml), with its price per hour; repeatable.",
)
@click.option(
    "--counts",
    metavar="NUMBERS",
    help="The numbers of nodes to try, such as 1,2,4-8 or 10-50/10.  [default: 1]",
)
@click.option("--mix", is_flag=True, help="Try each mixture of the types, not each type alone.")
@click.option(
    "--config",
    "configurations",
    multiple=True,
    metavar="FILE",
    help="A KubeSchedulerConfiguration file to try; repeatable.",
)
@plugin_option
@click.option("--seeds", metavar="NUMBERS", help="The seeds to try, such as 0-4.  [default: 0]")
@feature_gates_option
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="local: processes of this machine. ray: a Ray cluster, which needs "
    "pip install 'berth-scheduler[ray]'.",
)
@click.option(
    "--engine-address",
    default="",
    metavar="ADDRESS",
    help="The Ray cluster, such as HOST:6379 or ray://HOST:10001; otherwise Ray runs here.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="The number of processes of the local engine.  [default: all cores]",
)
@click.option(
    "--results",
    "results_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append each result to FILE, and go on from what is there.",
)
@top_option("rows of the table")
@output_option("csv", "html")
def sweep(
    file: Path | None,
    paths: tuple[str, ...],
    live: Live,
    workload: tuple[str, ...],
    types: tuple[str, ...],
    counts: str | None,
    mix: bool,
    configurations: tuple[str, ...],
    seeds: str | None,
    feature_gates: tuple[str, ...],
    engine: str,
    engine_address: str,
    jobs: int | None,
    results_file: Path | None,
    top: int,
    output: str,
) -> None:
    """Find the fleet that holds a workload for the least cost.

    Tries each number of nodes of each type, with each scheduler configuration and each seed: adds
    the nodes to a copy of the cluster, then the workload, and places the pods. A fleet holds the
    workload if no pod stays pending with any seed. Nothing is written to the cluster.

    FILE describes the sweep in YAML; what options name comes on top of it. With --results, a sweep
    that was stopped goes on where it was when the same command runs again. The exit code is 0 if a
    fleet holds the workload, 1 if none does, and 2 if the question cannot be answered.

    \b
    FILE:
      cluster: [cluster.yaml]           # paths are relative to FILE
      workload: [web.yaml]
      nodeTypes:
      - {name: small, like: node-1, price: 0.10, counts: 1-12}
      - {name: large, manifest: large.yaml, price: 0.36, counts: [1, 2, 3]}
      mix: false                        # true: all mixtures of the types
      configurations:
      - {name: default}
      - {name: packed, file: packed.yaml}
      seeds: 0-2

    \b
    berth whatif sweep sweep.yaml --results sweep.jsonl
    berth whatif sweep -f cluster.yaml --type small=node-1:0.10 --counts 1-12
    berth whatif sweep sweep.yaml --plugin price.py:Price
    berth whatif sweep sweep.yaml --engine ray --engine-address HOST:6379
    """
    configure_logs(quiet=True)
    if engine_address and plugins_of_files():
        raise click.UsageError(
            "--plugin is a file of this machine: for a Ray cluster, install the plugin as a package"
        )
    try:
        gates = gates_from(feature_gates)
        definition = definition_of(file) if file else Definition()
        named = [NamedFile(Path(path).stem, path) for path in configurations]
        definition = msgspec.structs.replace(
            definition,
            node_types=[*definition.node_types, *map(type_of, types)],
            counts=definition.counts if counts is None else counts,
            mix=definition.mix or mix,
            configurations=[*definition.configurations, *named],
            seeds=definition.seeds if seeds is None else seeds,
            cluster=[*definition.cluster, *paths],
            workload=[*definition.workload, *workload],
        )
        plan = plan_of(definition, live, gates)
        encoded, cells = plan.encoded(), plan.cells()
        with open_results(results_file, Header(digest_of(encoded), len(cells))) as results:
            left = [cell for cell in cells if cell.number not in results.by_cell]
            if engine == "ray":
                outcomes = ray_pool.outcomes(encoded, left, engine_address)
            else:
                outcomes = process_pool.outcomes(
                    encoded, left, jobs or len(os.sched_getaffinity(0))
                )
            try:
                with closing(outcomes):
                    failed = _collected(outcomes, results, cells)
            except KeyboardInterrupt:
                _say_stopped(results, cells, results_file)
                raise SystemExit(INTERRUPTED) from None
    except NO_ANSWER as problem:
        raise _Problem(str(problem)) from None
    answer = answer_of(plan, [*results.by_cell.values(), *failed])
    if output == "json":
        click.echo(as_json(answer))
    elif output == "csv":
        click.echo(as_csv(answer), nl=False)
    elif output == "html":
        sheet = Sheet("berth whatif sweep")
        show(answer, top, sheet)
        click.echo(sheet.document(), nl=False)
    else:
        show(answer, top, Console())
    if failed or answer.cheapest is None:
        raise SystemExit(2 if failed else 1)


def _collected(
    outcomes: Iterable[Outcome], results: Results, cells: Sequence[Cell]
) -> list[Failed]:
    """Adds the results of outcomes while it shows their progress. Returns the failures."""
    failed = []
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("what-ifs", total=len(cells), completed=len(results.by_cell))
        for outcome in outcomes:
            if isinstance(outcome, Failed):
                failed.append(outcome)
            else:
                results.append(outcome)
            bar.advance(task)
    return failed


def _say_stopped(results: Results, cells: Sequence[Cell], path: Path | None) -> None:
    done = f"stopped after {len(results.by_cell)} of {len(cells)} what-ifs"
    if path is None:
        then = "with --results FILE, the next run would go on from here"
    else:
        then = f"they are in {path}: the same command goes on from there"
    click.echo(f"{done}; {then}", err=True)
