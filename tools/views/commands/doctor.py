"""`berth doctor`: finds parked pods of a running scheduler that would fit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import anyio
import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from berth.actors.cli.plugin_options import plugin_option
from berth.actors.client.kubeconfig import load
from berth.actors.configuration.file import file_or_default
from berth.actors.messages.queue import QueuedPodDump
from berth.actors.queue.forgotten import APART
from berth.actors.server.debug import QueuePage
from berth.actors.telemetry.klog import printable
from berth.actors.telemetry.logs import configure_logs
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import Duration

from ...answers.debug.debug_client import DebugTarget, NoAnswerError, target_options
from ...answers.doctor.parked_pods import (
    FORGOTTEN,
    Examination,
    ParkedPod,
    ParkedPods,
    always_parked,
    examine,
    gated,
    parked,
    registered_events,
)
from ...answers.explain.cluster_source import NO_ANSWER, from_cluster
from ...answers.explain.decider import Explainer
from ...answers.explain.slow_answer import progress_reports
from ...answers.terminal.feature_gates import feature_gates_option, gates_from
from ...answers.terminal.options import output_option

MOST_OTHERS = 20  # rows
MOST_TOLD = 300  # pods of which an answer for programs says why they do not fit


@click.command()
@click.argument("pod", metavar="[[NAMESPACE/]NAME]", required=False)
@target_options
@click.option(
    "--config", "file", type=click.Path(), metavar="FILE", help="The scheduler's configuration."
)
@plugin_option
@feature_gates_option
@click.option(
    "--apart",
    type=click.FloatRange(0.0),
    default=APART,
    show_default=True,
    help="Seconds between the two examinations.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.0),
    default=60.0,
    show_default=True,
    help="The longest time of an examination.",
)
@output_option()
@click.pass_context
def doctor(
    ctx: click.Context,
    pod: str | None,
    target: DebugTarget,
    file: str | None,
    feature_gates: tuple[str, ...],
    apart: float,
    seconds: float,
    output: str,
) -> None:
    """Find parked pods of a running scheduler that would fit.

    Decides twice about each parked pod, in the cluster as the API server shows it. A pod that fits
    both times on the same node, while the scheduler leaves it parked, is forgotten: a hint of a
    plugin that rejected it missed an event. Pods that a plugin keeps out of the queue are listed
    with its reasons. Writes nothing. The exit code is 1 if a pod is
    forgotten, and 2 if there is no answer.

    \b
    berth doctor --insecure-skip-tls-verify
    berth doctor shop/web-1 --leader --config scheduler.yaml -o json
    """
    configure_logs(quiet=True)
    key = pod if pod is None or "/" in pod else f"default/{pod}"
    try:
        gates = gates_from(feature_gates)
        configuration = file_or_default(file, gates)
        explainer = Explainer(configuration, gates)
        queue = _queue(target)
        before = parked(queue, key)
        first = _examination(explainer, target, before, seconds)
        if before:
            time.sleep(apart)
        told = MOST_TOLD if output == "json" else 0  # The table has no reasons.
        second = _examination(explainer, target, before, seconds, told)
        after = parked(_queue(target), key) if before else {}
        events = registered_events(profiles_of(configuration, explainer.handle).values())
    except (
        *NO_ANSWER,
        msgspec.DecodeError,
    ) as problem:
        raise NoAnswerError(str(problem)) from None
    pods = [*always_parked(before, first, after, second, events), *gated(queue, key)]
    if output == "json":
        click.echo(msgspec.json.encode(ParkedPods(pods)))
    else:
        show(pods, Console(highlight=False))
    ctx.exit(1 if any(pod.verdict == FORGOTTEN for pod in pods) else 0)


def _queue(target: DebugTarget) -> Sequence[QueuedPodDump]:
    (body,) = target.fetch(["/debug/queue"])
    return msgspec.json.decode(body, type=QueuePage).pods


def _examination(
    explainer: Explainer,
    target: DebugTarget,
    pods: dict[str, QueuedPodDump],
    seconds: float,
    told: int = 0,
) -> Examination:
    if not pods:
        return Examination({})
    connection = load(target.kubeconfig, target.context, home=True)
    objects = anyio.run(from_cluster, connection, explainer.kinds)
    with progress_reports(of_plugins=True):
        return examine(explainer, objects, pods, seconds, told)


def show(pods: Sequence[ParkedPod], console: Console) -> None:
    """Prints a row for each forgotten pod and for MOST_OTHERS others, and the events that should
    have woken the forgotten ones.
    """
    if not pods:
        console.print("No pod stayed parked, and no plugin keeps one out of the queue.")
        return
    table = Table(title="parked pods", title_justify="left")
    for column in ("pod", "parked for", "rejected by", "would it fit now?"):
        table.add_column(column, overflow="fold")
    others = [pod for pod in pods if pod.verdict != FORGOTTEN]
    for pod in [*(pod for pod in pods if pod.verdict == FORGOTTEN), *others[:MOST_OTHERS]]:
        waits = str(Duration(max(0, round(time.time() - pod.since)))) if pod.since else ""
        verdict = f"on {pod.node}: forgotten" if pod.verdict == FORGOTTEN else pod.verdict
        verdict += f": {pod.message}" if pod.message else ""
        cells = (pod.key, waits, ", ".join(pod.rejected_by), verdict)
        table.add_row(*(escape(printable(cell)) for cell in cells))
    console.print(table)
    for verdict, count in Counter(pod.verdict for pod in others[MOST_OTHERS:]).items():
        console.print(f"and {count} more: {verdict}")
    for pod in pods:
        if pod.events:
            text = f"{pod.key}: one of these events should have woken it: {', '.join(pod.events)}"
            console.print(escape(printable(text)))
        if pod.skipped:
            counts = ", ".join(f"{event} ({times})" for event, times in pod.skipped.items())
            text = f"{pod.key}: hints skipped since its last attempt: {counts}"
            console.print(escape(printable(text)))
