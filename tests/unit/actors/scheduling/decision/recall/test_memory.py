"""A memory of nodes follows their changes."""

from __future__ import annotations

from random import Random

import msgspec
import numpy as np
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import NodeAdded, NodeUpdated
from berth.actors.scheduling.decision.outcome import Choice
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.plugin import (
    CycleState,
    DependsOn,
    FilterPlugin,
    Ints,
    Node,
    NodeView,
    Plugin,
    Pod,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    ScorePlugin,
    Snapshot,
)
from tests.kit import structs
from tests.kit.profiles import profile_of

PROFILE = profile_of()
NAMES = ["n0", "n1", "n2"]


def make_node(name: str, effect: str = "") -> Node:
    taints = [{"key": "k", "effect": effect}] if effect else []
    return structs.node(name, 1, memory="1Gi", pods=2, taints=taints)


def chosen(scheduler: Scheduler, cache: CacheState, profile: Profile = PROFILE) -> str:
    pod = msgspec.convert({"metadata": {"namespace": "default", "name": "p"}}, Pod)
    outcome = scheduler.schedule(profile, PodInfo(pod), cache.snapshot())
    assert isinstance(outcome, Choice)
    return outcome.node


@pytest.mark.parametrize("effect", ["PreferNoSchedule", "NoSchedule"])
def test_a_taint_is_seen_by_pods_whose_like_were_scheduled_before(effect: str) -> None:
    cache, scheduler = CacheState(), Scheduler(Random(1))
    for name in NAMES:
        cache.handle(NodeAdded(make_node(name)))
    assert {chosen(scheduler, cache) for _ in range(30)} == {*NAMES}
    cache.handle(NodeUpdated(make_node("n1"), make_node("n1", effect)))
    assert {chosen(scheduler, cache) for _ in range(30)} == {"n0", "n2"}
    cache.handle(NodeUpdated(make_node("n1", effect), make_node("n1")))
    assert {chosen(scheduler, cache) for _ in range(30)} == {*NAMES}


class Untainted(PreFilterPlugin):
    """A plugin that looks at every node before it is asked about any."""

    name = "Untainted"
    depends_on = DependsOn.ALL_NODES

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        nodes = [
            info.node
            for info in snapshot.columns.infos
            if info is not None and info.node is not None
        ]
        return PreFilterResult(
            frozenset(node.metadata.name for node in nodes if not node.spec.taints)
        )


class Halving(ScorePlugin):
    """A plugin that normalises in place."""

    name = "Halving"
    depends_on = DependsOn.NODE

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        return np.where(nodes.rows == nodes.columns.row_of["n1"], 64, 0)

    def normalize(self, state: CycleState, info: PodInfo, scores: Ints) -> Ints:
        scores //= 2
        return scores


class Counting(FilterPlugin):
    """A plugin that counts the nodes that it is asked about."""

    name = "Counting"
    depends_on = DependsOn.NODE
    evaluated = 0

    def filter(self, state: CycleState, info: PodInfo, nodes: NodeView) -> None:
        Counting.evaluated += nodes.alive


def profile_with(plugin: type[Plugin]) -> Profile:
    return profile_of("PrioritySort", plugin, "DefaultBinder", disabled="*")


def test_a_pre_filter_that_looks_at_nodes_is_asked_again_when_one_changes() -> None:
    cache, scheduler, profile = CacheState(), Scheduler(Random(1)), profile_with(Untainted)
    for name in NAMES:
        cache.handle(NodeAdded(make_node(name)))
    assert {chosen(scheduler, cache, profile) for _ in range(30)} == {*NAMES}
    cache.handle(NodeUpdated(make_node("n1"), make_node("n1", "NoSchedule")))
    assert {chosen(scheduler, cache, profile) for _ in range(30)} == {"n0", "n2"}
    cache.handle(NodeUpdated(make_node("n1", "NoSchedule"), make_node("n1")))
    assert {chosen(scheduler, cache, profile) for _ in range(30)} == {*NAMES}
    cache.handle(NodeAdded(make_node("n3")))
    assert {chosen(scheduler, cache, profile) for _ in range(30)} == {*NAMES, "n3"}


def test_what_is_remembered_is_not_what_a_plugin_normalises() -> None:
    cache, scheduler, profile = CacheState(), Scheduler(Random(1)), profile_with(Halving)
    for name in NAMES:
        cache.handle(NodeAdded(make_node(name)))
    assert {chosen(scheduler, cache, profile) for _ in range(30)} == {"n1"}


@pytest.mark.parametrize("remembers", [True, False])
def test_what_nodes_answered_is_kept_only_with_opportunistic_batching(remembers: bool) -> None:
    cache, scheduler = CacheState(), Scheduler(Random(1), remembers=remembers)
    profile = profile_with(Counting)
    Counting.evaluated = 0
    for name in NAMES:
        cache.handle(NodeAdded(make_node(name)))
    for _ in range(4):
        chosen(scheduler, cache, profile)
    # Answers are kept from the second pod on.
    assert Counting.evaluated == (6 if remembers else 12)
