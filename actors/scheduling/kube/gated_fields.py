"""The parts of a pod that count only with a feature gate, or from a version of Kubernetes on.

They are dropped or marked as soon as a pod is read, so that no other code has to check the gates.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from .core import Pod, PodSpec, PodStatus
from .requests import resized_at_once
from .taints import COMPARISONS


class GatedFields:
    def __init__(self, gates: Mapping[str, bool]) -> None:
        self._pod_level = gates["PodLevelResources"]
        self._pod_level_status = gates["InPlacePodLevelResourcesVerticalScaling"]
        self._comparisons = gates["TaintTolerationComparisonOperators"]
        self._spread_label_keys = gates["MatchLabelKeysInPodTopologySpread"]
        self._resized_at_once = gates["ResizeFootprint"]

    def drop(self, pod: Pod) -> Pod:
        """Returns the pod without the parts whose gates are off. With ResizeFootprint, its status
        becomes a ResizedAtOnce status.
        """
        spec, status = self._spec(pod.spec), pod.status
        if not self._pod_level_status:
            status = _without_resize(status)
        if self._resized_at_once:
            status = resized_at_once(status)
        if spec is pod.spec and status is pod.status:
            return pod
        return replace(pod, spec=spec, status=status)

    def _spec(self, spec: PodSpec) -> PodSpec:
        if not self._comparisons:
            for toleration in spec.tolerations:
                if toleration.operator in COMPARISONS:
                    kept = tuple(t for t in spec.tolerations if t.operator not in COMPARISONS)
                    spec = replace(spec, tolerations=kept)
                    break
        if not self._pod_level and spec.resources is not None:
            spec = replace(spec, resources=None)
        constraints = spec.topology_spread_constraints
        if (
            constraints
            and not self._spread_label_keys
            and any(constraint.match_label_keys for constraint in constraints)
        ):
            constraints = tuple(replace(each, match_label_keys=()) for each in constraints)
            spec = replace(spec, topology_spread_constraints=constraints)
        return spec


def _without_resize(status: PodStatus) -> PodStatus:
    """Returns the status without the node's report on a resize of the pod's own resources."""
    if status.resources is None and not status.allocated_resources:
        return status
    return replace(status, resources=None, allocated_resources={})
