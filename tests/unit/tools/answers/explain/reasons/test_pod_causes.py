"""The causes of a pod: those of its nodes counted, and what that costs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.answers.explain.cause import Cause
from berth.tools.answers.explain.cluster_source import ClusterQuestion
from berth.tools.answers.explain.decider import Explainer, decided
from berth.tools.answers.explain.reasons.cause_details import OF_A_NODE
from berth.tools.answers.explain.reasons.pod_causes import PodCauses, message_causes, summary
from tests.kit.call_counts import calls_of
from tests.kit.daemon import node, pod
from tests.kit.documents import Document
from tests.unit.tools.answers.explain.asks.test_ask_by_nodes import CASES, HOST

ZONE = "topology.kubernetes.io/zone"


def causes_among(nodes: int, wanted: Document, running: Document, cpu: str) -> PodCauses:
    """Returns the causes of a pod if each node has a pod of app=web; every tenth has a taint."""

    def labelled(name: str, app: str, cpu: str, **spec: Any) -> Document:
        document = pod(name, cpu, **spec)
        return {**document, "metadata": {**document["metadata"], "labels": {"app": app}}}

    objects = []
    for number in range(nodes):
        document = node(name := f"node-{number}")
        if not number % 10:
            taints = [{"key": "zone", "value": f"{number % 20}", "effect": "NoSchedule"}]
            document = {**document, "spec": {**document.get("spec", {}), "taints": taints}}
        share = labelled(f"{name}-a", "web", f"{1 + number % 3}", nodeName=name, **running)
        objects += [document, share]
    configuration = from_mapping(None)
    question = ClusterQuestion(labelled("new", "new", cpu, **wanted), objects, configuration)
    attempt = Explainer(configuration, DEFAULTS).attempt(question)
    return PodCauses(attempt, decided(attempt).decision)


@pytest.mark.parametrize("case", CASES)
def test_the_causes_of_a_pod_are_those_of_its_nodes_counted(case: str) -> None:
    wanted, running, _ = CASES[case]
    causes = causes_among(40, wanted, running, "8" if case == "cpu" else "1")

    def counted(every: list[Cause]) -> set[Cause]:
        return {replace(cause, **OF_A_NODE) for cause in every}

    each = [replace(cause, nodes=1) for of in causes.by_node.values() for cause in of]
    assert counted(causes.of_nodes) == counted(summary(each))
    assert len(causes.by_node) == 40
    assert causes.codes["UntoleratedTaint"] == 4


def test_the_closest_node_stands_for_those_that_lack_a_resource() -> None:
    causes = causes_among(40, {}, {}, "8").of_nodes
    (cpu,) = [cause for cause in causes if cause.code == "InsufficientResource"]
    assert (cpu.nodes, cpu.free, cpu.shortage) == (36, "3", "5")
    assert [cause.taint and cause.taint.value for cause in causes][1:] == ["0", "10"]


def test_the_constraint_that_is_exceeded_is_told_apart_from_others() -> None:
    """Each host has a pod; there is one zone, so its skew does not matter."""

    def constraint(key: str) -> Document:
        selector = {"matchLabels": {"app": "web"}}
        parts = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
        return {**parts, "labelSelector": selector}

    zoned = [
        {**node(name), "metadata": {"name": name, "labels": {ZONE: "a", HOST: name}}}
        for name in ("full", "empty")
    ]
    web = {"app": "web"}
    runs = pod("runs", "1", nodeName="full")
    runs = {**runs, "metadata": {**runs["metadata"], "labels": web}}
    asked = pod("new", "1", topologySpreadConstraints=[constraint(ZONE), constraint(HOST)])
    asked = {**asked, "metadata": {**asked["metadata"], "labels": web}}
    configuration = from_mapping(None)
    question = ClusterQuestion(asked, [*zoned, runs], configuration)
    attempt = Explainer(configuration, DEFAULTS).attempt(question)
    causes = PodCauses(attempt, decided(attempt).decision)
    (cause,) = causes.of_nodes
    assert (cause.code, cause.nodes) == ("TopologySpreadViolated", 1)
    assert [of.topology_key for of in cause.constraints] == [HOST]


def test_a_node_that_lacks_cpu_costs_few_calls() -> None:
    def calls(nodes: int) -> int:
        causes = causes_among(nodes, {}, {}, "8")
        return calls_of(lambda: causes.of_pod())

    assert (calls(300) - calls(100)) / 200 < 10


def test_the_message_of_failed_scheduling_has_causes_with_their_nodes() -> None:
    reasons = "1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint(s), 1 evicted, alas."
    after = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    causes = message_causes(f"0/3 nodes are available: {reasons}{after}")
    assert [(cause.code, cause.nodes, cause.resource) for cause in causes] == [
        ("InsufficientResource", 1, "nvidia.com/gpu"),
        ("UntoleratedTaint", 2, ""),
        ("PluginRejected", 1, ""),
        ("PreemptionNotHelpful", 3, ""),
    ]
