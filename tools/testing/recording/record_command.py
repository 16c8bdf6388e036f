"""`berth record` and `berth replay`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import anyio
import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from berth.actors.cli.plugin_options import plugin_option
from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.kubeconfig import load
from berth.actors.client.read_only import ReadOnlyClient
from berth.actors.client.rest import ApiError, Connection, ConnectionFailedError
from berth.actors.runtime.exceptions import ungrouped
from berth.actors.telemetry.logs import configure_logs
from berth.config.feature_gates import parse_gates

from ...answers.explain.slow_answer import progress_reports
from ...answers.terminal.feature_gates import feature_gates_option, gates_from, version_asked
from ...answers.terminal.options import context_option, output_option
from ...answers.terminal.signal_end import cancel_at_signal
from ..run_length import run_seconds
from .recorder import Recorder
from .recording import RecordingError, read_recording
from .replayed import PodComparison, replayed

DIFFERS = 1
MOST_MIB = 256


@click.command()
@click.option("--kubeconfig", default="", metavar="FILE", help="The cluster, as with kubectl.")
@context_option
@click.option("--time", "length", default="10m", show_default=True, help="How long it lasts.")
@click.option(
    "--most",
    default=MOST_MIB,
    show_default=True,
    type=click.IntRange(1),
    help="MiB after which it ends.",
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def record(kubeconfig: str, context: str, length: str, most: int, force: bool, file: Path) -> None:
    """Write down what happens in a cluster, for `berth replay`.

    It follows what a scheduler follows, and only reads, until Ctrl-C at the latest. Secrets, and
    what containers are told, are left out.

    \b
    berth record --time 1h cluster.rec
    """
    configure_logs(quiet=True)
    try:
        seconds = run_seconds(length)
        connection = load(kubeconfig or None, context, home=True)
    except (ValueError, KubeconfigError) as problem:
        raise click.UsageError(str(problem)) from None
    try:
        with ungrouped():
            changes = anyio.run(_record, connection, file, force, seconds, most << 20)
    except (ConnectionFailedError, ApiError, OSError) as problem:
        raise click.ClickException(str(problem)) from None
    click.echo(f"{changes} changes in {file}")


async def _record(
    connection: Connection, file: Path, force: bool, seconds: float, most: int
) -> int:
    async with ReadOnlyClient(connection) as client:
        await client.call("GET", "/version", dict)
        with _opened(file, force) as out:

            def write(line: bytes) -> None:
                out.write(line)
                out.flush()  # a recording that is killed has all its lines

            recorder = Recorder(client, write, most)
            async with anyio.create_task_group() as group:
                with anyio.move_on_after(seconds) as recording:
                    await group.start(cancel_at_signal, recording)
                    group.start_soon(recorder.run)
                    await recorder.is_full.wait()
                group.cancel_scope.cancel()
    return recorder.changes


def _opened(file: Path, force: bool) -> BinaryIO:
    try:
        return file.open("wb" if force else "xb")
    except FileExistsError:
        raise click.UsageError(f"{file}: it exists; --force overwrites it") from None
    except OSError as problem:
        raise click.UsageError(f"{file}: {problem.strerror}") from None


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The KubeSchedulerConfiguration that decides.",
)
@feature_gates_option
@plugin_option
@output_option()
def replay(file: Path, config: Path | None, feature_gates: tuple[str, ...], output: str) -> None:
    """Decide the pods of a recorded cluster again, and compare.

    The exit code is 1 if a pod goes to another node, or is pending, and 2 for what cannot be used.

    \b
    berth replay cluster.rec --config new.yaml
    berth replay cluster.rec --plugin price.py:Price --emulated-version 1.37
    """
    configure_logs(quiet=True)
    try:
        gates_from(feature_gates)  # which warns
        gates = parse_gates(",".join(feature_gates))
        recording = read_recording(file)
        with progress_reports(of_plugins=True):
            found = replayed(recording.changes, config, version_asked().text, gates)
    except (RecordingError, ValueError, OSError) as problem:
        raise click.UsageError(str(problem)) from None
    if recording.cut_line:
        text = f"{file}: line {recording.cut_line} is cut off; replayed what comes before it"
        click.echo(text, err=True)
    others = [each for each in found if not each.is_same]
    if output == "json":
        click.echo(msgspec.json.encode({"pods": found}).decode())
    else:
        _show(found, others)
    sys.exit(DIFFERS if others else 0)


def _show(found: list[PodComparison], others: list[PodComparison]) -> None:
    if others:
        table = Table("pod", "recorded", "here", "why")
        for each in others:
            nodes = (each.recorded or "pending", each.here or "pending")
            table.add_row(*map(escape, (each.name, *nodes, each.reason)))
        Console().print(table)
    numbers = Counter("same" if each.is_same else "other" for each in found)
    click.echo(f"{len(found)} pods: {numbers['same']} as recorded, {numbers['other']} otherwise")
