"""Plain candidates, for which every rule is asked about every node.

They are the reference for `recall`, and `berth explain` prints them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..framework.cycle_state import CycleState
from ..framework.measuring import UNMEASURED, Record
from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView, Snapshot
from ..model.vectors import Bools, Ints, Rows, all_true
from .candidates import Candidates
from .evaluation import Evaluation
from .profile import Profile
from .rules import PluginScores

NO_ROWS: Ints = np.zeros(0, dtype=np.int64)


class Plain(Candidates):
    """Candidates without a memory. Creating them runs PreFilter, which may raise PluginError. The
    filters run at the first question about nodes.
    """

    __slots__ = ("_evaluation", "_prefilter")

    def __init__(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, record: Record = UNMEASURED
    ) -> None:
        state = CycleState()
        state.record = record
        self._evaluation: Evaluation | None = None
        self._prefilter = prefilter = profile.pre_filter(state, info, snapshot)
        order, columns = NO_ROWS, snapshot.columns
        if prefilter.status.ok:
            names = prefilter.node_names
            order = columns.order if names is None else columns.rows_of(names)
        super().__init__(profile, info, snapshot, state, order, rejected=not prefilter.status.ok)

    def first_fitting(self, start: int, count: int) -> tuple[Rows, int]:
        fitting = self._fitting()
        nodes, stop = len(self.order), start + count
        if stop <= nodes and all_true(fitting[start:stop]):
            return slice(start, stop), count
        positions = fitting.nonzero()[0]
        positions = np.roll(positions, -int(np.searchsorted(positions, start)))
        if len(positions) <= count:
            return positions, nodes
        positions = positions[:count]
        return positions, (int(positions[-1]) - start) % nodes + 1

    def _fitting(self) -> Bools:
        """Returns bool[len(order)]: where the pod fits."""
        evaluation = self.evaluation()
        if evaluation.diagnosis is None or evaluation.live is None:
            return np.zeros(0, dtype=np.bool_)
        fitting = evaluation.diagnosis.feasible() & evaluation.live
        # Without names, the evaluation covers all rows, even dead ones.
        return fitting[self.order] if self._prefilter.node_names is None else fitting

    def pre_score(self, nodes: NodeView) -> None:
        if not self.profile.scores_nothing:
            self.profile.pre_score(self.state, self.info, nodes)

    def scores(self, nodes: NodeView) -> list[PluginScores]:
        """Returns the scores of each plugin; none if the profile has no Score plugin."""
        return self.profile.score(self.state, self.info, nodes)

    def totals(self, nodes: NodeView, positions: Rows) -> Ints:
        self.scores_by_plugin = scores = self.scores(nodes)
        return sum_of_scores(scores, self.profile, nodes.size)

    def evaluation(self) -> Evaluation:
        if self._evaluation is None:
            self._evaluation = self._evaluate()
        return self._evaluation

    def _evaluate(self) -> Evaluation:
        """Runs the filters over every node that PreFilter left."""
        state, prefilter, snapshot = self.state, self._prefilter, self.snapshot
        if not prefilter.status.ok:
            return Evaluation(state, prefilter)
        if prefilter.node_names is None:
            view = snapshot.all()
            live = np.zeros(view.size, dtype=np.bool_)
            live[self.order] = True
        else:
            view = snapshot.rows(self.order)
            live = np.ones(view.size, dtype=np.bool_)
        diagnosis = self.profile.diagnose(state, self.info, view)
        return Evaluation(state, prefilter, diagnosis, live)


def sum_of_scores(scores: Sequence[PluginScores], profile: Profile, nodes: int) -> Ints:
    """Returns int64[nodes]: for each node the sum of its scores.

    A sum is 0 if all plugins asked to be skipped, 1 if the profile has no Score plugin.
    """
    if not scores:
        return np.full(nodes, int(profile.scores_nothing), dtype=np.int64)
    return np.asarray(np.sum([plugin.scores for plugin in scores], axis=0))
