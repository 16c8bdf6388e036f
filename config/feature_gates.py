"""The feature gates of Kubernetes 1.36 that affect a scheduler's decisions, with their defaults.

Those that begin with Berth are berth's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

# The older negotiation of devices, of resource.k8s.io/v1alpha2.
POD_SCHEDULING_CONTEXT = "BerthPodSchedulingContext"

DEFAULTS: Mapping[str, bool] = {
    POD_SCHEDULING_CONTEXT: False,
    "ClearingNominatedNodeNameAfterBinding": True,
    "DRAAdminAccess": True,
    "DRAConsumableCapacity": True,
    "DRADeviceBindingConditions": True,
    "DRADeviceTaints": True,
    "DRAExtendedResource": True,
    "DRAPartitionableDevices": True,
    "DRAPrioritizedList": True,
    "DRAResourceClaimDeviceStatus": True,
    "DRASchedulerFilterTimeout": True,
    "DynamicResourceAllocation": True,
    "GangScheduling": False,
    "GenericWorkload": False,
    "InPlacePodVerticalScaling": True,
    "MatchLabelKeysInPodAffinity": True,
    "MatchLabelKeysInPodTopologySpread": True,
    "NodeDeclaredFeatures": True,
    "NodeInclusionPolicyInPodTopologySpread": True,
    "NominatedNodeNameForExpectation": True,
    "OpportunisticBatching": True,
    "PodLevelResources": True,
    "PodSchedulingReadiness": True,
    "SchedulerAsyncAPICalls": False,
    "SchedulerAsyncPreemption": True,
    "SchedulerPopFromBackoffQ": True,
    "SchedulerQueueingHints": True,
    "SidecarContainers": True,
    "StorageCapacityScoring": False,
    "TaintTolerationComparisonOperators": False,
    "TopologyAwareWorkloadScheduling": False,
    "VolumeLimitScaling": False,
    "WorkloadAwarePreemption": False,
}


class FeatureGateError(ValueError):
    """A gate is unknown, or its value is neither true nor false; the message names it."""


def parse_gates(text: str) -> dict[str, bool]:
    """The gates in a flag's text, such as `A=true,B=false`. Raises FeatureGateError."""
    given = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        if not separator or value.strip().lower() not in ("true", "false"):
            raise FeatureGateError(f"feature gates: expected NAME=true or NAME=false, got {part!r}")
        given[name.strip()] = value.strip().lower() == "true"
    return given


def with_defaults(given: Mapping[str, bool]) -> dict[str, bool]:
    """Every gate with its value. Raises FeatureGateError for an unknown gate."""
    for name in given:
        if name not in DEFAULTS:
            near = get_close_matches(name, DEFAULTS, 1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise FeatureGateError(f"feature gates: unknown gate {name!r}{hint}")
    return {**DEFAULTS, **given}
