"""`berth shadow`: decides for each pod that another scheduler binds, and compares."""

from __future__ import annotations

from random import Random

import anyio
import click
import msgspec
from rich.console import Console

from berth.actors.cli.plugin_options import plugin_option
from berth.actors.client.credentials import KubeconfigError
from berth.actors.client.kubeconfig import load
from berth.actors.client.read_only import ReadOnlyClient
from berth.actors.client.rest import ApiError, Connection, ConnectionFailedError
from berth.actors.configuration.file import file_or_default
from berth.actors.runtime.clock import SystemClock
from berth.actors.scheduling.decision.registry import RegistryError
from berth.actors.telemetry.klog import printable
from berth.actors.telemetry.logs import configure_logs
from berth.config.feature_gates import FeatureGateError
from berth.config.load import ConfigError

from ...answers.shadow.shadow_report import Report, line_of
from ...answers.shadow.shadow_state import AGREES, Placement
from ...answers.shadow.shadow_watch import Watching
from ...answers.terminal.feature_gates import feature_gates_option, gates_from
from ...answers.terminal.options import context_option, output_option
from ...answers.terminal.signal_end import cancel_at_first_signal

PATIENCE_SECONDS = 10.0


@click.command()
@click.option("--kubeconfig", default="", metavar="FILE", help="The cluster, as with kubectl.")
@context_option
@click.option("--master", default="", metavar="URL", help="The cluster, by its API server's URL.")
@click.option(
    "--config",
    "file",
    metavar="FILE",
    help="The KubeSchedulerConfiguration of the scheduler in charge.",
)
@plugin_option
@feature_gates_option
@click.option(
    "--pods",
    "most",
    type=click.IntRange(1),
    metavar="N",
    help="End once N pods are judged; by default, on Ctrl-C.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="End after this time.",
)
@output_option("markdown")
@click.pass_context
def shadow(
    ctx: click.Context,
    kubeconfig: str,
    context: str,
    master: str,
    file: str | None,
    feature_gates: tuple[str, ...],
    most: int | None,
    seconds: float | None,
    output: str,
) -> None:
    """Decide beside the scheduler in charge, and compare.

    Follows the cluster, and judges each pod that is bound while it runs: whether berth, with the
    same configuration and in the state before, finds the same node best. It writes nothing, and
    needs only the rights to list and watch. Each placement that is not plainly the same is a line
    on standard error, and the report at the end is on standard output. The exit code is 0 if berth
    agrees about all pods, and 1 if it would have chosen another node for one.

    \b
    berth shadow --for 600
    berth shadow --kubeconfig ~/.kube/config --config scheduler.yaml --pods 1000 -o markdown
    """
    configure_logs(quiet=True)
    report, enough = Report(), anyio.Event()

    def tell(placement: Placement) -> None:
        report.add(placement)
        if report.judged == most:
            enough.set()
        if placement.agreement not in AGREES:
            click.echo(line_of(placement), err=True)

    try:
        gates = gates_from(feature_gates)
        configuration = file_or_default(file, gates)
        watching = Watching(configuration, gates, SystemClock(), Random(), tell)
        connection = load(kubeconfig or None, context, master, home=not master)
    except (ConfigError, FeatureGateError, RegistryError, KubeconfigError) as problem:
        raise click.ClickException(str(problem)) from None
    try:
        anyio.run(_run, watching, connection, enough, seconds, backend_options={"use_uvloop": True})
    except (ConnectionFailedError, ApiError) as problem:
        raise click.ClickException(str(problem)) from None
    skipped = watching.state.skipped
    if output == "json":
        click.echo(msgspec.json.encode(report.document(skipped)))
    elif output == "markdown":
        click.echo(report.markdown(skipped))
    else:
        report.show(skipped, Console())
    ctx.exit(1 if report.differs else 0)


async def _run(
    watching: Watching, connection: Connection, enough: anyio.Event, seconds: float | None
) -> None:
    """Watches until `enough` is set, the time has passed, or a signal arrives."""
    async with ReadOnlyClient(connection) as client:  # Informers would try for ever.
        await client.call("GET", "/version", dict)
    async with anyio.create_task_group() as group:
        await group.start(cancel_at_first_signal, group.cancel_scope)
        async with anyio.create_task_group() as starting:
            starting.start_soon(_tell_problems, watching)
            await group.start(watching.run, connection)
            starting.cancel_scope.cancel()
        click.echo(f"watching {connection.server}", err=True)
        with anyio.move_on_after(seconds) as limit:
            await enough.wait()
        if limit.cancelled_caught:
            await watching.finish()
        group.cancel_scope.cancel()


async def _tell_problems(watching: Watching) -> None:
    """Reports at intervals why a cluster is not listed yet."""
    while True:
        await anyio.sleep(PATIENCE_SECONDS)
        for problem in watching.problems() or ["still listing the objects of the cluster"]:
            click.echo(printable(problem), err=True)
