"""Measures decisions: `python -m berth.tools.bench.decision [-o json]`.

Each figure is the microseconds that the scheduler takes to decide on one pod in a cluster of 5,000
nodes (`--nodes`), without the time of the cache. Pods of one template arrive one after another and
are assumed on their nodes, as when a Deployment is scaled up. The first pods, which fill the
memories, are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from time import perf_counter
from typing import Any

import click
import msgspec
import numpy as np

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    Assume,
    NodeAdded,
    Nominate,
    ObjectPut,
)
from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Unfit
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.core import Namespace, Node, Pod
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.types import KubeSchedulerConfiguration

from ..answers.explain.plugin_handle import ReadOnlyHandle
from . import programs
from .programs import figures_option, nodes_option, show, table

NODES = 5_000
ZONES = 3
WARMING = 10
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SELECTOR = {"matchLabels": {"color": "blue"}}


def _near(topology: str, **more: Any) -> dict[str, Any]:
    return {"topologyKey": topology, "labelSelector": SELECTOR, **more}


def _spread(action: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": action,
        "labelSelector": SELECTOR,
    }
    return {"topologySpreadConstraints": [constraint]}


def _affinity(kind: str, term: dict[str, Any], *, preferred: bool = False) -> dict[str, Any]:
    if preferred:
        return {"affinity": {kind: {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}}
    return {"affinity": {kind: {REQUIRED: [term]}}}


def _matching(requirement: str, key: str, *values: str) -> dict[str, Any]:
    term = {requirement: [{"key": key, "operator": "In", "values": values}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


EVERYWHERE = {"namespaceSelector": {"matchLabels": {"team": "devops"}}}
SPECS: Mapping[str, dict[str, Any]] = {
    "basic": {},
    "node affinity": _matching("matchExpressions", ZONE, "z0", "z1"),
    "one node by name": {},
    "spread": _spread("DoNotSchedule"),
    "preferred spread": _spread("ScheduleAnyway"),
    "pod affinity": _affinity("podAffinity", _near(ZONE)),
    "pod anti-affinity": _affinity("podAntiAffinity", _near(HOST)),
    "preferred pod affinity": _affinity("podAffinity", _near(HOST), preferred=True),
    "preferred pod anti-affinity": _affinity("podAntiAffinity", _near(HOST), preferred=True),
    "pod affinity, namespaces": _affinity("podAffinity", _near(ZONE, **EVERYWHERE)),
    "pod anti-affinity, namespaces": _affinity("podAntiAffinity", _near(HOST, **EVERYWHERE)),
    "unfit": {},
    "preemption": {"priority": 10},
}
MILLICORES = {"unfit": 9_000, "preemption": 3_000}


class DecisionFigures(msgspec.Struct, frozen=True):
    """The microseconds of a decision."""

    pods: str
    median: float
    p99: float
    mean: float


def make_node(number: int) -> Node:
    labels = {HOST: f"n{number}", ZONE: f"z{number % ZONES}"}
    return programs.make_node(number, labels, cpu="4", memory="32Gi", pods="110")


def make_pod(number: int, spec: Mapping[str, Any], millicores: int = 100) -> Pod:
    pod_spec = {"containers": [container(f"{millicores}m")], **spec}
    return programs.make_pod("default", number, {"color": "blue"}, **pod_spec)


def container(cpu: str) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "500Mi"}
    return {"name": "c", "image": "pause", "resources": {"requests": requests}}


def make_cache(nodes: int) -> CacheState:
    cache = CacheState()
    metadata = ObjectMeta(name="default", labels={"team": "devops"})
    cache.handle(ObjectPut(Namespace(metadata=metadata)))
    for number in range(nodes):
        cache.handle(NodeAdded(make_node(number)))
    return cache


def pending(name: str, times: int) -> Sequence[Pod]:
    millicores = MILLICORES.get(name, 100)
    if name == "one node by name":
        named = (_matching("matchFields", "metadata.name", f"n{number}") for number in range(times))
        return [make_pod(number, spec, millicores) for number, spec in enumerate(named)]
    return [make_pod(number, SPECS[name], millicores) for number in range(times)]


def measure(name: str, times: int, nodes: int = NODES) -> DecisionFigures:
    cache, scheduler = make_cache(nodes), Scheduler(Random(1))
    profile = profiles_of(KubeSchedulerConfiguration(), ReadOnlyHandle())["default-scheduler"]
    if name == "preemption":
        for number in range(4 * nodes):
            pod = make_pod(-1 - number, {"nodeName": f"n{number % nodes}"}, 900)
            cache.handle(AssignedPodAdded(pod))
    durations: list[float] = []
    with programs.no_collector():
        for pod in pending(name, times + WARMING):
            info, snapshot = PodInfo(pod), cache.snapshot()
            start = perf_counter()
            outcome = scheduler.schedule(profile, info, snapshot)
            durations.append(perf_counter() - start)
            match outcome:
                case Choice(node):
                    cache.handle(Assume(info, node))
                case Unfit(nomination=nomination):
                    if nomination is not None:
                        cache.handle(Nominate(info, nomination.node))
                case DecisionFailure(status):
                    raise AssertionError(status.message)
    figures = np.array(durations[WARMING:]) * 1e6
    return DecisionFigures(
        name, float(np.median(figures)), float(np.percentile(figures, 99)), float(figures.mean())
    )


@click.command()
@click.option(
    "-n",
    "--times",
    default=1_000,
    show_default=True,
    help="Number of decisions for each kind of pod.",
)
@nodes_option
@figures_option
@click.argument("names", nargs=-1)
def main(times: int, nodes: int, output: str, names: Sequence[str]) -> None:
    """Measure decisions on pods of each kind, or of the kinds named."""
    measured = [measure(name, times, nodes) for name in names or SPECS]
    rows = map(msgspec.structs.astuple, measured)
    columns = ("microseconds per decision", "median", "p99", "mean")
    show(output, measured, table(columns, rows, "{:,.0f}"))


if __name__ == "__main__":
    main()
