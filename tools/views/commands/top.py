"""`berth top`: looks at a running scheduler and its cluster on a terminal."""

from __future__ import annotations

import sys

import anyio
import click

from berth.actors.configuration.file import file_or_default
from berth.actors.scheduling.decision.registry import RegistryError
from berth.config.feature_gates import FeatureGateError
from berth.config.load import ConfigError

from ...answers.debug.debug_client import DebugTarget, NoAnswerError, target_options
from ...answers.terminal.feature_gates import feature_gates_option, gates_from
from ...answers.terminal.signal_end import cancel_at_signal
from ..top.view_source import ViewSource


@click.command()
@click.option(
    "--page",
    "page",
    metavar="URL",
    help="The page of a `berth demo`, as it prints it, in place of --server.",
)
@click.option(
    "--config",
    "file",
    type=click.Path(),
    metavar="FILE",
    help="The scheduler's KubeSchedulerConfiguration, by which the stories are decided.",
)
@feature_gates_option
@target_options
def top(
    page: str | None,
    file: str | None,
    feature_gates: tuple[str, ...],
    target: DebugTarget,
) -> None:
    """Look at a cluster and its scheduler on this terminal, live.

    Shows the nodes, the queue, the story of each pod, and leadership with health. The keys are
    those of k9s: 1 to 4 for the views, Enter, Esc, / for a filter, ? for help and q to quit.

    \b
    berth top --leader
    berth top --server https://10.0.0.5:10259 --kubeconfig admin.kubeconfig
    berth top --page http://127.0.0.1:40123/ui/
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("expected a terminal; `berth why` and `berth debug` print lines")
    try:
        watched = _live(file, feature_gates, target) if page is None else _page(page)
    except (ConfigError, FeatureGateError, RegistryError) as problem:
        raise click.ClickException(str(problem)) from None
    if never_there := anyio.run(_look, watched):
        raise NoAnswerError(never_there)


async def _look(watched: ViewSource) -> str:
    """Shows a cluster until the user quits or a signal asks for the end. If there was never a
    connection, returns the reason, otherwise "".
    """
    from ..top.screen import look

    never_there = ""
    async with anyio.create_task_group() as group:
        await group.start(cancel_at_signal, group.cancel_scope)
        never_there = await look(watched)
        group.cancel_scope.cancel()
    return never_there


def _live(file: str | None, feature_gates: tuple[str, ...], target: DebugTarget) -> ViewSource:
    from ..top.live_cluster import Live

    target.check()
    gates = gates_from(feature_gates)
    configuration = file_or_default(file, gates)
    return Live(target, configuration, gates)


def _page(url: str) -> ViewSource:
    from ..top.feed_client import Page

    return Page(url)
