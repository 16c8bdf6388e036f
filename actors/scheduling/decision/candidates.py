"""Candidates: a pod with its nodes, and the questions that the algorithm asks about them.

There are two implementations. `plain` asks every rule about every node; `recall` keeps answers from
pod to pod. Both give the same answers, which tests/properties/test_reuse.py compares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from ..framework.cycle_state import CycleState
from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView, Snapshot
from ..model.vectors import Ints, Rows
from .evaluation import Evaluation
from .profile import Profile
from .rules import PluginScores


class Candidates(ABC):
    """The nodes that PreFilter leaves for a pod.

    `order` holds their rows in the node tree's order; a position is an index into it. `rejected` is
    true if PreFilter rejected the pod for all nodes. `scores_by_plugin` are the latest scores, if
    they are available for each plugin. Every method raises PluginError.
    """

    __slots__ = (
        "info",
        "order",
        "profile",
        "rejected",
        "scores_by_plugin",
        "snapshot",
        "state",
    )

    def __init__(
        self,
        profile: Profile,
        info: PodInfo,
        snapshot: Snapshot,
        state: CycleState,
        order: Ints,
        *,
        rejected: bool = False,
    ) -> None:
        self.profile = profile
        self.info = info
        self.snapshot = snapshot
        self.state = state
        self.order = order
        self.rejected = rejected
        self.scores_by_plugin: Sequence[PluginScores] = ()

    def fits_on(self, row: int) -> bool:
        """True if the pod fits on the node, even one that PreFilter does not leave."""
        view = self.snapshot.rows(np.array([row]))
        return self.profile.fits_on_node(self.state, self.info, view)

    @abstractmethod
    def first_fitting(self, start: int, count: int) -> tuple[Rows, int]:
        """Returns the first `count` positions where the pod fits, and how many nodes were looked
        at.

        The search goes from `start` to the end and on from the beginning. If at most `count` nodes
        fit, it looks at all nodes, unless the first `count` all fit.
        """

    @abstractmethod
    def pre_score(self, nodes: NodeView) -> None:
        """Prepares the scores of nodes."""

    @abstractmethod
    def totals(self, nodes: NodeView, positions: Rows) -> Ints:
        """Returns int64[nodes.size]: the sums of all plugins' scores, up to a constant, for the
        nodes at these positions.
        """

    @abstractmethod
    def evaluation(self) -> Evaluation:
        """Returns the answers of the filters about every node."""
