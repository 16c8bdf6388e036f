"""The vector forms of Filter and Score for plugins with the scalar forms, which look at one node,
and for filters that look at feasible nodes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..framework.cycle_state import CycleState
from ..framework.interface import NodeFilterPlugin, NodeScorePlugin
from ..framework.status import SUCCESS, Status
from ..framework.verdicts import PASSES, Verdicts
from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView
from ..model.vectors import Bools, Ints
from .answers import as_normalized, as_passing, as_raw_score, as_verdicts
from .failures import FILTER, NORMALIZE, SCORE
from .guard import Hook
from .overruns import calls_plugins
from .statuses import as_verdict

S = TypeVar("S")
# Nodes, and which are feasible so far (None: all): plugins are asked only about these.
Feasible = tuple[NodeView, Bools | None]


class FilterEach:
    """The vector form of a filter in the scalar form."""

    def __init__(self, plugin: NodeFilterPlugin) -> None:
        self._each = Hook(plugin, FILTER, plugin.filter_node, as_verdict, SUCCESS, timed=False)

    def filter(self, state: CycleState, info: PodInfo, feasible: Feasible) -> Verdicts:
        nodes, left = feasible
        statuses: list[Status] = [SUCCESS]
        codes = np.zeros(nodes.size, dtype=np.int8)
        keys = np.zeros(nodes.size, dtype=np.int64)
        for position in range(nodes.size) if left is None else np.flatnonzero(left).tolist():
            node = nodes.info(position)
            if node is None:
                continue
            status = self._each.ask(state, info, node)
            if not status.ok:
                codes[position] = status.code
                keys[position] = len(statuses)
                statuses.append(status)
        return Verdicts(codes, keys, lambda key: statuses[key].reasons)

    def passing(self, state: CycleState, info: PodInfo, feasible: Feasible) -> Bools:
        return np.asarray(self.filter(state, info, feasible).codes == PASSES)


class FilterFeasible:
    """A filter in the vector form that sees only the feasible nodes of a view."""

    def __init__(
        self,
        verdicts: Callable[[CycleState, PodInfo, NodeView], Verdicts | None],
        passing: Callable[[CycleState, PodInfo, NodeView], Bools | None],
    ) -> None:
        self._verdicts = verdicts
        self._passing = passing

    @calls_plugins
    def filter(self, state: CycleState, info: PodInfo, feasible: Feasible) -> Verdicts | None:
        nodes, left = feasible
        some = nodes if left is None else nodes.only(left)
        verdicts = self._verdicts(state, info, some) if some.size else None
        if verdicts is None:
            return None
        as_verdicts(verdicts, some)
        if left is None or some is nodes:
            return verdicts
        codes = np.zeros(nodes.size, dtype=np.int8)
        keys = np.zeros(nodes.size, dtype=np.int64)
        codes[left], keys[left] = verdicts.codes, verdicts.keys
        return Verdicts(codes, keys, verdicts.explain)

    @calls_plugins
    def passing(self, state: CycleState, info: PodInfo, feasible: Feasible) -> Bools | None:
        nodes, left = feasible
        some = nodes if left is None else nodes.only(left)
        fits = as_passing(self._passing(state, info, some), some) if some.size else None
        if fits is None or left is None or some is nodes:
            return fits
        passing = left.copy()
        passing[left] = fits
        return passing


def normalize_with_nodes(
    normalize: Callable[[CycleState, PodInfo, S], S],
) -> Callable[[CycleState, PodInfo, tuple[S, NodeView]], S]:
    """Returns the normalization with the nodes as a further argument, which the check needs."""

    @calls_plugins
    def normalize_raw(state: CycleState, info: PodInfo, raw: tuple[S, NodeView]) -> S:
        return normalize(state, info, raw[0])

    return normalize_raw


class ScoreEach:
    """The vector form of a score in the scalar form."""

    def __init__(self, plugin: NodeScorePlugin) -> None:
        self._each = Hook(plugin, SCORE, plugin.score_node, as_raw_score, timed=False)
        self._normalize = Hook(
            plugin,
            NORMALIZE,
            normalize_with_nodes(plugin.normalize_scores),
            as_normalized,
            timed=False,
        )

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        """Returns the final scores."""
        scores = []
        for position in range(nodes.size):
            node = nodes.info(position)
            if node is not None:
                scores.append(self._each.ask(state, info, node))
        return self._normalize.ask(state, info, (scores, nodes))
