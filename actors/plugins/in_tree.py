"""The in-tree plugins by the names of the configuration file."""

from __future__ import annotations

from actors.framework.interface import Plugin
from actors.plugins.default_binder import DefaultBinder
from actors.plugins.default_preemption import DefaultPreemption
from actors.plugins.image_locality import ImageLocality
from actors.plugins.inter_pod_affinity import InterPodAffinity
from actors.plugins.node_affinity import NodeAffinity
from actors.plugins.node_basics import NodeName, NodePorts, NodeUnschedulable, PrioritySort, SchedulingGates
from actors.plugins.node_declared_features import NodeDeclaredFeatures
from actors.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from actors.plugins.node_resources_fit import NodeResourcesFit
from actors.plugins.pod_topology_spread import PodTopologySpread
from actors.plugins.taint_toleration import TaintToleration
from actors.plugins.unsupported import (
    DynamicResources,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)

IN_TREE: dict[str, type[Plugin]] = {
    plugin.name: plugin
    for plugin in (
        SchedulingGates,
        PrioritySort,
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        DefaultBinder,
        NodeDeclaredFeatures,
        DefaultPreemption,
    )
}
