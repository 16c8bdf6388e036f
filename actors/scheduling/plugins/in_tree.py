"""The in-tree plugins by name, as the configuration file names them."""

from __future__ import annotations

from berth.plugin import Plugin

from .default_binder import DefaultBinder
from .default_preemption.plugin import DefaultPreemption
from .dynamic_resources.plugin import DynamicResources
from .image_locality import ImageLocality
from .inter_pod_affinity import InterPodAffinity
from .node_affinity import NodeAffinity
from .node_basics import NodeName, NodePorts, NodeUnschedulable, PrioritySort, SchedulingGates
from .node_declared_features import NodeDeclaredFeatures
from .node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from .node_resources_fit import NodeResourcesFit
from .node_volume_limits.plugin import NodeVolumeLimits
from .pod_topology_spread import PodTopologySpread
from .taint_toleration import TaintToleration
from .volume_binding.plugin import VolumeBinding
from .volume_restrictions import VolumeRestrictions
from .volume_zone import VolumeZone

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
