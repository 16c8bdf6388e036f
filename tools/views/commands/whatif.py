"""`berth whatif`: what would happen to the pods if the cluster changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml
from rich.console import Console
from rich.table import Table

from berth.actors.cli.plugin_options import plugin_option
from berth.actors.configuration.file import file_or_default
from berth.actors.telemetry.logs import configure_logs

from ...answers.explain.cluster_source import NO_ANSWER, Live, print_lines
from ...answers.explain.decider import Explainer
from ...answers.explain.slow_answer import progress_reports
from ...answers.explain.words import listed, shown
from ...answers.manifests.manifests import Reading
from ...answers.terminal.feature_gates import feature_gates_option, gates_from
from ...answers.terminal.options import config_option, exit_with, output_option, top_option
from ...answers.terminal.sheet import Sheet
from ...answers.whatif.conclusion import WAITING, Result
from ...answers.whatif.node_usage import Fullness, NodeChange
from ...answers.whatif.placement import Evicted
from ...answers.whatif.start_cluster import cluster_of
from ...answers.whatif.steps import StepError, from_file, sentence_of
from ...answers.whatif.trial import result_of
from ...answers.whatif.tried_documents import Documents
from ...answers.whatif.verbs import VERBS, steps_of
from .cluster_options import cluster_options


class _Problem(click.ClickException):
    exit_code = 2


class _Command(click.Command):
    """A command that takes steps, or the name of a subcommand."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if args[:1] == ["serve"]:
            from .serve import serve

            return serve.make_context(f"{info_name} serve", args[1:], parent, **extra)
        if args[:1] == ["sweep"]:
            from .sweep import sweep

            return sweep.make_context(f"{info_name} sweep", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Steps"):
            formatter.write_dl([(verb.form, verb.help) for verb in VERBS.values()])
        super().format_options(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command(cls=_Command)
@click.argument("steps", metavar="[STEP]...", nargs=-1)
@cluster_options
@click.option(
    "--steps",
    "file_of_steps",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A YAML list of steps, before those of the command line.",
)
@click.option(
    "-n", "--namespace", default="default", metavar="NAME", help="The namespace of names in steps."
)
@config_option
@plugin_option
@feature_gates_option
@click.option("--seed", default=0, show_default=True, help="Breaks ties between nodes.")
@top_option("rows of a table")
@output_option("yaml", "html")
def whatif(
    steps: tuple[str, ...],
    paths: tuple[Path, ...],
    reading: Reading,
    live: Live,
    file_of_steps: Path | None,
    namespace: str,
    file: str | None,
    feature_gates: tuple[str, ...],
    seed: int,
    top: int,
    output: str,
) -> None:
    """Try steps on a copy of a cluster, and show where pods land.

    Shows where pods land, which stay pending and why, which are evicted or lost, and how full the
    nodes are. Nothing is written to the cluster. The exit code is 0 if the steps hurt no pod, 1 if
    pods are lost or newly pending or a workload gets none, and 2 if the question cannot be
    answered. Without steps it is 1 if pods stay pending or a workload gets none.

    \b
    berth whatif "drain node-1"
    berth whatif -f cluster.yaml "add 3 like node-1" "scale deployment/web 50"
    berth whatif -f cluster.yaml "drain node-1" --plugin price.py:Price
    berth whatif serve --help               (what-ifs over HTTP)
    berth whatif sweep --help               (which fleet holds a workload for the least cost)
    """
    configure_logs(quiet=True)
    try:
        gates = gates_from(feature_gates)
        written = [*(from_file(file_of_steps) if file_of_steps else ()), *steps]
        parsed = steps_of(written)
        configuration = file_or_default(file, gates)
        objects = cluster_of(paths, live, Explainer(configuration, gates).kinds, reading)
        documents = Documents(objects, configuration, gates)
        with progress_reports():
            result = result_of(documents, parsed, seed, namespace, reading=reading)
        print_lines(*reading.findings.untold())
    except StepError as problem:
        sentence = sentence_of(written[problem.number - 1])
        raise _Problem(f"step {problem.number}, {sentence!r}: {problem}") from None
    except NO_ANSWER as problem:
        raise _Problem(str(problem)) from None
    if output == "json":
        click.echo(msgspec.json.encode(result))
    elif output == "yaml":
        document = msgspec.to_builtins(result)
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    elif output == "html":
        sentences = "; ".join(map(sentence_of, written))
        sheet = Sheet(f"what if: {sentences}" if written else "what if")
        show(result, top, sheet)
        click.echo(sheet.document(), nl=False)
    else:
        show(result, top, Console())
    if result.hurts:
        click.get_current_context().exit(1)
    exit_with(reading)


def show(result: Result, top: int, console: Console) -> None:
    """Prints the conclusion and the tables of a result, at most `top` rows of each."""
    for line in (result.conclusion, *result.notes):
        console.print(shown(line), highlight=False)
    for title, columns, rows in _tables(result):
        if rows:
            table = Table(title=title, title_justify="left")
            for column in columns:
                table.add_column(column, overflow="fold")
            for row in rows[:top]:
                table.add_row(*map(shown, row))
            if len(rows) > top:
                table.add_row(f"and {len(rows) - top} more")
            console.print(table)


def _tables(result: Result) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """Yields the title, the columns and the rows of each table."""
    for title, waiting in (("placed", False), (WAITING, True)):
        by_workload: dict[str, Counter[str]] = {}
        for placed in result.placed:
            if bool(placed.waits_for) == waiting:
                by_workload.setdefault(placed.workload, Counter())[placed.node] += 1
        counted = {of: [_counted(n, c) for n, c in by.items()] for of, by in by_workload.items()}
        rows = [(of, str(by.total()), listed(counted[of])) for of, by in by_workload.items()]
        yield title, ("workload", "pods", "nodes"), rows
    for title, before in (("pending", False), ("pending before", True)):
        pending = [of for of in result.pending if of.before == before]
        rows = [(of.workload, str(len(of.pods)), of.reason) for of in pending]
        yield title, ("workload", "pods", "each"), rows
    refused = [(of.workload, of.reason) for of in result.refused]
    yield "workloads that get no pods", ("workload", "because"), refused
    yield "lost", ("pod", "from", "because"), [(of.pod, of.node, of.reason) for of in result.lost]
    kept = [(of.pod, of.node, ", ".join(of.budgets)) for of in result.kept]
    yield "kept", ("pod", "on", "by disruption budget"), kept
    evictions = [(of.pod, of.node, ", ".join(of.budgets)) for of in result.refused_evictions]
    yield "evictions refused (429)", ("pod", "on", "by disruption budget"), evictions
    returned = [(of.pod, of.node) for of in result.returned]
    yield "not drained, as they came later", ("pod", "on"), returned
    evicted = [(of.pod, of.node, of.reason, _replacement(of)) for of in result.evicted]
    yield "evicted", ("pod", "from", "because", "replaced by"), evicted
    deleted = [(of.pod, of.workload, of.node or "pending") for of in result.deleted]
    yield "deleted", ("pod", "workload", "from"), deleted
    nodes = [_row(node) for node in result.nodes if node.before != node.after]
    yield "nodes that change", ("node", "cpu %", "memory %", "pods"), nodes


def _replacement(evicted: Evicted) -> str:
    if not evicted.replacement:
        return "none"
    return evicted.replacement + (f" on {evicted.to}" if evicted.to else ", pending")


def _counted(node: str, pods: int) -> str:
    return node if pods == 1 else f"{node} ({pods})"


def _row(change: NodeChange) -> tuple[str, ...]:
    before, after = change.before, change.after
    if after is None:
        return change.node, "removed", "", ""
    pairs = zip(_values(before), _values(after), strict=True)
    return change.node, *(f"{old} > {new}" if old != new else new for old, new in pairs)


def _values(fullness: Fullness | None) -> tuple[str, str, str]:
    if fullness is None:
        return "new", "new", "new"
    return str(fullness.cpu), str(fullness.memory), str(fullness.pods)
