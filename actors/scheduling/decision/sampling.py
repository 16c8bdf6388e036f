"""Sampling: how many nodes that fit are enough, and where the search for them starts.

Mirrors numFeasibleNodesToFind and nextStartNodeIndex.
"""

from __future__ import annotations

from collections.abc import Sequence

from berth.config.types import Extender

from ..model.vectors import Rows
from .candidates import Candidates

MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENT = 5


def sample_size(percentage: int, nodes: int) -> int:
    """How many feasible nodes are enough, at least 100 of them.

    A percentage of 0 adapts to the cluster: 50 - nodes/125, but not less than 5.
    """
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, MIN_FEASIBLE_PERCENT)
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)


class Sampling:
    """Finds nodes that fit, from where the search for the pod before ended: `start`."""

    def __init__(self, percentage: int = 0, extenders: Sequence[Extender] = ()) -> None:
        """`percentage` holds for profiles that set none.

        `extenders` are all that are configured, whichever pods they are interested in.
        """
        self.start = 0
        self._percentage = percentage
        self._extenders_choose = any(
            extender.filter_verb or extender.prioritize_verb for extender in extenders
        )

    def __call__(self, candidates: Candidates) -> tuple[Rows, int]:
        """The positions of the feasible nodes to score, and how many nodes were looked at.

        One node is enough if no Score plugin and no extender that could prefer another is
        configured, not even one that has no interest in this pod. `start` counts all nodes, also
        where PreFilter left only some.
        """
        nodes, profile = len(candidates.order), candidates.profile
        if not nodes:
            return slice(0, 0), 0
        percentage = profile.percentage_of_nodes_to_score
        wanted = sample_size(self._percentage if percentage is None else percentage, nodes)
        if profile.scores_nothing and not self._extenders_choose:
            wanted = 1
        sample, looked_at = candidates.first_fitting(self.start % nodes, wanted)
        self.start = (self.start + looked_at) % len(candidates.snapshot)
        return sample, looked_at


def every_node(candidates: Candidates) -> tuple[Rows, int]:
    """All nodes that fit."""
    return candidates.first_fitting(0, len(candidates.order))
