"""Names that v1 of Kubernetes 1.36 does not have: plugins of other projects, and fields of older
versions with what became of them.
"""

from __future__ import annotations

from collections.abc import Mapping

_SIGS, _KOORDINATOR = "scheduler-plugins", "Koordinator"
_VOLCANO, _YUNIKORN = "Volcano", "Apache YuniKorn"
_PROJECTS: Mapping[str, tuple[str, ...]] = {
    _SIGS: (
        "CapacityScheduling",
        "Coscheduling",
        "CrossNodePreemption",
        "LoadVariationRiskBalancing",
        "LowRiskOverCommitment",
        "NetworkOverhead",
        "NodeMetadata",
        "NodeResourceTopologyMatch",
        "NodeResourcesAllocatable",
        "Peaks",
        "PodState",
        "PreemptionToleration",
        "QOSSort",
        "SySched",
        "TargetLoadPacking",
        "TopologicalSort",
    ),
    _KOORDINATOR: (
        "Coscheduling",
        "DefaultPreBind",
        "DeviceShare",
        "ElasticQuota",
        "LoadAwareScheduling",
        "NodeNUMAResource",
        "NodeResourcesFitPlus",
        "Reservation",
        "ScarceResourceAvoidance",
        "SchedulingHint",
    ),
    _VOLCANO: (
        "binpack",
        "capacity",
        "cdp",
        "conformance",
        "deviceshare",
        "drf",
        "extender",
        "gang",
        "network-topology-aware",
        "nodegroup",
        "nodeorder",
        "numa-aware",
        "overcommit",
        "pdb",
        "predicates",
        "priority",
        "proportion",
        "rescheduling",
        "resource-strategy-fit",
        "resourcequota",
        "sla",
        "task-topology",
        "tdm",
        "usage",
    ),
    _YUNIKORN: ("YuniKornPlugin", "yunikornPlugin"),
}
_OF_PROFILES = "each of the profiles has its own"
# What became of fields of older versions, by the type that had them.
_MOVED: Mapping[str, Mapping[str, str]] = {
    "KubeSchedulerConfiguration": {
        "algorithmSource": "the plugins are the default ones, or those of a profile",
        "bindTimeoutSeconds": "it is bindTimeoutSeconds in the args of VolumeBinding now",
        "disablePreemption": "a profile disables DefaultPreemption at postFilter instead",
        "featureGates": "the flag --feature-gates has them",
        "hardPodAffinitySymmetricWeight": (
            "it is hardPodAffinityWeight in the args of InterPodAffinity now"
        ),
        "healthzBindAddress": "--bind-address and --secure-port say where health is served",
        "metricsBindAddress": "--bind-address and --secure-port say where metrics are served",
        "pluginConfig": _OF_PROFILES,
        "plugins": _OF_PROFILES,
        "schedulerName": _OF_PROFILES,
    },
    "LeaderElectionConfiguration": {
        "lockObjectName": "it is resourceName now",
        "lockObjectNamespace": "it is resourceNamespace now",
    },
    "Plugins": {"unreserve": "reserve has both"},
}


def project_of(plugin: str) -> str:
    """Returns the well-known projects that have a plugin of this name, "" if there is none."""
    return " or ".join(name for name, plugins in _PROJECTS.items() if plugin in plugins)


def of_older_versions(type_name: str, field: str) -> str:
    """Returns what became of a field that older versions of a type have; "" if none has it."""
    moved = _MOVED.get(type_name, {}).get(field)
    return "" if moved is None else f"of an older version: {moved}"
