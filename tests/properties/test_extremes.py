"""Amounts of any size in whole decisions: sums saturate at the largest int64, and nothing wraps or
raises.

The model adds and compares Python integers, and saturates once at the end.
"""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    Assume,
    NodeAdded,
    NodeUpdated,
    TakeDump,
)
from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.tools.answers.explain.decision import Decision, decide
from tests.kit import documents, structs
from tests.kit.examples import examples
from tests.kit.handle import Nowhere
from tests.kit.profiles import profile_of

MOST = (1 << 63) - 1
GPU, TOY = "example.com/gpu", "example.com/toy"
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU, TOY)
DEFAULTS = {"cpu": 100, "memory": 200 << 20}
WEIGHTS = {"cpu": 1, "memory": 3, "ephemeral-storage": 100, GPU: 7}
AMOUNTS = (
    "0",
    "1",
    "3",
    "100m",
    str(1 << 62),
    str(MOST),
    str(MOST - 1),
    "5E",
    "9.3E",
    "92233720368547758",
    "4Ei",
    "1e30",
)
STRATEGIES: list[dict[str, Any]] = [
    {"type": "LeastAllocated"},
    {"type": "MostAllocated"},
    {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {
            "shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 1}]
        },
    },
]


def scored_by(strategy: dict[str, Any]) -> Profile:
    resources = [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()]
    balanced = [{"name": name} for name in (*WEIGHTS, TOY)]
    fit = {"scoringStrategy": {**strategy, "resources": resources}}
    balance = {"resources": balanced}
    return profile_of(args={"NodeResourcesFit": fit, "NodeResourcesBalancedAllocation": balance})


PROFILES = [scored_by(strategy) for strategy in STRATEGIES]

AMOUNT = st.sampled_from(AMOUNTS) | st.integers(0, 1 << 64).map(str)
LIST = st.dictionaries(st.sampled_from(RESOURCES), AMOUNT)
POD = st.lists(LIST, min_size=1, max_size=3)


def make_node(name: str, allocatable: dict[str, str], pods: str = "5") -> Node:
    status = {"allocatable": {"pods": pods, **allocatable}}
    return structs.node(name, status=status)


def make_pod(
    number: int, containers: list[dict[str, str]], node: str = "", priority: int = 0
) -> Pod:
    listed = [documents.container(f"c{i}", requests=each) for i, each in enumerate(containers)]
    fields: Any = {"namespace": "default", "uid": f"u{number}", "containers": listed}
    return structs.pod(f"p{number}", node=node, priority=priority, **fields)


# ---------------------------------------------------------------------------------------- the model


def exact(text: str, resource: str) -> Fraction:
    """Returns the exact amount in the resource's unit."""
    units = {"m": Fraction(1, 1000), "E": Fraction(10**18), "Ei": Fraction(1 << 60)}
    number = next(
        (Fraction(text[: -len(u)]) * times for u, times in units.items() if text.endswith(u)), None
    )
    return (Fraction(text) if number is None else number) * (1000 if resource == "cpu" else 1)


def kept(amount: Fraction | int) -> int:
    return min(math.ceil(amount), MOST)


class ModelNode:
    def __init__(self, node: Node) -> None:
        self.has = {
            name: kept(exact(str(text), name)) for name, text in node.status.allocatable.items()
        }
        self.pods: list[list[dict[str, str]]] = []

    def requested(self, resource: str) -> int:
        return kept(sum(asks(pod, resource) for pod in self.pods))

    def nonzero(self, resource: str) -> int:
        return kept(sum(asks(pod, resource, DEFAULTS[resource]) for pod in self.pods))


def asks(containers: list[dict[str, str]], resource: str, missing: int = 0) -> int:
    return kept(
        sum(
            exact(c[resource], resource) if resource in c else Fraction(missing) for c in containers
        )
    )


