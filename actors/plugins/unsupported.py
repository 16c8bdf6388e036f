"""The plugins of volumes and of dynamic resources, as far as a pod without either meets them.

They ask to be skipped where Kubernetes' plugins do, and score what those score. A pod that needs one of them is
refused in plain words: placing it would break a promise that its manifest makes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from actors.framework.cycle_state import CycleState
from actors.framework.interface import Handle, Plugin, PreFilterPlugin, PreFilterResult, PreScorePlugin, ScorePlugin
from actors.framework.status import SKIP, Status, unresolvable
from actors.kube.core import Pod
from actors.model.pod_info import PodInfo
from actors.model.snapshot import NodeView, Snapshot
from actors.model.vectors import Ints


class _Refusal(PreFilterPlugin):
    """Skips the pods that do not need the feature, refuses the others."""

    feature: str

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)

    def needs(self, pod: Pod) -> bool:
        raise AssertionError(f"{type(self).__name__} must say which pods need it")

    def pre_filter(self, state: CycleState, info: PodInfo, snapshot: Snapshot) -> Status | PreFilterResult:
        return unresolvable(f"{self.feature} not supported by this version of berth") if self.needs(info.pod) else SKIP


class _VolumeRefusal(_Refusal):
    feature = "persistentVolumeClaim and ephemeral volumes are"

    def needs(self, pod: Pod) -> bool:
        volumes = pod.spec.volumes
        return any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in volumes)


class VolumeRestrictions(_VolumeRefusal):
    name = "VolumeRestrictions"


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


class DynamicResources(_Refusal, ScorePlugin):
    """Scores, like Kubernetes' plugin, 0 on every node for a pod without claims."""

    name = "DynamicResources"
    feature = "resourceClaims are"

    def needs(self, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims)

    def score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Ints:
        return np.zeros(nodes.size, dtype=np.int64)
