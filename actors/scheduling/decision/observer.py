"""What can be seen of a decision from outside: the log, `berth explain`, bench's check and tests
observe decisions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..framework.questions import FilteredNodes
from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView, Snapshot
from ..model.vectors import Ints, Rows
from .feasibility import Evaluation
from .outcome import Outcome
from .profile import Profile
from .rules import PluginScores


class DecisionObserver:
    """Is told what happens in each decision, in this order, and never changes one.

    A method that is not overridden does nothing. With `wants_scores`, nothing is remembered from
    pod to pod, since what is remembered are sums.
    """

    wants_scores: bool = False

    def deciding(
        self, profile: Profile, info: PodInfo, snapshot: Snapshot, start: int, *, extended: bool
    ) -> None:
        """The search for nodes is to begin at `start`; `extended` if there are extenders to ask."""

    def searched(self, positions: Rows) -> None:
        """The pod fits at these positions. No search is made if the pod fits on the node that it is
        nominated to.
        """

    def filtered(self, filtered: FilteredNodes) -> None:
        """The extenders have answered which of these nodes they leave."""

    def scored(self, info: PodInfo, nodes: NodeView, scores: Sequence[PluginScores]) -> None:
        """The nodes were scored; there are `scores` for an observer that wants them."""

    def prioritized(self, priorities: Ints) -> None:
        """The extenders have scored the same nodes."""

    def rejected(self, info: PodInfo, evaluation: Evaluation) -> None:
        """No node is left for the pod; `evaluation` is without the extenders."""

    def decided(self, info: PodInfo, outcome: Outcome) -> None:
        """The decision has ended."""
