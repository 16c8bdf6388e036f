"""The plugins for volumes and dynamic resources, which berth does not support yet.

For a pod that uses neither, they do what Kubernetes' plugins do: they ask to be skipped at the same
extension points, and give the same scores. A pod that uses one of the two is rejected with a clear
message, because any node might break what its manifest demands. No event can change that, so the
plugins register for none.
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
    Pod,
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


class _UnsupportedPlugin(PreFilterPlugin):
    """Rejects pods that use the feature and skips all others. It reads only the pod's spec."""

    reads = Reads.NODE
    feature: str

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)

    def is_used_by(self, pod: Pod) -> bool:
        raise AssertionError(f"{type(self).__name__} must implement is_used_by")

    def events_to_register(self) -> Sequence[Registration]:
        return ()

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        return (
            unresolvable(f"{self.feature} not supported by this version of berth")
            if self.is_used_by(info.pod)
            else SKIP
        )


class _UnsupportedVolumePlugin(_UnsupportedPlugin):
    feature = "persistentVolumeClaim and ephemeral volumes are"

    def is_used_by(self, pod: Pod) -> bool:
        volumes = pod.spec.volumes
        return any(
            v.persistent_volume_claim is not None or v.ephemeral is not None for v in volumes
        )


class NodeVolumeLimits(_UnsupportedVolumePlugin):
    name = "NodeVolumeLimits"


_PRE_FILTERED: StateKey[bool] = StateKey("DynamicResources")


class DynamicResources(_UnsupportedPlugin, PostFilterPlugin, ScorePlugin):
    """Treats a pod without claims as Kubernetes' plugin does.

    It scores every node 0, and its PostFilter has no claims to deallocate.
    """

    name = "DynamicResources"
    feature = "resourceClaims are"

    def is_used_by(self, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims)

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        state.write(_PRE_FILTERED, True)
        return super().pre_filter(state, info, snapshot)

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        if attempt.state.get(_PRE_FILTERED) is None:
            return PostFiltered(error("not found"))
        return PostFiltered(unschedulable("no new claims to deallocate"))

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        state.read(_PRE_FILTERED)
        return np.zeros(nodes.size, dtype=np.int64)
