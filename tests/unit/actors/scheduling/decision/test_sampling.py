"""How many nodes are enough, which ones, and how ties are broken."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import Assume, NodeAdded
from berth.actors.scheduling.decision.outcome import Choice, Unfit
from berth.actors.scheduling.decision.sampling import sample_size
from berth.actors.scheduling.decision.scheduler import NO_NODES, Scheduler
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit.profiles import at, configuration, profile_of
from tests.kit.structs import node
from tests.kit.structs import pod_info as pod

PROFILE = profile_of()


def cluster(nodes: int) -> CacheState:
    cache = CacheState()
    for i in range(nodes):
        cache.handle(NodeAdded(node(f"n{i}", 1, memory="1Gi", pods=2)))
    return cache


@pytest.mark.parametrize(
    ("percentage", "nodes", "enough"),
    [
        (0, 99, 99),
        (0, 100, 100),
        (0, 1000, 420),
        (0, 5000, 500),
        (0, 15000, 750),
        (10, 5000, 500),
        (100, 5000, 5000),
    ],
)
def test_sample_size(percentage: int, nodes: int, enough: int) -> None:
    assert sample_size(percentage, nodes) == enough


def test_the_search_goes_on_where_it_ended() -> None:
    view, scheduler = cluster(300).snapshot(), Scheduler(Random(1))
    chosen = [scheduler.schedule(PROFILE, pod(), view) for _ in range(3)]
    assert [c.evaluated for c in chosen if isinstance(c, Choice)] == [144, 144, 144]
    places = [int(c.node[1:]) // 144 for c in chosen if isinstance(c, Choice)]
    assert places[:2] == [0, 1]


def test_a_search_among_few_nodes_moves_the_start_among_all() -> None:
    view, scheduler = cluster(300).snapshot(), Scheduler(Random(1))
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    only = {
        "metadata": {"namespace": "default", "name": "only"},
        "spec": {"affinity": {"nodeAffinity": required}},
    }
    places = []
    for _ in range(2):
        outcome = scheduler.schedule(PROFILE, pod(), view)
        assert isinstance(outcome, Choice)
        places.append(int(outcome.node[1:]) // 145)
        named = scheduler.schedule(PROFILE, PodInfo(msgspec.convert(only, Pod)), view)
        assert isinstance(named, Choice)
        assert (named.node, named.evaluated) == ("n7", 1)
    assert places == [0, 1]


def test_a_placed_pod_makes_its_node_less_wanted() -> None:
    cache, scheduler = cluster(3), Scheduler(Random(1))
    seen = []
    for i in range(3):
        outcome = scheduler.schedule(PROFILE, pod(f"p{i}"), cache.snapshot())
        assert isinstance(outcome, Choice)
        seen.append(outcome.node)
        cache.handle(Assume(pod(f"p{i}"), outcome.node))
    assert sorted(seen) == ["n0", "n1", "n2"]


def test_what_fits_nowhere_is_told_in_kubernetes_words() -> None:
    outcome = Scheduler(Random(1)).schedule(PROFILE, pod(cpu="3"), cluster(3).snapshot())
    message = (
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert isinstance(outcome, Unfit)
    assert (outcome.message, outcome.rejected_by) == (message, frozenset({"NodeResourcesFit"}))
    assert outcome.post_filtered is not None
    assert outcome.post_filtered.denominate


ELSEWHERE = ({"name": "example.com/gpu"},)


@pytest.mark.parametrize(
    ("verbs", "feasible"),
    [
        ({}, 1),
        ({"filterVerb": "filter"}, 144),
        ({"prioritizeVerb": "prioritize", "weight": 1}, 144),
        ({"preemptVerb": "preempt"}, 1),
        ({"bindVerb": "bind"}, 1),
    ],
)
def test_who_could_choose_counts_even_if_the_pod_is_none_of_theirs(
    verbs: dict[str, str], feasible: int
) -> None:
    extender = {"urlPrefix": "http://localhost", "managedResources": ELSEWHERE, **verbs}
    extenders = configuration(extenders=[extender] if verbs else []).extenders
    blind = profile_of(points=at("score", disabled="*"))
    outcome = Scheduler(Random(1), extenders=extenders).schedule(
        blind, pod(), cluster(300).snapshot()
    )
    assert isinstance(outcome, Choice)
    assert outcome.feasible == feasible


def test_without_nodes_nothing_rejects_the_pod() -> None:
    assert Scheduler(Random(1)).schedule(PROFILE, pod(), cluster(0).snapshot()) == Unfit(
        NO_NODES, frozenset()
    )
