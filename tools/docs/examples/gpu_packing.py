"""The GpuPacking plugin: pods with GPUs fill one node after the other, and pods without keep off.

Whole nodes stay free for pods that need many GPUs. It has the vector form: one answer for all
nodes, which is kept until a node or its pods change.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from berth.plugin import (
    MAX_NODE_SCORE,
    CycleState,
    DependsOn,
    Handle,
    Ints,
    NodeView,
    PodInfo,
    ScorePlugin,
    read_args,
)


class GpuPackingArgs(msgspec.Struct, forbid_unknown_fields=True):
    resource: str = "nvidia.com/gpu"


class GpuPacking(ScorePlugin):
    name = "GpuPacking"
    args_type = GpuPackingArgs
    depends_on = DependsOn.NODE_AND_PODS

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__({}, handle)
        self.args = read_args(args, GpuPackingArgs)

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        have = nodes.columns.allocatable(self.args.resource)[nodes.rows]
        wanted = info.requests.get(self.args.resource, 0)
        if wanted == 0:
            return np.where(have == 0, MAX_NODE_SCORE, 0)
        used = nodes.columns.requested(self.args.resource)[nodes.rows] + wanted
        return np.minimum(MAX_NODE_SCORE * used // np.maximum(have, 1), MAX_NODE_SCORE)
