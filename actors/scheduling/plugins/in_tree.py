"""The in-tree plugins by name, as the configuration file names them."""

from __future__ import annotations

from berth.actors.scheduling.plugins.default_binder import DefaultBinder
from berth.actors.scheduling.plugins.default_preemption.plugin import DefaultPreemption
from berth.actors.scheduling.plugins.dynamic_resources.plugin import DynamicResources
from berth.actors.scheduling.plugins.image_locality import ImageLocality
from berth.actors.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from berth.actors.scheduling.plugins.node_affinity import NodeAffinity
from berth.actors.scheduling.plugins.node_basics import (
    NodeName,
    NodePorts,
    NodeUnschedulable,
    PrioritySort,
    SchedulingGates,
)
from berth.actors.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from berth.actors.scheduling.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from berth.actors.scheduling.plugins.node_resources_fit import NodeResourcesFit
from berth.actors.scheduling.plugins.node_volume_limits.plugin import NodeVolumeLimits
from berth.actors.scheduling.plugins.pod_scheduling_context.plugin import (
    PodSchedulingContexts,
)
from berth.actors.scheduling.plugins.pod_topology_spread import PodTopologySpread
from berth.actors.scheduling.plugins.taint_toleration import TaintToleration
from berth.actors.scheduling.plugins.volume_binding.plugin import VolumeBinding
from berth.actors.scheduling.plugins.volume_restrictions import VolumeRestrictions
from berth.actors.scheduling.plugins.volume_zone import VolumeZone
from berth.config.feature_gates import POD_SCHEDULING_CONTEXT
from berth.plugin import Plugin

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

# The plugins that exist only with a feature gate of berth's own, by the gate.
GATED: dict[str, type[Plugin]] = {POD_SCHEDULING_CONTEXT: PodSchedulingContexts}