def reasons(node: ModelNode, containers: list[dict[str, str]]) -> set[str]:
    short = {
        f"Insufficient {name}"
        for name in RESOURCES
        if (need := asks(containers, name)) > 0
        and node.requested(name) + need > node.has.get(name, 0)
    }
    return short | ({"Too many pods"} if len(node.pods) >= node.has["pods"] else set())


def fit_score(node: ModelNode, containers: list[dict[str, str]], kind: str) -> int:
    total = divisor = 0
    for name, weight in WEIGHTS.items():
        has = node.has.get(name, 0)
        if name in DEFAULTS:
            used, need = node.nonzero(name), asks(containers, name, DEFAULTS[name])
        else:
            used, need = node.requested(name), asks(containers, name)
        if not has or (name == GPU and not need):
            continue
        percent = min(used + need, has) * 100 // has
        match kind:
            case "LeastAllocated":
                score = (has - min(used + need, has)) * 100 // has
            case "MostAllocated":
                score = percent
            case _:
                score = 100 - 90 * percent // 100
        if kind != "RequestedToCapacityRatio" or score > 0:
            total += score * weight
            divisor += weight
    if not divisor:
        return 0
    return (
        math.floor(total / divisor + 0.5)
        if kind == "RequestedToCapacityRatio"
        else total // divisor
    )


def balance(node: ModelNode, containers: list[dict[str, str]], *, with_pod: bool) -> int:
    fractions = []
    for name in (*WEIGHTS, TOY):
        need, has = asks(containers, name), node.has.get(name, 0)
        if has and (need or name not in (GPU, TOY)):
            used = node.requested(name) + (need if with_pod else 0)
            fractions.append(min(float(used) / float(has), 1.0))
    if len(fractions) < 2:
        return 100
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((f - mean) ** 2 for f in fractions) / len(fractions))
    return int((1 - deviation) * 100)


# ---------------------------------------------------------------------------------------- decisions


