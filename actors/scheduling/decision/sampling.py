"""Sampling: the number of feasible nodes that is enough, and the start of the search for them.

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
    """Returns how many feasible nodes are enough, at least 100.

    A percentage of 0 adapts to the cluster: 50 - nodes/125, but not less than 5.
    """
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, MIN_FEASIBLE_PERCENT)
    return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)


class Sampling:
    """A search for feasible nodes that begins where the last one ended: at `start`."""

    def __init__(self, percentage: int = 0, extenders: Sequence[Extender] = ()) -> None:
        """Makes the search. `percentage` is for profiles that set none; `extenders` are all that
        are configured, whichever pods they are interested in.
        """
        self.start = 0
        self._percentage = percentage
        self._extenders_choose = any(
            extender.filter_verb or extender.prioritize_verb for extender in extenders
        )

    def __call__(self, candidates: Candidates) -> tuple[Rows, int]:
        """Returns the positions of the feasible nodes to score, and the number of nodes looked at.

        One node is enough without Score plugins and without extenders that could prefer another
        node, even if these have no interest in the pod. `start` counts all nodes, even if PreFilter
        left only some.
        """
        nodes, profile = len(candidates.order), candidates.profile
        if not nodes:
            return slice(0, 0), 0
        percentage = profile.percentage_of_nodes_to_score
        count = sample_size(self._percentage if percentage is None else percentage, nodes)
        if profile.scores_nothing and not self._extenders_choose:
            count = 1
        sample, looked_at = candidates.first_fitting(self.start % nodes, count)
        self.start = (self.start + looked_at) % len(candidates.snapshot)
        return sample, looked_at


def every_node(candidates: Candidates) -> tuple[Rows, int]:
    """Returns all nodes that fit."""
    return candidates.first_fitting(0, len(candidates.order))
