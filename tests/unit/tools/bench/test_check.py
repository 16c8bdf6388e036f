"""`--check` repeats decisions from scratch: a correct scheduler agrees with explain, and a broken
one is caught.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from berth.actors.cache.state import CacheState
from berth.actors.messages.cache import (
    AssignedPodAdded,
    AssignedPodDeleted,
    Assume,
    AssumeObject,
    NodeAdded,
    NodeDeleted,
    Nominate,
)
from berth.actors.scheduling.decision.outcome import Choice, DecisionFailure, Outcome, Unfit
from berth.actors.scheduling.decision.recall.candidates import MemoryCandidates
from berth.actors.scheduling.decision.recall.memory import Memory
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import DeviceRequestAllocationResult, InFlightAllocation
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import NodeView
from berth.actors.scheduling.model.vectors import Ints, Rows
from berth.actors.wiring.profiles import profiles_of
from berth.config.load import from_mapping
from berth.config.types import KubeSchedulerConfiguration
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle
from berth.tools.bench.check import Sample, SampledDecisions, check, rebuild_cluster, record_cluster
from berth.tools.bench.decision import SPECS, make_node, make_pod
from berth.tools.bench.measure import CheckResult

NODES = 150  # more than a sample
CONFIGURATION = KubeSchedulerConfiguration()
EVERY = 1_000


def nothing(done: int, every: int) -> None:
    pass


def mixed(number: int) -> list[Pod]:
    """Returns pods of every kind in turn. Some fit nowhere, and some fit only after preemption."""
    specs: list[tuple[dict[str, Any], int]] = [(spec, 100) for spec in SPECS.values()]
    specs += [({"priority": 20}, 2_000), ({}, 9_000), ({"nodeSelector": {"zone": "none"}}, 100)]
    return [make_pod(100 + i, *specs[i % len(specs)]) for i in range(number)]


def checked_of(
    pods: Sequence[Pod],
    configuration: KubeSchedulerConfiguration = CONFIGURATION,
    *,
    crowded: bool = False,
    altered: Callable[[Outcome], Outcome] = lambda outcome: outcome,
) -> CheckResult:
    """Schedules the pods one after the other, in a cluster that is full or changes all the time.
    Returns the check's result; `altered` takes the place of each outcome before the check.
    """
    rng = Random(1)
    decisions = SampledDecisions(rng, EVERY)
    scheduler = Scheduler(rng, configuration.percentage_of_nodes_to_score, observer=decisions)
    profile = profiles_of(configuration, ReadOnlyHandle())["default-scheduler"]
    cache = CacheState()
    for number in range(NODES):
        cache.handle(NodeAdded(make_node(number)))
        for other in range(4 if crowded else 0):
            where = {"nodeName": f"n{number}"}
            cache.handle(AssignedPodAdded(make_pod(-1 - 4 * number - other, where, 950)))
    chance, placed = Random(7), list[Pod]()
    decisions.open()
    for turn, pod in enumerate(pods):
        info = PodInfo(pod)
        match scheduler.schedule(profile, info, cache.snapshot()):
            case Choice(node):
                cache.handle(Assume(info, node))
                placed.append(pod)
            case Unfit(nomination=promised):
                if promised is not None:
                    cache.handle(Nominate(info, promised.node))
            case DecisionFailure(status):
                raise AssertionError(status.message)
        if crowded:
            continue
        if turn % 4 == 3 and placed:
            cache.handle(AssignedPodDeleted(placed.pop(chance.randrange(len(placed)))))
        if turn % 25 == 24:
            cache.handle(NodeDeleted(make_node(turn % NODES)))
            cache.handle(NodeAdded(make_node(turn % NODES)))
    (window,) = decisions.windows
    window.kept = [
        msgspec.structs.replace(kept, outcome=altered(kept.outcome)) for kept in window.kept
    ]
    (checked,) = check([window], configuration, nothing)
    return checked


@pytest.mark.full("long")
def test_remembered_answers_and_running_counts_agree_with_explain() -> None:
    checked = checked_of(mixed(120))
    assert (checked.pods, checked.agree, checked.differ) == (120, 120, ())


@pytest.mark.full("long")
def test_a_full_cluster_in_which_preemption_makes_room() -> None:
    eager = [make_pod(i, {"priority": 5}, 1_900) for i in range(8)]
    checked = checked_of([*eager, *mixed(20)], crowded=True)
    assert (checked.agree, checked.differ) == (28, ())


@pytest.mark.full("long")
def test_a_percentage_of_nodes_and_a_profile_that_scores_nothing() -> None:
    few = {"percentageOfNodesToScore": 70}
    blind = {"profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}]}
    for more in (few, blind):
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **more,
        }
        configuration = from_mapping(document)
        checked = checked_of(mixed(60), configuration)
        assert (checked.agree, checked.differ) == (60, ())


class Reversed(MemoryCandidates):
    """Candidates whose scores prefer the worst node."""

    __slots__ = ()

    def totals(self, nodes: NodeView, positions: Rows) -> Ints:
        return -super().totals(nodes, positions)


@pytest.mark.full("long")
def test_a_scheduler_that_takes_the_worst_node_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "berth.actors.scheduling.decision.recall.candidates.MemoryCandidates", Reversed
    )
    checked = checked_of(mixed(60))
    assert checked.agree < checked.pods == 60
    assert checked.agree + len(checked.differ) == 60
    assert "; explain chooses " in checked.differ[0].difference
    assert "NodeResourcesFit" in "".join(differs.difference for differs in checked.differ)


@pytest.mark.full("long")
def test_a_stale_memory_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Memory, "refresh", lambda *_: True)
    pods = [
        make_pod(i, {}, 3_000) for i in range(NODES + 10)
    ]  # one for each node, and none for the last pods
    checked = checked_of(pods)
    assert checked.agree < checked.pods
    assert any("NodeResourcesFit" in differs.difference for differs in checked.differ)


def grumpy(outcome: Outcome) -> Outcome:
    """Names no plugin for a pod that does not fit, and nominates it nowhere."""
    match outcome:
        case Unfit(message, plugins, nomination=None):
            return Unfit(message, plugins - {"NodeResourcesFit"})
        case Unfit(message, plugins):
            return Unfit(message, plugins)
        case _:
            return outcome


def test_a_difference_in_rejecting_plugins_or_nomination_is_caught() -> None:
    pods = [make_pod(0, {"priority": 5}, 1_900), make_pod(1, {}, 1_900)]
    checked = checked_of(pods, crowded=True, altered=grumpy)
    promised, blamed = checked.differ
    assert promised.difference.startswith("the nomination is cleared; explain's is n")
    assert (
        blamed.difference == "the list of rejecting plugins is none; explain's is NodeResourcesFit"
    )


def test_a_sample_is_drawn_from_all_decisions() -> None:
    """Each of 20 decisions is kept about equally often among the 5."""
    often = [0] * 20
    chance = Random(3)
    for _ in range(2_000):
        sample = Sample[int](5, chance)
        for number in range(20):
            place = sample.place()
            if place is not None:
                sample.keep(place, number)
        assert len(set(sample.kept)) == 5
        for number in sample.kept:
            often[number] += 1
    assert min(often) > 400


def test_only_decisions_of_an_open_window_are_sampled() -> None:
    rng = Random(1)
    decisions = SampledDecisions(rng, EVERY)
    scheduler = Scheduler(rng, CONFIGURATION.percentage_of_nodes_to_score, observer=decisions)
    profile = profiles_of(CONFIGURATION, ReadOnlyHandle())["default-scheduler"]
    cache = CacheState()
    cache.handle(NodeAdded(make_node(0)))

    def decide() -> None:
        outcome = scheduler.schedule(profile, PodInfo(make_pod(1, {}, 100)), cache.snapshot())
        assert isinstance(outcome, Choice)

    decide()
    assert decisions.windows == []
    decisions.open()
    decide()
    decisions.close()
    decide()
    assert [len(window.kept) for window in decisions.windows] == [1]


def test_devices_that_wait_to_be_written_to_a_claim_stay_taken() -> None:
    cache = CacheState()
    cache.handle(NodeAdded(make_node(0)))
    taken = DeviceRequestAllocationResult(request="r", driver="d", pool="p", device="x")
    pending = InFlightAllocation(metadata=ObjectMeta(name="uid"), results=(taken,))
    cache.handle(AssumeObject(pending))
    again = rebuild_cluster(record_cluster(cache.snapshot()))
    assert again.objects.get(InFlightAllocation, "uid") == pending