def check(
    strategy_index: int,
    snapshot: Snapshot,
    model: dict[str, ModelNode],
    containers: list[dict[str, str]],
) -> None:
    """Compares a whole decision with the model's."""
    kind = STRATEGIES[strategy_index]["type"]
    decision = decide(PROFILES[strategy_index], PodInfo(make_pod(-1, containers)), snapshot)
    assert isinstance(decision, Decision), decision
    for name, node in model.items():
        told = decision.filter[name]
        assert set(told.reasons) == reasons(node, containers), name
    for name, score in decision.score.get("NodeResourcesFit", {}).items():
        assert score == fit_score(model[name], containers, kind), (name, kind)
    for name, score in decision.score.get("NodeResourcesBalancedAllocation", {}).items():
        gain = balance(model[name], containers, with_pod=True) - balance(
            model[name], containers, with_pod=False
        )
        # With more than two resources, the order of the additions may change the last
        # digit.
        assert abs(score - (50 + (50 + gain) // 2)) <= 1, name


@given(
    st.lists(st.tuples(LIST, st.lists(POD, max_size=4)), min_size=1, max_size=3),
    POD,
    st.integers(0, 2),
)
@examples()
def test_a_decision_on_amounts_of_any_size(
    nodes: list[tuple[dict[str, str], list[list[dict[str, str]]]]],
    containers: list[dict[str, str]],
    strategy_index: int,
) -> None:
    cache, model = CacheState(), {}
    for i, (allocatable, pods) in enumerate(nodes):
        node = make_node(f"n{i}", allocatable)
        cache.handle(NodeAdded(node))
        model[f"n{i}"] = ModelNode(node)
        for j, pod in enumerate(pods):
            cache.handle(AssignedPodAdded(make_pod(10 * i + j, pod, f"n{i}")))
            model[f"n{i}"].pods.append(pod)
    check(strategy_index, cache.snapshot(), model, containers)


class History(RuleBasedStateMachine):
    """Pods with huge requests come and go, and the sums end where they began."""

    @initialize(allocatable=LIST, strategy_index=st.integers(0, 2), seed=st.integers(0, 3))
    def begin(self, allocatable: dict[str, str], strategy_index: int, seed: int) -> None:
        self.cache, self.scheduler = CacheState(), Scheduler(Random(seed))
        self.strategy_index = strategy_index
        self.nodes = {name: make_node(name, allocatable) for name in ("n0", "n1")}
        self.model = {name: ModelNode(node) for name, node in self.nodes.items()}
        self.placed: dict[int, tuple[str, list[dict[str, str]]]] = {}
        self.serial = 0
        for node in self.nodes.values():
            self.cache.handle(NodeAdded(node))

    def put(self, number: int, name: str, containers: list[dict[str, str]]) -> None:
        self.placed[number] = (name, containers)
        self.model[name].pods.append(containers)

    @rule(name=st.sampled_from(["n0", "n1"]), containers=POD)
    def assigned(self, name: str, containers: list[dict[str, str]]) -> None:
        self.serial += 1
        self.cache.handle(AssignedPodAdded(make_pod(self.serial, containers, name)))
        self.put(self.serial, name, containers)

    @rule(data=st.data())
    def deleted(self, data: st.DataObject) -> None:
        if self.placed:
            number = data.draw(st.sampled_from(sorted(self.placed)))
            name, containers = self.placed.pop(number)
            self.cache.handle(AssignedPodDeleted(make_pod(number, containers, name)))
            self.model[name].pods.remove(containers)

    @rule(name=st.sampled_from(["n0", "n1"]), allocatable=LIST)
    def resized(self, name: str, allocatable: dict[str, str]) -> None:
        old, new = self.nodes[name], make_node(name, allocatable)
        self.cache.handle(NodeUpdated(old, new))
        self.nodes[name] = new
        pods, self.model[name] = self.model[name].pods, ModelNode(new)
        self.model[name].pods = pods

    @rule(containers=POD, times=st.integers(1, 3), priority=st.sampled_from([0, 5]))
    def scheduled(self, containers: list[dict[str, str]], times: int, priority: int) -> None:
        """Schedules pods of one template, of which the second and later ones are remembered. Pods
        of high priority look for victims.
        """
        for _ in range(times):
            self.serial += 1
            info = PodInfo(make_pod(self.serial, containers, priority=priority))
            outcome = self.scheduler.schedule(
                PROFILES[self.strategy_index], info, self.cache.snapshot()
            )
            assert not isinstance(outcome, DecisionFailure), outcome
            fitting = {name for name, node in self.model.items() if not reasons(node, containers)}
            assert isinstance(outcome, Choice) == bool(fitting)
            if isinstance(outcome, Choice):
                assert outcome.node in fitting
                self.cache.handle(Assume(info, outcome.node))
                self.put(self.serial, outcome.node, containers)

    @rule(containers=POD)
    def asked_in_full(self, containers: list[dict[str, str]]) -> None:
        check(self.strategy_index, self.cache.snapshot(), self.model, containers)

    @invariant()
    def the_sums_are_those_of_the_model(self) -> None:
        columns = self.cache.snapshot().columns
        self.cache.validate()
        (answer,) = self.cache.handle(TakeDump(Nowhere(), ("n0", "n1")))
        msgspec.json.encode(answer.value)  # type: ignore[union-attr]
        for name, node in self.model.items():
            row = columns.row_of[name]
            assert {r: int(columns.requested(r)[row]) for r in RESOURCES} == {
                r: node.requested(r) for r in RESOURCES
            }
            assert {r: int(columns.allocatable(r)[row]) for r in RESOURCES} == {
                r: node.has.get(r, 0) for r in RESOURCES
            }
            assert columns.nonzero[:, row].tolist() == [node.nonzero("cpu"), node.nonzero("memory")]


TestHistory = History.TestCase
TestHistory.settings = examples(0.4, steps=20)
