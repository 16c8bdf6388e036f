"""The plugins of volumes and of dynamic resources, as far as a pod without either meets them.

They ask to be skipped where Kubernetes' plugins do, and score what those score. A pod that needs
one of them is refused in plain words: placing it would break a promise that its manifest makes. No
event can help it, so they register for none.
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
    PreScorePlugin,
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


class _Refusal(PreFilterPlugin):
    """Skips the pods that do not need the feature, refuses the others; looks at nothing but the
    pod's spec.
    """

    reads = Reads.NODE
    feature: str

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)

    def needs(self, pod: Pod) -> bool:
        raise AssertionError(f"{type(self).__name__} must say which pods need it")

    def events_to_register(self) -> Sequence[Registration]:
        return ()

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        return (
            unresolvable(f"{self.feature} not supported by this version of berth")
            if self.needs(info.pod)
            else SKIP
        )


class _VolumeRefusal(_Refusal):
    feature = "persistentVolumeClaim and ephemeral volumes are"

    def needs(self, pod: Pod) -> bool:
        volumes = pod.spec.volumes
        return any(
            v.persistent_volume_claim is not None or v.ephemeral is not None for v in volumes
        )


class VolumeRestrictions(_Refusal):
    """Disks that only some pods may share at a time are refused as well."""

    name = "VolumeRestrictions"
    feature = "gcePersistentDisk, awsElasticBlockStore, rbd and iscsi volumes are"

    def needs(self, pod: Pod) -> bool:
        return any(
            v.gce_persistent_disk or v.aws_elastic_block_store or v.rbd or v.iscsi
            for v in pod.spec.volumes
        )


class NodeVolumeLimits(_VolumeRefusal):
    name = "NodeVolumeLimits"


class VolumeZone(_VolumeRefusal):
    name = "VolumeZone"


class VolumeBinding(_VolumeRefusal, PreScorePlugin, ScorePlugin):
    name = "VolumeBinding"

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        return SKIP

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        return np.zeros(nodes.size, dtype=np.int64)


_SEEN: StateKey[bool] = StateKey("DynamicResources")


class DynamicResources(_Refusal, PostFilterPlugin, ScorePlugin):
    """Scores, like Kubernetes' plugin, 0 on every node for a pod without claims, and has none to
    take back.
    """

    name = "DynamicResources"
    feature = "resourceClaims are"

    def needs(self, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims)

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        state.write(_SEEN, True)
        return super().pre_filter(state, info, snapshot)

    def post_filter(self, attempt: FailedAttempt) -> PostFiltered:
        if attempt.state.get(_SEEN) is None:
            return PostFiltered(error("not found"))
        return PostFiltered(unschedulable("no new claims to deallocate"))

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        state.read(_SEEN)
        return np.zeros(nodes.size, dtype=np.int64)
