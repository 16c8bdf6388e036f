"""Plain candidates: every rule is asked about every node.

This is the reference for what `recall` remembers, and what `berth explain` prints.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..framework.measuring import PRE_SCORE, SCORE, UNMEASURED, Record
from ..model.pod_info import PodInfo
from ..model.snapshot import Snapshot
from ..model.vectors import Bools, Ints, Rows, all_true
from .candidates import Candidates
from .feasibility import Evaluation, evaluate
from .profile import Profile
from .rules import PluginScores

NO_ROWS: Ints = np.zeros(0, dtype=np.int64)


class Plain(Candidates):
    """Runs PreFilter and all filters when it is made, which raises PluginError."""

    __slots__ = ("_evaluation", "_fitting")

    def __init__(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, record: Record = UNMEASURED
    ) -> None:
        self._evaluation = evaluate(profile, info, snapshot, record)
        diagnosis, live = self._evaluation.diagnosis, self._evaluation.live
        order, rejected = NO_ROWS, diagnosis is None
        self._fitting: Bools = np.zeros(0, dtype=np.bool_)
        if diagnosis is not None and live is not None:
            self._fitting = diagnosis.feasible() & live
            order = np.arange(snapshot.columns.size)[diagnosis.view.rows]
            if self._evaluation.prefilter.node_names is None:  # a view of all rows, dead ones too
                order = snapshot.columns.order
                self._fitting = self._fitting[order]
        super().__init__(profile, info, snapshot, self._evaluation.state, order, rejected=rejected)

    def first_fitting(self, start: int, wanted: int) -> tuple[Rows, int]:
        nodes, stop = len(self.order), start + wanted
        if stop <= nodes and all_true(self._fitting[start:stop]):
            return slice(start, stop), wanted
        found = self._fitting.nonzero()[0]
        found = np.roll(found, -int(np.searchsorted(found, start)))
        if len(found) <= wanted:
            return found, nodes
        found = found[:wanted]
        return found, (int(found[-1]) - start) % nodes + 1

    def scores(self, positions: Rows) -> list[PluginScores]:
        """Run PreScore and Score on feasible nodes; none if the profile has no Score plugin."""
        if self.profile.scores_nothing:
            return []
        nodes, record = self.view(positions), self.state.record
        record.marks.extend((PRE_SCORE, record.now()))
        self.profile.pre_score(self.state, self.info, nodes)
        record.marks.extend((SCORE, record.now()))
        return self.profile.score(self.state, self.info, nodes)

    def totals(self, positions: Rows) -> Ints:
        return summed(self.scores(positions), self.profile, len(self.order[positions]))

    def evaluation(self) -> Evaluation:
        return self._evaluation


def summed(scores: Sequence[PluginScores], profile: Profile, nodes: int) -> Ints:
    """int64[nodes]: the sums of all scores.

    0 for every node if all plugins asked to be skipped, 1 if the profile has no Score plugin.
    """
    if not scores:
        return np.full(nodes, int(profile.scores_nothing), dtype=np.int64)
    return np.asarray(np.sum([plugin.scores for plugin in scores], axis=0))
