"""`berth bench`: runs scheduler_perf's workloads and reports how fast the scheduler is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from berth.actors.cli.plugin_options import plugin_option
from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.kubeconfig import load as load_connection
from berth.actors.telemetry.logs import configure_logs

from ..answers.terminal.feature_gates import version_asked, version_option
from ..answers.terminal.options import output_option
from ..answers.terminal.sheet import Sheet
from .compare import CompareError, compare, read
from .compare import table as ratios_table
from .measure import Result, median
from .opcodes import WorkloadError
from .operations import Report
from .plots import plots
from .programs import show
from .result_tables import WIDE, differences_table, profile_tables, results_table
from .session import NotRunError, Settings, Where, measure
from .workload import WorkloadRun, load, plan, select

SAMPLE = Path(__file__).parent / "sample/workloads.yaml"


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--workload",
    "names",
    multiple=True,
    metavar="NAME",
    help="A test case, a workload, or CASE/WORKLOAD; * matches anything; repeatable.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="L",
    help="Only workloads with this label (-L: without it); repeatable, or comma-separated.",
)
@click.option(
    "--api",
    type=click.Choice(["embedded", "inproc"]),
    default=None,
    help="embedded: the API server and the scheduler in separate processes, over HTTP. "
    "inproc: both in one process, without HTTP, to measure the cost of scheduling alone.  "
    "[default: embedded]",
)
@click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="Run on this cluster, and delete what was created there.",
)
@click.option(
    "--scheduler",
    type=click.Choice(["berth", "none"]),
    default="berth",
    show_default=True,
    help="none: only measure, while another scheduler does the work.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Measure with this KubeSchedulerConfiguration, in place of the workload's own.",
)
@plugin_option
@version_option
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Report the median of N runs.",
)
@click.option(
    "--profile",
    is_flag=True,
    help="Sample the scheduler's stack every millisecond, and show where the time goes.",
)
@click.option(
    "--stacks",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Like --profile, and write the stacks to FILE, for flamegraph.pl or speedscope.",
)
@click.option(
    "--check",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Repeat N decisions of each window from scratch, as berth explain does, and compare.",
)
@click.option(
    "--stall",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="End a workload in which pods wait without any progress for this long.",
)
@click.option(
    "--compare",
    "compared",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="A.json B.json",
    help="Show B's results as multiples of A's, without running anything.",
)
@output_option(
    "html",
    words="How to print the figures. html: a file with plots of throughput and latency over time.",
)
def bench(
    file: Path | None,
    names: tuple[str, ...],
    labels: tuple[str, ...],
    api: Where | None,
    kubeconfig: str,
    scheduler: str,
    config: str | None,
    runs: int,
    profile: bool,
    stacks: Path | None,
    check: int,
    stall: float,
    compared: tuple[Path, Path] | None,
    output: str,
) -> None:
    """Measure a scheduler.

    Runs the workloads of a scheduler_perf configuration FILE, by default a small one of berth's
    own, and reports the figures. Each workload runs in fresh processes. Throughput is sampled every
    second, as scheduler_perf does. CPU and memory are those of the scheduler's process. A workload
    that cannot run here is reported with the reason, and the others run. The exit code is 1 if a
    workload fails, misses its threshold, or has a decision that differs under --check.

    \b
    berth bench
    berth bench misc/performance-config.yaml --workload SchedulingBasic --label performance
    berth bench misc/performance-config.yaml --workload 5000Nodes_10000Pods --api inproc --profile
    berth bench -o html > bench.html
    berth bench --config scheduler.yaml
    berth bench --api inproc --plugin price.py:Price
    berth bench --compare before.json after.json
    """
    try:
        if compared is not None:
            _compare(*compared, output)
            return
        file = SAMPLE if file is None else file
        if api == "inproc" and (kubeconfig or scheduler == "none"):
            raise click.UsageError(
                "--api inproc cannot be combined with --kubeconfig or --scheduler none"
            )
        if check and scheduler == "none":
            raise click.UsageError("--check cannot be combined with --scheduler none")
        if config and scheduler == "none":
            raise click.UsageError("--config cannot be combined with --scheduler none")
        if api == "embedded" and kubeconfig:
            raise click.UsageError("--kubeconfig cannot be combined with --api")
        required = [label for text in labels for label in text.split(",") if label]
        chosen = [
            plan(file, case, workload) for case, workload in select(load(file), names, required)
        ]
        connection = load_connection(kubeconfig) if kubeconfig else None
    except (WorkloadError, CompareError, KubeconfigError) as problem:
        raise click.ClickException(str(problem)) from None
    if not chosen:
        raise click.ClickException(f"{file}: no workload is selected")
    where: Where = "kubeconfig" if kubeconfig else api or "embedded"
    settings = Settings(
        where,
        scheduler == "berth",
        stall,
        profile or stacks is not None,
        check,
        kubeconfig,
        connection,
        config or "",
        version_asked().text,
    )
    configure_logs(quiet=True)
    results, failed = _run_all(file, chosen, settings, runs)
    _show(results, output)
    if stacks is not None:
        _write_stacks(stacks, results)
    differ = any(result.checked is not None and result.checked.differ for result in results)
    if failed or differ or not all(result.reached for result in results):
        raise SystemExit(1)


def _show(results: list[Result], output: str) -> None:
    console = Console(stderr=output == "json", width=None if sys.stdout.isatty() else WIDE)
    sheet = Sheet("berth bench") if output == "html" else None
    console = sheet or console
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(results)))
    elif results:
        console.print(results_table(results, wide=console.width >= WIDE))
    for result in results:
        if sheet is not None:
            sheet.print(*plots(result))
        if result.profile:
            console.print(*profile_tables(result.name, result.profile))
        if result.checked is not None and result.checked.differ:
            console.print(differences_table(result.name, result.checked))
    if sheet is not None:
        click.echo(sheet.document(), nl=False)


def _write_stacks(path: Path, results: Sequence[Result]) -> None:
    """Writes a line for each stack: the workload as outermost frame, and the number of samples."""
    lines = (
        f"{result.name};{stack} {times}\n"
        for result in results
        for stack, times in result.profile.items()
    )
    try:
        path.write_text("".join(lines), encoding="utf-8")
    except OSError as problem:
        raise click.ClickException(f"--stacks {path}: {problem.strerror}") from None


def _compare(first: Path, second: Path, output: str) -> None:
    ratios = compare(read(first), read(second))
    table = ratios_table(ratios, str(first), str(second))
    if output == "html":
        sheet = Sheet("berth bench --compare")
        sheet.print(table)
        click.echo(sheet.document(), nl=False)
    else:
        show(output, ratios, table)


def _run_all(
    file: Path, chosen: Sequence[WorkloadRun], settings: Settings, runs: int
) -> tuple[list[Result], bool]:
    """Returns the results, and True if a workload failed. Prints on stderr which did not run."""
    results: list[Result] = []
    failed = False
    for number, run in enumerate(chosen, 1):
        try:
            windows_by_run = []
            for turn in range(runs):
                title = f"[{number}/{len(chosen)}] {run.name}" + (
                    f" run {turn + 1}" if runs > 1 else ""
                )
                with _progress(title) as report:
                    windows_by_run.append(
                        anyio.run(measure, file, run, settings, report, _print_progress)
                    )
            results += [median(windows) for windows in zip(*windows_by_run, strict=True)]
        except NotRunError as problem:
            _print_progress(
                f"{run.name}: {'unsupported' if problem.unsupported else 'failed'}: {problem}"
            )
            failed = failed or not problem.unsupported
    return results, failed


def _print_progress(line: str) -> None:
    click.echo(line, err=True)


@contextmanager
def _progress(title: str) -> Iterator[Report]:
    """Shows a progress bar on a terminal; yields the function that advances it."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(title, total=None)

        def report(step: str, done: int, total: int) -> None:
            bar.update(
                task, description=f"{title}: {step}", completed=min(done, total), total=total
            )

        yield report
