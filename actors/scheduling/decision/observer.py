"""Observers of decisions: the log, `berth explain`, bench's check and tests."""

from __future__ import annotations

from collections.abc import Sequence

from ..framework.questions import FilteredNodes
from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView, Snapshot
from ..model.vectors import Ints, Rows
from .evaluation import Evaluation
from .outcome import Outcome
from .profile import Profile
from .rules import PluginScores


class DecisionObserver:
    """The base of observers, which see each step of a decision in this order and never change it.

    A method that is not overridden does nothing, and the first and the last are not called then:
    each pod would pay for them. With `wants_scores`, nothing is remembered from
    pod to pod, because a memory holds only sums; `searched`, `scored` and `prioritized` are called
    only then.
    """

    wants_scores: bool = False

    def deciding(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, start: int, *, extended: bool
    ) -> None:
        """Receives the place where the search for nodes will begin; `extended` if there are
        extenders to ask.
        """

    def searched(self, positions: Rows) -> None:
        """Receives the positions where the pod fits. Not called if the pod fits on the node to
        which it is nominated, as there is no search then.
        """

    def filtered(self, filtered: FilteredNodes) -> None:
        """Receives the answers of the extenders: the nodes that they leave."""

    def scored(self, info: PodInfo, nodes: NodeView, scores: Sequence[PluginScores]) -> None:
        """Receives the scored nodes, with the scores that each plugin gave them."""

    def prioritized(self, priorities: Ints) -> None:
        """Receives the scores of the extenders for the same nodes."""

    def compared(
        self, rows: Ints, totals: Ints, highest: int, ties: Ints, snapshot: Snapshot
    ) -> None:
        """Receives the rows of the scored nodes and their totals, up to a constant, with the scores
        of the extenders; then the highest total, and the positions of the nodes that share it. Not
        called for a single node. Totals that are a view of another array may change later.
        """

    def rejected(
        self,
        info: PodInfo,
        evaluation: Evaluation,
        filtered: FilteredNodes | None,
        snapshot: Snapshot,
    ) -> None:
        """Receives the rejection of a pod by all nodes; `evaluation` is without the extenders,
        `filtered` their answers, None if none was asked.
        """

    def decided(self, info: PodInfo, outcome: Outcome) -> None:
        """Receives the outcome of the decision."""


class _ObserverPair(DecisionObserver):
    """An observer that passes everything on to two others."""

    def __init__(self, first: DecisionObserver, second: DecisionObserver) -> None:
        self._both = (first, second)
        self.wants_scores = first.wants_scores or second.wants_scores

    def deciding(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, start: int, *, extended: bool
    ) -> None:
        for observer in self._both:
            observer.deciding(profile, info, snapshot, start, extended=extended)

    def searched(self, positions: Rows) -> None:
        for observer in self._both:
            observer.searched(positions)

    def filtered(self, filtered: FilteredNodes) -> None:
        for observer in self._both:
            observer.filtered(filtered)

    def scored(self, info: PodInfo, nodes: NodeView, scores: Sequence[PluginScores]) -> None:
        for observer in self._both:
            observer.scored(info, nodes, scores)

    def prioritized(self, priorities: Ints) -> None:
        for observer in self._both:
            observer.prioritized(priorities)

    def compared(
        self, rows: Ints, totals: Ints, highest: int, ties: Ints, snapshot: Snapshot
    ) -> None:
        for observer in self._both:
            observer.compared(rows, totals, highest, ties, snapshot)

    def rejected(
        self,
        info: PodInfo,
        evaluation: Evaluation,
        filtered: FilteredNodes | None,
        snapshot: Snapshot,
    ) -> None:
        for observer in self._both:
            observer.rejected(info, evaluation, filtered, snapshot)

    def decided(self, info: PodInfo, outcome: Outcome) -> None:
        for observer in self._both:
            observer.decided(info, outcome)


def observed_by(
    first: DecisionObserver | None, second: DecisionObserver | None
) -> DecisionObserver | None:
    """Returns an observer that passes everything on to both observers; None if there is none."""
    if first is None or second is None:
        return first or second
    return _ObserverPair(first, second)
