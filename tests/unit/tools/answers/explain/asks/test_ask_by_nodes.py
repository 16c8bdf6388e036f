"""What the first sentence about a pending pod costs: calls in proportion to the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.answers.explain.asks.ask import Ask
from berth.tools.answers.explain.asks.node_asks import asks_of
from berth.tools.answers.explain.cluster_source import ClusterQuestion
from berth.tools.answers.explain.decider import Explainer, decided
from tests.kit.call_counts import calls_of
from tests.kit.daemon import node, pod
from tests.kit.documents import Document

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
PORTS = [{"name": "c", "image": "i", "ports": [{"hostPort": 80, "containerPort": 80}]}]


def affinity(kind: str, app: str, key: str = HOST) -> Document:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {kind: {REQUIRED: [term]}}}


CASES: dict[str, tuple[Document, Document, str]] = {  # the pod, those that run, what nodes lack
    "cpu": ({}, {}, "lack cpu (8 requested, the largest node has 4)"),
    "affinity to nobody": (
        affinity("podAffinity", "db"),
        {},
        "have no pod with app=db: there is none in the namespace default",
    ),
    "affinity without a selector": (
        {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": HOST}]}}},
        {},
        "have no pod that its affinity selects: a term without labelSelector selects none",
    ),
    "anti-affinity": (
        affinity("podAntiAffinity", "web"),
        {},
        "are kept free by the pod's anti-affinity to app=web in the same kubernetes.io/hostname",
    ),
    "another pod's anti-affinity": (
        {},
        affinity("podAntiAffinity", "new"),
        "are kept free by another pod's anti-affinity",
    ),
    "a host port": (
        {"containers": PORTS},
        {"containers": PORTS},
        "have the host port 80/TCP in use",
    ),
    "a label": ({"nodeSelector": {"disk": "ssd"}}, {}, "do not have disk=ssd (no node has"),
}


def asked(nodes: int, wanted: Document, running: Document, cpu: str) -> tuple[list[Ask], int]:
    """Returns what nodes lack for a pod if each has two pods, and the number of calls."""

    def labelled(name: str, app: str, cpu: str, **spec: Any) -> Document:
        document = pod(name, cpu, **spec)
        return {**document, "metadata": {**document["metadata"], "labels": {"app": app}}}

    names = [f"node-{number}" for number in range(nodes)]
    objects = [node(name) for name in names]
    for name in names:
        objects.append(labelled(f"{name}-a", "web", "1", nodeName=name, **running))
        objects.append(labelled(f"{name}-b", "idle", "1", nodeName=name))
    configuration = from_mapping(None)
    question = ClusterQuestion(labelled("new", "new", cpu, **wanted), objects, configuration)
    attempt = Explainer(configuration, DEFAULTS).attempt(question)
    assert len(attempt.snapshot) == nodes  # It is made now, and not counted.
    asks: list[Ask] = []

    def ask() -> None:
        decision = decided(attempt).decision
        asks.extend(asks_of(attempt.info, attempt.snapshot, decision))

    return asks, calls_of(ask)


@pytest.mark.parametrize("case", CASES)
def test_twice_the_nodes_cost_at_most_twice_the_calls(case: str) -> None:
    wanted, running, sentence = CASES[case]
    cpu = "8" if case == "cpu" else "1"
    few, calls = asked(100, wanted, running, cpu)
    many, more = asked(200, wanted, running, cpu)
    assert [len(ask.nodes) for ask in (*few, *many)] == [100, 200]
    assert many[0].sentence.startswith(sentence), many[0].sentence
    assert more <= 2.1 * calls


def test_a_node_that_lacks_cpu_costs_few_calls() -> None:
    few, many = (asked(nodes, {}, {}, "8")[1] for nodes in (100, 300))
    assert (many - few) / 200 < 10, (few, many)
