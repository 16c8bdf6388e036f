"""Refuses, in plain words, pods that ask for something that no plugin here decides yet.

Placing such a pod would break a promise its manifest makes, so it waits with a reason instead. Each class stands in
for the plugin of its name and asks to be skipped for every pod that does not need it.
"""

from __future__ import annotations

from typing import Any

from actors.framework.cycle_state import CycleState
from actors.framework.interface import Handle, Plugin, PreFilterPlugin, PreFilterResult
from actors.framework.status import SKIP, Status, unresolvable
from actors.kube.core import Pod
from actors.model.pod_info import PodInfo
from actors.model.snapshot import Snapshot


class _Refusal(PreFilterPlugin):
    """Skips the pods that do not need the feature, refuses the others."""

    feature: str

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        Plugin.__init__(self, {}, handle)

    def needs(self, pod: Pod) -> bool:
        raise AssertionError(f"{type(self).__name__} must say which pods need it")

    def pre_filter(
        self,
        state: CycleState,
        info: PodInfo,
        snapshot: Snapshot,
    ) -> Status | PreFilterResult:
        return unresolvable(f"{self.feature} not supported by this version of berth") if self.needs(info.pod) else SKIP


class PodTopologySpread(_Refusal):
    name = "PodTopologySpread"
    feature = "topologySpreadConstraints with whenUnsatisfiable DoNotSchedule are"

    def needs(self, pod: Pod) -> bool:
        constraints = pod.spec.topology_spread_constraints
        return any(constraint.when_unsatisfiable == "DoNotSchedule" for constraint in constraints)


class InterPodAffinity(_Refusal):
    name = "InterPodAffinity"
    feature = "required podAffinity and podAntiAffinity terms are"

    def needs(self, pod: Pod) -> bool:
        affinity = pod.spec.affinity
        if affinity is None:
            return False
        sides = (affinity.pod_affinity, affinity.pod_anti_affinity)
        return any(side is not None and side.required_during_scheduling_ignored_during_execution for side in sides)


class VolumeBinding(_Refusal):
    name = "VolumeBinding"
    feature = "persistentVolumeClaim and ephemeral volumes are"

    def needs(self, pod: Pod) -> bool:
        volumes = pod.spec.volumes
        return any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in volumes)


class DynamicResources(_Refusal):
    name = "DynamicResources"
    feature = "resourceClaims are"

    def needs(self, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims)
