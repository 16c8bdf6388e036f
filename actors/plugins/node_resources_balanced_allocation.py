"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod brings closer to equal use.

Balance is 1 minus the standard deviation of the used fractions, in 0..100; the score compares the balance with and
without the pod: 50 + (50 + with - without) / 2, in integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.framework.cycle_state import CycleState
from actors.framework.interface import (
    MAX_NODE_SCORE,
    Handle,
    Plugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    read_args,
)
from actors.framework.status import SKIP, SUCCESS, Status
from actors.model.columns import Ints
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView
from actors.plugins.node_resources_fit import NATIVE
from actors.plugins.resource_args import NodeResourcesBalancedAllocationArgs, checked_resources


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    name = "NodeResourcesBalancedAllocation"
    reads = Reads.ROW

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        parsed = read_args(args, NodeResourcesBalancedAllocationArgs)
        resources = checked_resources(parsed.resources, "resources", only_weight_one=True)
        self._resources = tuple(resource.name for resource in resources)

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        asks = any(info.requests.get(name, 0) for name in self._resources)
        return SUCCESS if asks else SKIP

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        columns, rows = nodes.columns, nodes.rows
        with_pod, without = [], []
        for name in self._resources:
            allocatable, requested = columns.allocatable(name), columns.requested(name)
            asked = info.requests.get(name, 0)
            if allocatable is None or requested is None or (asked == 0 and name not in NATIVE):
                continue
            have, used = allocatable[rows], requested[rows]
            with_pod.append(_fraction(used + asked, have))
            without.append(_fraction(used, have))
        half = MAX_NODE_SCORE // 2
        gain = half + _balance(with_pod, nodes.size) - _balance(without, nodes.size)
        # The gain is never under -50, and Go divides towards zero.
        return np.asarray(half + np.trunc(gain / 2).astype(np.int64))


def _fraction(used: Ints, have: Ints) -> NDArray[np.float64]:
    """used / have, 1 at most; NaN where the node has none of it."""
    fraction = np.minimum(used / np.maximum(have, 1), 1.0)
    fraction[have == 0] = np.nan
    return fraction


def _balance(fractions: list[NDArray[np.float64]], size: int) -> Ints:
    """int((1 - deviation) * 100) of the fractions that are there; the simple form for exactly two."""
    if not fractions:
        return np.full(size, MAX_NODE_SCORE, dtype=np.int64)
    matrix = np.array(fractions)
    there = ~np.isnan(matrix)
    values = np.where(there, matrix, 0.0)
    count = there.sum(axis=0)
    mean = values.sum(axis=0) / np.maximum(count, 1)
    squares = np.where(there, (values - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.where(count > 2, np.sqrt(squares / np.maximum(count, 1)), 0.0)
    low = np.where(there, matrix, np.inf).min(axis=0)
    high = np.where(there, matrix, -np.inf).max(axis=0)
    two = count == 2
    deviation[two] = (high[two] - low[two]) / 2
    return ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
