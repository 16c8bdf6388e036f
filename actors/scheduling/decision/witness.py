"""What a log may show of a decision besides its outcome: the nodes that were rejected, and scores.

A witness never changes a decision. Without one, a decision costs nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView
from ..model.vectors import Ints, Rows
from .candidates import Candidates
from .feasibility import Evaluation
from .plain import Plain, summed
from .rules import PluginScores


class Witness(Protocol):
    def wants_scores(self) -> bool:
        """True to be shown scores. Nothing is remembered from pod to pod then."""
        ...

    def rejected(self, info: PodInfo, evaluation: Evaluation) -> None:
        """No node is left for the pod."""
        ...

    def scored(self, info: PodInfo, nodes: NodeView, scores: Sequence[PluginScores]) -> None:
        """The plugins scored these nodes, without the extenders."""
        ...


class Witnessed(Candidates):
    """Candidates whose answers are shown to a witness."""

    __slots__ = ("_candidates", "_witness")

    def __init__(self, candidates: Candidates, witness: Witness) -> None:
        super().__init__(
            candidates.profile,
            candidates.info,
            candidates.snapshot,
            candidates.state,
            candidates.order,
            rejected=candidates.rejected,
        )
        self._candidates = candidates
        self._witness = witness

    def fits_on(self, row: int) -> bool:
        return self._candidates.fits_on(row)

    def first_fitting(self, start: int, wanted: int) -> tuple[Rows, int]:
        return self._candidates.first_fitting(start, wanted)

    def pre_score(self, nodes: NodeView) -> None:
        self._candidates.pre_score(nodes)

    def totals(self, nodes: NodeView, positions: Rows) -> Ints:
        if not isinstance(self._candidates, Plain) or not self._witness.wants_scores():
            return self._candidates.totals(nodes, positions)
        scores = self._candidates.scores(nodes)
        self._witness.scored(self.info, nodes, scores)
        return summed(scores, self.profile, nodes.size)

    def evaluation(self) -> Evaluation:
        evaluation = self._candidates.evaluation()
        self._witness.rejected(self.info, evaluation)
        return evaluation
