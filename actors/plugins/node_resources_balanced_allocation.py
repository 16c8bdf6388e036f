"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod brings closer to equal use.

Balance is 1 minus the standard deviation of the used fractions, in 0..100; the score compares the balance with and
without the pod: 50 + (50 + with - without) / 2, in integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
from actors.model.columns import Bools, Ints
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView
from actors.model.vectors import Floats
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
        have: list[Ints] = []
        used: list[Ints] = []  # with the pod
        before: list[Ints] = []
        for name in self._resources:
            allocatable, requested = columns.allocatable(name), columns.requested(name)
            asked = info.requests.get(name, 0)
            if allocatable is None or requested is None or (asked == 0 and name not in NATIVE):
                continue
            have.append(allocatable[rows])
            before.append(requested[rows])
            used.append(before[-1] + asked)
        half = MAX_NODE_SCORE // 2
        if not have:
            return np.full(nodes.size, half + half // 2, dtype=np.int64)
        balance = _balance(np.array((used, before)), np.array(have))
        gain = half + balance[0] - balance[1]
        return np.asarray(half + (gain + (gain < 0)) // 2)  # Go divides towards zero.


def _balance(used: Ints, have: Ints) -> Ints:
    """int((1 - deviation) * 100) of the used fractions of resources: int64[..., resources, n] -> int64[..., n].

    A resource that a node has none of does not count. Two have a simple form, which rounds otherwise than the full one.
    """
    fractions = np.minimum(used / np.maximum(have, 1), 1.0)
    there = have > 0
    if len(have) == 2 and there.all():
        deviation = np.abs(fractions[..., 0, :] - fractions[..., 1, :]) / 2
    else:
        deviation = _deviation(fractions, there)
    return np.asarray(((1 - deviation) * MAX_NODE_SCORE).astype(np.int64))


def _deviation(fractions: Floats, there: Bools) -> Floats:
    values = np.where(there, fractions, 0.0)
    count = there.sum(axis=0)
    mean = values.sum(axis=-2, keepdims=True) / np.maximum(count, 1)
    squares = np.where(there, (values - mean) ** 2, 0.0).sum(axis=-2)
    low = np.where(there, fractions, np.inf).min(axis=-2)
    high = np.where(there, fractions, -np.inf).max(axis=-2)
    simple = np.where(count == 2, (high - low) / 2, 0.0)
    return np.asarray(np.where(count > 2, np.sqrt(squares / np.maximum(count, 1)), simple))
