"""Measures what the examples of plugins cost: `python -m tests.budget.example_plugins [NAME...]`.

Prints the microseconds of processor time that a decision takes in a cluster of 5,000 nodes, all of
which are looked at, without and with each plugin; those of the plugin's own code; and what the
interface costs on top: for a plugin in the scalar form by node and call, otherwise by decision.
Medians of decisions, each of which has one more pod. docs/plugin-examples.md has the figures; it is
no test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from statistics import median
from time import thread_time
from typing import Any

import click
import msgspec

from berth.actors.scheduling.decision.outcome import Choice
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.kinds import WatchedKind
from berth.actors.wiring.profiles import profiles_of
from berth.config.feature_gates import DEFAULTS
from berth.plugin import (
    CycleState,
    NodeFilterPlugin,
    NodeScorePlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from berth.testing import FakeHandle, node, pod, pod_info
from berth.tools.answers.explain.document_cluster import DocumentCluster
from berth.tools.bench.programs import figures_option, no_collector, nodes_option, show, table
from berth.tools.cluster.negotiation.plugin import PodSchedulingContexts
from berth.tools.docs.examples.approval import Approval, ApprovalAnswer, ApprovalQuestion
from berth.tools.docs.examples.coscheduling import Coscheduling
from berth.tools.docs.examples.elastic_quota import ElasticQuotas
from berth.tools.docs.examples.gpu_packing import GpuPacking
from berth.tools.docs.examples.load_aware import LoadAware
from berth.tools.docs.examples.network_cost import NetworkCost
from berth.tools.docs.examples.node_topology import NodeResourceTopologyMatch
from berth.tools.testing.configuration import configuration_of, with_plugins

Document = dict[str, Any]
GPU = "nvidia.com/gpu"
WARMING = 5
EVERY_NODE = {"profiles": [{"percentageOfNodesToScore": 100}]}


class Answered(Approval):
    """Asks a service that has answered already."""

    async def answer(self, question: ApprovalQuestion) -> ApprovalAnswer:
        return ApprovalAnswer(allowed=True)

    def ask_now(self) -> None:
        asyncio.run(self._ask(ApprovalQuestion("default", "red")))


class PluginFigures(msgspec.Struct, frozen=True):
    """Microseconds: of a decision without and with the plugin, of its own code in a decision, and
    what is on top of both: for each call about a node (`per_node`), or else for the decision.
    """

    plugin: str
    without: float
    with_plugin: float
    own: float
    on_top: float | None
    per_node: float | None


def custom(api: str, kind: str, name: str, **fields: Any) -> Document:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **fields}


def of_namespace(document: Document) -> Document:
    document["metadata"]["namespace"] = "default"
    return document


def gpu_nodes(count: int) -> Iterator[Document]:
    for number in range(count):
        labels = {
            f"topology.kubernetes.io/{key}": f"{key}{number % 3}" for key in ("zone", "region")
        }
        made = node(f"n{number}", cpu=32, labels=labels)
        made["status"]["allocatable"][GPU] = "8"
        yield made


def topologies(count: int) -> Iterator[Document]:
    amounts = [
        {"name": name, "capacity": most, "allocatable": most, "available": most}
        for name, most in (("cpu", "16"), ("memory", "64Gi"), (GPU, "4"))
    ]
    zones = [{"name": f"node-{each}", "type": "Node", "resources": amounts} for each in (0, 1)]
    policies = ["SingleNUMANodeContainerLevel"]
    for number in range(count):
        made = custom("topology.node.k8s.io/v1alpha2", "NodeResourceTopology", f"n{number}")
        yield made | {"zones": zones, "topologyPolicies": policies}


def metrics(count: int) -> Iterator[Document]:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    for number in range(count):
        usage = {"cpu": f"{number % 32}", "memory": "1Gi"}
        made = custom("metrics.k8s.io/v1beta1", "NodeMetrics", f"n{number}")
        yield made | {"timestamp": now, "usage": usage}


def network(_: int) -> Iterator[Document]:
    costs = [{"destination": f"zone{number}", "networkCost": number} for number in range(3)]
    origins = [{"origin": f"zone{number}", "costList": costs} for number in range(3)]
    ways = [{"topologyKey": "topology.kubernetes.io/zone", "originList": origins}]
    weights = [{"name": "UserDefined", "topologyList": ways}]
    api = "networktopology.diktyo.x-k8s.io/v1alpha1"
    yield of_namespace(custom(api, "NetworkTopology", "net", spec={"weights": weights}))
    yield pod("peer", labels={"appgroup.diktyo.x-k8s.io": "shop"}, node="n0")


def quota(_: int) -> Iterator[Document]:
    spec = {"min": {"cpu": "100"}, "max": {"cpu": "100000"}}
    api = "scheduling.x-k8s.io/v1alpha1"
    yield of_namespace(custom(api, "ElasticQuota", "quota", spec=spec))


def group(_: int) -> Iterator[Document]:
    api = "scheduling.x-k8s.io/v1alpha1"
    yield of_namespace(custom(api, "PodGroup", "g", spec={"minMember": 1}))


def nothing(_: int) -> Iterator[Document]:
    return iter(())


EXAMPLES: dict[str, tuple[type[Plugin], Callable[[int], Iterable[Document]], Document]] = {
    "Coscheduling": (Coscheduling, group, {}),
    "LoadAware": (LoadAware, metrics, {}),
    "GpuPacking": (GpuPacking, nothing, {}),
    "NetworkCost": (NetworkCost, network, {}),
    "ElasticQuotas": (ElasticQuotas, quota, {}),
    "NodeResourceTopologyMatch": (NodeResourceTopologyMatch, topologies, {}),
    "Approval": (Answered, nothing, {"url": "http://127.0.0.1:1/"}),
    "PodSchedulingContext": (PodSchedulingContexts, nothing, {}),
}


def subject(number: int) -> Document:
    labels = {
        "scheduling.x-k8s.io/pod-group": "g",
        "appgroup.diktyo.x-k8s.io": "shop",
        "example.com/team": "red",
    }
    made = pod(f"p{number}", labels=labels)
    amounts = {"cpu": "1", "memory": "1Gi", GPU: "1"}
    made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    made["metadata"]["uid"] = f"uid-{number}"
    return made


class Trial:
    """A cluster in which one pod after the other is decided, and put on its node."""

    def __init__(self, name: str | None, others: Sequence[Document]) -> None:
        plugins = [] if name is None else [EXAMPLES[name][0]]
        args = {} if name is None else {plugins[0].name: EXAMPLES[name][2]}
        handle = FakeHandle(*map(subject, range(200)))
        configuration = with_plugins(configuration_of(EVERY_NODE, DEFAULTS), plugins, args)
        profiles = profiles_of(configuration, handle, others=plugins)
        self.profile: Profile = profiles["default-scheduler"]
        found = [each for each in self.profile.plugins if type(each) in plugins]
        self.plugin = found[0] if found else None
        kinds = [kind for each in found for kind in each.lookups if isinstance(kind, WatchedKind)]
        self.cluster = DocumentCluster({"default-scheduler"}, kinds)
        for document in others:
            self.cluster.put(document)
        if isinstance(self.plugin, Answered):
            self.plugin.ask_now()
        self.scheduler = Scheduler(Random(1), 100)
        self.number = 0

    def decide(self) -> float:
        """Returns the seconds of the next decision."""
        document = subject(self.number)
        self.number += 1
        info, snapshot = pod_info(document), self.cluster.snapshot()
        start = thread_time()
        outcome = self.scheduler.schedule(self.profile, info, snapshot)
        seconds = thread_time() - start
        assert isinstance(outcome, Choice), outcome
        document["spec"]["nodeName"] = outcome.node
        self.cluster.put(document)
        return seconds

    def decisions(self, times: int) -> list[tuple[float, float, int]]:
        """Returns the seconds of decisions, each with those of the plugin's own code before it, and
        with its calls about nodes.
        """
        found = []
        with no_collector():
            for _ in range(times + WARMING):
                own, calls = self._own()
                found.append((self.decide(), own, calls))
        return found[WARMING:]

    def _own(self) -> tuple[float, int]:
        plugin, info = self.plugin, pod_info(subject(self.number))
        snapshot, state, calls = self.cluster.snapshot(), CycleState(), 0
        view = snapshot.all()
        nodes = [each for each in map(view.info, range(view.size)) if each is not None]
        start = thread_time()
        if isinstance(plugin, PreFilterPlugin):
            plugin.pre_filter(state, info, snapshot)
        if isinstance(plugin, NodeFilterPlugin):
            calls += len(nodes)
            for each in nodes:
                plugin.filter_node(state, info, each)
        if isinstance(plugin, PreScorePlugin):
            plugin.pre_score(state, info, view)
        if isinstance(plugin, NodeScorePlugin):
            calls += len(nodes)
            scores = [plugin.score_node(state, info, each) for each in nodes]
            plugin.normalize_scores(state, info, scores)
        elif isinstance(plugin, ScorePlugin):
            plugin.score(state, info, view)
        return thread_time() - start, calls


def measure(name: str, nodes: int, times: int) -> PluginFigures:
    others = [*gpu_nodes(nodes), *EXAMPLES[name][1](nodes)]
    without = median(took for took, _, _ in Trial(None, others).decisions(times)) * 1e6
    decisions = Trial(name, others).decisions(times)
    own = median(own for _, own, _ in decisions) * 1e6
    on_top = median(took - own for took, own, _ in decisions) * 1e6 - without
    with_plugin, calls = median(took for took, _, _ in decisions) * 1e6, decisions[0][2]
    over = (None, on_top / calls) if calls else (max(on_top, 0.0), None)
    return PluginFigures(name, without, with_plugin, own, *over)


@click.command()
@click.option("--times", default=20, show_default=True, help="Decisions with each plugin.")
@nodes_option
@figures_option
@click.argument("names", nargs=-1)
def main(times: int, nodes: int, output: str, names: Sequence[str]) -> None:
    """Measure what the examples of plugins cost."""
    measured = [measure(name, nodes, times) for name in names or EXAMPLES]
    rows = map(msgspec.structs.astuple, measured)
    columns = ("microseconds", "without", "with", "own code", "on top", "on top, a node")
    show(output, measured, table(columns, rows, "{:,.2f}"))


if __name__ == "__main__":
    main()
