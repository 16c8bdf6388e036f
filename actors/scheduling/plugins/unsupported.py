"""The plugin for dynamic resources, which berth does not support yet.

For a pod without claims, it does what Kubernetes' plugin does: it asks to be skipped at the same
extension points, and gives the same scores. A pod with claims is rejected with a clear message,
because any node might break what its manifest demands. No event can change that, so the plugin
registers for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from berth.plugin import (
    SKIP,
    CycleState,
    FailedAttempt,
    Handle,
    Ints,
    NodeView,
    Plugin,
    PodInfo,
    PostFiltered,
    PostFilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    Reads,
    Registration,
    ScorePlugin,
    Snapshot,
    StateKey,
    Status,
    error,
    unresolvable,
    unschedulable,
)

_PRE_FILTERED: StateKey[bool] = StateKey("DynamicResources")


class DynamicResources(PreFilterPlugin, PostFilterPlugin, ScorePlugin):
    """Treats a pod without claims as Kubernetes' plugin does.

    It scores every node 0, and its PostFilter has no claims to deallocate.
    """

    name = "DynamicResources"
    reads = Reads.NODE

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)

    def events_to_register(self) -> Sequence[Registration]:
        return ()

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        state.write(_PRE_FILTERED, True)
        return (
            unresolvable("resourceClaims are not supported by this version of berth")
            if info.pod.spec.resource_claims
            else SKIP
        )

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        if attempt.state.get(_PRE_FILTERED) is None:
            return PostFiltered(error("not found"))
        return PostFiltered(unschedulable("no new claims to deallocate"))

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        state.read(_PRE_FILTERED)
        return np.zeros(nodes.size, dtype=np.int64)
