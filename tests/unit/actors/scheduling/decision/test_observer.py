"""Observers of decisions: what they are told, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from berth.actors.scheduling.decision.evaluation import Evaluation
from berth.actors.scheduling.decision.observer import DecisionObserver
from berth.actors.scheduling.decision.outcome import Choice, Outcome, Unfit
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.rules import PluginScores
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.framework.questions import FilteredNodes
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import NodeView, Snapshot
from berth.actors.scheduling.model.vectors import Ints, Rows
from berth.tools.bench.decision import make_cache, make_pod
from tests.kit.calls import CallCounter
from tests.kit.profiles import profile_of

PROFILE = profile_of()


class Notes(DecisionObserver):
    def __init__(self, *, wants_scores: bool = False) -> None:
        self.wants_scores = wants_scores
        self.told: list[Any] = []

    def deciding(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, start: int, *, extended: bool
    ) -> None:
        self.told.append((info.pod.metadata.name, start, extended))

    def searched(self, positions: Rows) -> None:
        self.told.append("searched")

    def scored(self, info: PodInfo, nodes: NodeView, scores: Sequence[PluginScores]) -> None:
        self.told.append([plugin.plugin for plugin in scores if plugin.scores.any()])

    def rejected(
        self,
        info: PodInfo,
        evaluation: Evaluation,
        filtered: FilteredNodes | None,
        snapshot: Snapshot,
    ) -> None:
        self.told.append(sorted(evaluation.rejected_by()))

    def decided(self, info: PodInfo, outcome: Outcome) -> None:
        self.told.append(type(outcome))


def told(observer: Notes, *millicores: int) -> list[Any]:
    scheduler, snapshot = Scheduler(Random(1), observer=observer), make_cache(3).snapshot()
    for number, amount in enumerate(millicores):
        scheduler.schedule(PROFILE, PodInfo(make_pod(number, {}, amount)), snapshot)
    return observer.told


def test_an_observer_is_told_of_each_step() -> None:
    assert told(Notes(), 100, 100) == [("p0", 0, False), Choice, ("p1", 0, False), Choice]


def test_an_observer_is_told_why_no_node_is_left() -> None:
    assert told(Notes(), 9_000) == [
        ("p0", 0, False),
        ["NodeResourcesFit"],
        Unfit,
    ]


def test_an_observer_that_wants_scores_gets_those_of_every_decision() -> None:
    steps = told(Notes(wants_scores=True), 100, 100, 100)
    assert steps[1::4] == ["searched"] * 3
    scores = steps[2::4]
    assert scores[0] == scores[1] == scores[2]
    assert "NodeResourcesFit" in scores[0]


def test_a_decision_does_not_pay_for_steps_that_its_observer_leaves_out() -> None:
    class Comparisons(DecisionObserver):
        def compared(
            self, rows: Ints, totals: Ints, highest: int, ties: Ints, snapshot: Snapshot
        ) -> None:
            assert len(ties) == 3

    assert calls(Comparisons()) == calls(None)


def calls(observer: DecisionObserver | None) -> int:
    """Returns the calls of a decision without those that the observer makes itself."""
    scheduler, counter = Scheduler(Random(1), observer=observer), CallCounter()
    info, snapshot = PodInfo(make_pod(0, {})), make_cache(3).snapshot()
    with counter:
        scheduler.schedule(PROFILE, info, snapshot)
    return counter.calls
