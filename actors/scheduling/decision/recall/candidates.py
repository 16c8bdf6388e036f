"""The candidates of a pod whose template is remembered.

Rules that read the cluster or the pod's claims are never remembered: they run for every pod.
"""

from __future__ import annotations

import numpy as np

from ...framework.cycle_state import CycleState
from ...framework.measuring import Record
from ...framework.verdicts import PASSES
from ...model.pod_info import PodInfo
from ...model.snapshot import NodeView, Snapshot
from ...model.vectors import Bools, Ints, Rows, all_true, any_true
from ..candidates import Candidates
from ..evaluation import Evaluation
from ..failures import PluginError
from ..plain import Plain
from ..rules import EVERY_NODE
from .memory import Memory

MIN_WIDTH = 100  # the fewest nodes that are looked at together


class MemoryCandidates(Candidates):
    """The candidates of a pod with a remembered template.

    `alone` is true if all filters of this pod are remembered, because no rule that is asked for
    every pod filters it.
    """

    __slots__ = ("_alone", "_memory")

    def __init__(
        self,
        memory: Memory,
        state: CycleState,
        info: PodInfo,
        snapshot: Snapshot,
        *,
        alone: bool,
    ) -> None:
        super().__init__(memory.profile, info, snapshot, state, memory.order)
        self._memory = memory
        self._alone = alone

    def first_fitting(self, start: int, count: int) -> tuple[Rows, int]:
        """Searches window by window, so that rules are asked about few nodes in vain.

        The first window is as wide as the last search for such a pod was long.
        """
        nodes, memory = len(self.order), self._memory
        fitting: list[Ints] = []
        number = looked_at = 0
        width = max(count, memory.looked_at * 9 // 8)
        while number <= count and looked_at < nodes:
            begin = (start + looked_at) % nodes
            end = min(begin + width, nodes if begin >= start else start)
            fits = self._fits(begin, end)
            if not looked_at and end - begin >= count and (fits is None or all_true(fits[:count])):
                memory.looked_at = count
                return slice(start, start + count), count
            where = np.arange(begin, end) if fits is None else fits.nonzero()[0] + begin
            fitting.append(where)
            number += len(where)
            looked_at += end - begin
            # Enough nodes if the next ones are like those before, and a quarter more.
            width = max((count + 1 - number) * looked_at // (number + 1) * 5 // 4, MIN_WIDTH)
        positions = (np.concatenate(fitting) if len(fitting) > 1 else fitting[0])[:count]
        if number > count:
            looked_at = (int(positions[-1]) - start) % nodes + 1
        memory.looked_at = looked_at
        return positions, looked_at

    def _fits(self, start: int, stop: int) -> Bools | None:
        """Returns bool[stop - start]: where the pod fits in this range; None for everywhere."""
        memory, state, info, snapshot = self._memory, self.state, self.info, self.snapshot
        if memory.unfit and self._alone:
            fitting = self._not_rejected(start, stop)
            if fitting is not None:
                return fitting
        passing = None
        if not self._alone:
            view = snapshot.rows(self.order[start:stop])
            passing = self._memory.of_pod.passing(state, info, view)
        memory.settle(info, snapshot, start, stop, passing)
        if passing is None and not snapshot.nominations and memory.fits.all_in(start, stop):
            return None
        fitting = memory.fits.bools[start:stop]
        if passing is not None:
            fitting = fitting & passing
        if snapshot.nominations:
            fitting = memory.besides_nominated(state, info, snapshot, start, fitting)
        return fitting

    def _not_rejected(self, start: int, stop: int) -> Bools | None:
        """Returns the positions that no remembered rejection excludes."""
        memory = self._memory
        rejections = memory.rejections(self.state, self.info, self.snapshot)
        if rejections is None:
            return None
        fitting = np.asarray(rejections.diagnosis.codes[start:stop] == PASSES)
        if any_true(fitting):
            memory.unfit = False
            memory.settle(self.info, self.snapshot, start, stop, fitting)
        return fitting

    def pre_score(self, nodes: NodeView) -> None:
        rules = self._memory.of_pod
        if not rules.scores_nothing:
            rules.pre_score(self.state, self.info, nodes)

    def totals(self, nodes: NodeView, positions: Rows) -> Ints:
        totals = self._memory.scores(self.info, nodes, positions)
        for plugin in self._memory.of_pod.score(self.state, self.info, nodes):
            totals = totals + plugin.scores
        return totals

    def evaluation(self) -> Evaluation:
        """Returns the answers of all rules, which are asked again where a memory has no
        rejections.
        """
        memory = self._memory
        rejections = memory.rejections(self.state, self.info, self.snapshot)
        memory.unfit = rejections is not None
        if rejections is None:
            evaluation = Plain(self.profile, self.info, self.snapshot).evaluation()
            evaluation.state.record = self.state.record
            return evaluation
        return rejections.evaluation(self.state)


def candidates_of(
    memory: Memory, info: PodInfo, snapshot: Snapshot, record: Record
) -> MemoryCandidates | None:
    """Returns the candidates for the pod; None if it must be decided without the memory."""
    state, rules = memory.state.copy(), memory.of_pod
    # The kept rules are asked again with the memory's state.
    memory.state.record = state.record = record
    try:
        if rules.pre_filter(state, info, snapshot) is not EVERY_NODE:
            return None
    except PluginError:
        return None  # What follows depends on the order of all rules.
    return MemoryCandidates(memory, state, info, snapshot, alone=rules.filters_nothing(state))
