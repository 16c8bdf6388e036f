"""NodeResourcesBalancedAllocation: prefers nodes where the pod balances the use of resources.

The balance is 1 minus the standard deviation of the used fractions, scaled to 0..100. The score
compares the balance with and without the pod: 50 + (50 + with - without) / 2, in integers. Devices
count as they do for NodeResourcesFit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    MAX_NODE_SCORE,
    SKIP,
    SUCCESS,
    Bools,
    CycleState,
    DependsOn,
    Handle,
    Ints,
    NodeView,
    Plugin,
    PodInfo,
    PreScorePlugin,
    ScorePlugin,
    Status,
    read_args,
)

from ..kube.devices import may_be_devices
from ..model.amounts import SAFE_AMOUNT
from ..model.vectors import Floats, lowest
from .dynamic_resources.totals import DeviceTotals
from .node_resources_fit import NATIVE, device_totals
from .resource_args import NodeResourcesBalancedAllocationArgs


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    name = "NodeResourcesBalancedAllocation"
    args_type = NodeResourcesBalancedAllocationArgs
    depends_on = DependsOn.NODE_AND_PODS

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)
        parsed = read_args(args, NodeResourcesBalancedAllocationArgs, handle.feature_gates)
        self._resources = tuple(resource.name for resource in parsed.resources)
        self._totals = device_totals(self._resources, handle)
        if self._totals is not None:
            self.depends_on, self.lookups = DependsOn.CLUSTER, DeviceTotals.LOOKUPS

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        return SUCCESS if self._requests_any(info) else SKIP

    def _requests_any(self, info: PodInfo) -> bool:
        return any(info.requests.get(name, 0) for name in self._resources)

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        requests = info.requests
        names = [name for name in self._resources if name in NATIVE or requests.get(name, 0)]
        if not self._requests_any(info):  # PreScore, which would skip such a pod, is not enabled.
            return np.zeros(nodes.size, dtype=np.int64)
        have, before = nodes.allocatable(names), nodes.requested(names)
        if self._totals is not None:
            for i, name in enumerate(names):
                if may_be_devices(name):
                    have[i], before[i] = self._totals.in_place(name, nodes, have[i], before[i])
        added = np.array([[(requests.get(name, 0),) for name in names], [(0,)] * len(names)])
        if nodes.columns.requested.huge or max(requests.values()) > SAFE_AMOUNT:
            # Amounts are never negative, so the sum of two always fits in an unsigned integer.
            used = before.view(np.uint64) + added.view(np.uint64)
        else:
            used = before + added
        with_pod, without = _balance(used, have)
        return np.asarray(_SCORES[with_pod - without])


def _score(gain: int) -> int:
    """Returns 50 + (50 + gain) / 2, divided towards zero as in Go."""
    half = MAX_NODE_SCORE // 2
    return half + (half + gain + (half + gain < 0)) // 2


# The scores of the gains 0 to 100, then -100 to -1: negative gains index from the end.
_SCORES = np.array(
    [_score(gain) for gain in (*range(MAX_NODE_SCORE + 1), *range(-MAX_NODE_SCORE, 0))],
    dtype=np.int64,
)


def _balance(used: Ints | NDArray[np.uint64], have: Ints) -> Ints:
    """Returns int((1 - deviation) * 100) of the used fractions: int64[..., resources, n] ->
    int64[..., n].

    A resource that a node does not have does not count. Two resources have a simple form, which
    rounds differently from the general one.
    """
    if len(have) == 2 and lowest(have.ravel()) > 0:
        fractions = np.minimum(used / have, 1.0)
        deviation = np.abs(fractions[..., 0, :] - fractions[..., 1, :]) / 2
    else:
        deviation = _deviation(np.minimum(used / np.maximum(have, 1), 1.0), have > 0)
    return np.asarray(((1 - deviation) * MAX_NODE_SCORE).astype(np.int64))


def _deviation(fractions: Floats, present: Bools) -> Floats:
    values = np.where(present, fractions, 0.0)
    count = present.sum(axis=0)
    mean = values.sum(axis=-2, keepdims=True) / np.maximum(count, 1)
    squares = np.where(present, (values - mean) ** 2, 0.0).sum(axis=-2)
    low = np.where(present, fractions, np.inf).min(axis=-2)
    high = np.where(present, fractions, -np.inf).max(axis=-2)
    simple = np.where(count == 2, (high - low) / 2, 0.0)
    return np.asarray(np.where(count > 2, np.sqrt(squares / np.maximum(count, 1)), simple))
