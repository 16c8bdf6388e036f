"""Measures the cost of ten times the nodes: `python -m berth.tools.bench.scale [-o json]`.

Compares a small and a large cluster (`--nodes`, `--more-nodes`) for pods of a few kinds: the
decision by itself, and the whole pipeline from queue to binding, as a workload in process. Both are
microseconds of CPU time, which other programs on the machine disturb less than wall time.
kube-scheduler's sampling looks at more nodes in a large cluster: 10 % of 5,000, but 5 % of 50,000,
so it scores five times as many.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import click
import msgspec

from berth.actors.telemetry.logs import configure_logs

from . import decision
from .decision import HOST, SPECS, ZONE, ZONES, container
from .measure import Result
from .programs import figures_option, nodes_option, show, table
from .session import NotRunError, Settings
from .session import measure as run_workload
from .workload import load, plan, select

KINDS = ("basic", "spread", "pod anti-affinity")
STALL_SECONDS = 300.0
MOST_TIMES = 2.0


class Cost(msgspec.Struct, frozen=True):
    """Microseconds per pod.

    `pipeline` is CPU time of scheduler, store and driver; `wall` is wall time.
    """

    pods: str
    nodes: int
    decision_median: float
    decision_mean: float
    pipeline: float
    wall: float


class Growth(msgspec.Struct, frozen=True):
    """The cost in the large cluster over the cost in the small one."""

    pods: str
    decision_median: float
    decision_mean: float
    pipeline: float


class Scale(msgspec.Struct, frozen=True):
    costs: list[Cost]
    growth: list[Growth]


def workload(folder: Path, kind: str, nodes: int, pods: int) -> Path:
    """Writes a scheduler_perf file with one workload: initial pods, then the measured pods."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "pod-", "labels": {"color": "blue"}},
        "spec": {"containers": [container("100m")], **SPECS[kind]},
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-{{.Index}}"},
        "status": {"capacity": {"cpu": "4", "memory": "32Gi", "pods": "110"}},
    }
    zones = {"labelKey": ZONE, "labelValues": [f"z{number}" for number in range(ZONES)]}
    create_nodes = {
        "opcode": "createNodes",
        "count": nodes,
        "nodeTemplatePath": "node.yaml",
        "labelNodePrepareStrategy": zones,
    }
    steps: list[dict[str, Any]] = [
        {**create_nodes, "uniqueNodeLabelStrategy": {"labelKey": HOST}},
        {"opcode": "createPods", "count": pods // 4, "namespace": "default"},
        {"opcode": "createPods", "count": pods, "namespace": "default", "collectMetrics": True},
    ]
    case = {"name": kind, "defaultPodTemplatePath": "pod.yaml", "workloadTemplate": steps}
    for name, document in (
        ("pod", pod),
        ("node", node),
        ("file", [{**case, "workloads": [{"name": f"{nodes} nodes"}]}]),
    ):
        (folder / f"{name}.yaml").write_text(json.dumps(document))  # JSON is YAML
    return folder / "file.yaml"


def through_the_pipeline(kind: str, nodes: int, pods: int) -> Result:
    """Runs a workload in process. Raises NotRunError."""
    with tempfile.TemporaryDirectory() as folder:
        file = workload(Path(folder), kind, nodes, pods)
        (chosen,) = select(load(file), (), ())
        settings = Settings("inproc", scheduler=True, stall=STALL_SECONDS, profile=False)
        (result,) = anyio.run(
            run_workload, file, plan(file, *chosen), settings, _no_report, click.echo
        )
    return result


def _no_report(step: str, done: int, total: int) -> None:
    """Discards progress reports."""


def cost(kind: str, nodes: int, pods: int) -> Cost:
    alone = decision.measure(kind, pods, nodes)
    result = through_the_pipeline(kind, nodes, pods)
    assert result.cpu_seconds is not None
    pipeline, wall = (
        seconds / result.pods * 1e6 for seconds in (result.cpu_seconds, result.seconds)
    )
    return Cost(kind, nodes, alone.median, alone.mean, pipeline, wall)


def measure(kinds: Sequence[str], small: int, large: int, pods: int) -> Scale:
    costs, growth = [], []
    for kind in kinds:
        less, more = (cost(kind, nodes, pods) for nodes in (small, large))
        costs += [less, more]
        growth.append(
            Growth(
                kind,
                more.decision_median / less.decision_median,
                more.decision_mean / less.decision_mean,
                more.pipeline / less.pipeline,
            )
        )
    return Scale(costs, growth)


@click.command()
@nodes_option
@click.option("--more-nodes", default=50_000, type=click.IntRange(1), show_default=True)
@click.option(
    "-n",
    "--pods",
    default=2_000,
    type=click.IntRange(4),
    show_default=True,
    help="Number of pods of each kind.",
)
@figures_option
@click.argument("kinds", nargs=-1, type=click.Choice(list(SPECS)))
def main(nodes: int, more_nodes: int, pods: int, output: str, kinds: Sequence[str]) -> None:
    """Compare the cost of pods in two clusters, for some kinds of pods or the KINDS named.

    The exit code is 1 if a pod costs more than twice as much in the large cluster.
    """
    configure_logs(quiet=True)
    try:
        scale = measure(kinds or KINDS, nodes, more_nodes, pods)
    except NotRunError as problem:
        raise click.ClickException(str(problem)) from None
    costs = map(msgspec.structs.astuple, scale.costs)
    growth = [msgspec.structs.astuple(ratios) for ratios in scale.growth]
    figures = ("decision median", "decision mean", "pipeline cpu")
    show(
        output,
        scale,
        table(("microseconds per pod", "nodes", *figures, "pipeline wall"), costs, "{:,.0f}"),
        table(("ratio", *figures), growth, "{:.2f}"),
    )
    if any(max(ratios) > MOST_TIMES for _, *ratios in growth):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
