"""The table of reasons: the code of each text in which a plugin, or berth itself, says why a pod is
pending or has left its node, with the fields of the code.

In a text, {field} stands for what becomes the field of the cause, and {} for anything. Decisions
know texts alone; cause_search.py finds the code where an answer is made.
"""

from __future__ import annotations

import re

import msgspec

from ..cause import COMMON

REJECTED, REFUSED_BY_EXTENDER = "PluginRejected", "ExtenderRejected"
# The plugins of reasons that no plugin gives.
SCHEDULER, BERTH, EXTENDERS, FOREIGN = "the scheduler", "berth", "extenders", "other plugins"
PLACE = re.compile(r"\{(\w*)\}")


class ReasonRow(msgspec.Struct, frozen=True):
    """A row: who gives the reason, its code, the texts that it stands for, the meaning in a
    sentence, and the fields of which not all are in the texts.
    """

    plugins: tuple[str, ...]
    code: str
    texts: tuple[str, ...]
    meaning: str
    further: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields besides those that each cause has."""
        named = (name for text in self.texts for name in PLACE.findall(text))
        return tuple(
            dict.fromkeys(each for each in (*named, *self.further) if each not in ("", *COMMON))
        )


def _row(plugins: str, code: str, texts: str, meaning: str, further: str = "") -> ReasonRow:
    """Returns a row; plugins, texts and fields are divided by |."""
    of_texts = tuple(texts.split(" | ")) if texts else ()
    of_fields = tuple(filter(None, further.split("|")))
    return ReasonRow(tuple(plugins.split("|")), code, of_texts, meaning, of_fields)


_CLAIMS = "VolumeBinding|VolumeRestrictions|VolumeZone|NodeVolumeLimits"
REASONS = (
    _row(
        "NodeResourcesFit",
        "InsufficientResource",
        "Insufficient {resource}",
        "The node has less of a resource left than the pod requests.",
        "requested|allocatable|free|shortage",
    ),
    _row(
        "NodeResourcesFit",
        "TooManyPods",
        "Too many pods",
        "The node has as many pods as it may have.",
        "allocatable",
    ),
    _row(
        "NodeUnschedulable",
        "NodeUnschedulable",
        "node(s) were unschedulable",
        "The node is cordoned.",
    ),
    _row(
        "TaintToleration",
        "UntoleratedTaint",
        "node(s) had untolerated taint(s)",
        "The node has a taint that the pod does not tolerate; the first one is told.",
        "taint",
    ),
    _row(
        "NodeAffinity",
        "NodeSelectorMismatch",
        "node(s) didn't match Pod's node affinity/selector",
        "The node does not meet the pod's node selector or required node affinity.",
        "requirement",
    ),
    _row(
        "NodeAffinity",
        "EnforcedAffinityMismatch",
        "node(s) didn't match scheduler-enforced node affinity",
        "The node does not meet addedAffinity of the scheduler's configuration.",
    ),
    _row(
        "NodeAffinity",
        "NodeAffinityConflict",
        "pod affinity terms conflict",
        "No node can meet the pod's node affinity: its terms name nodes that exclude each other.",
    ),
    _row(
        SCHEDULER,
        "NodeLeftOut",
        "node(s) didn't satisfy plugin(s) [{plugins}]"
        " | node(s) didn't satisfy plugin(s) [{plugins}] simultaneously"
        " | node(s) didn't satisfy plugin {plugins}",
        "PreFilter of these plugins has left the node out before any other rule.",
        "requirement",
    ),
    _row(
        "NodeName",
        "NodeNameMismatch",
        "node(s) didn't match the requested node name",
        "The node is not the one that spec.nodeName names.",
        "node",
    ),
    _row(
        "NodePorts",
        "PortTaken",
        "node(s) didn't have free ports for the requested pod ports",
        "A host port of the pod is in use on the node.",
        "port|protocol|pod",
    ),
    _row(
        "InterPodAffinity",
        "PodAffinityUnmet",
        "node(s) didn't match pod affinity rules",
        "The node's topology has no pod that the pod's affinity asks for, or the node has no label "
        "of the topology.",
        "label",
    ),
    _row(
        "InterPodAffinity",
        "AntiAffinityViolated",
        "node(s) didn't match pod anti-affinity rules",
        "A pod in the node's topology is one that the pod's anti-affinity keeps away from.",
        "label|pod",
    ),
    _row(
        "InterPodAffinity",
        "ExistingAntiAffinityViolated",
        "node(s) didn't satisfy existing pods anti-affinity rules",
        "The anti-affinity of a pod in the node's topology keeps the pod away.",
        "pod",
    ),
    _row(
        "InterPodAffinity",
        "PodAffinityUnreadable",
        "pod affinity: {}",
        "A selector of the pod's affinity cannot be read.",
    ),
    _row(
        "PodTopologySpread",
        "TopologyLabelMissing",
        "node(s) didn't match pod topology spread constraints (missing required label)",
        "The node has no label of a topology that the pod is spread over.",
        "label|constraints",
    ),
    _row(
        "PodTopologySpread",
        "TopologySpreadViolated",
        "node(s) didn't match pod topology spread constraints",
        "With the pod, the node's topology would exceed the skew of these constraints.",
        "constraints",
    ),
    _row(
        "NodeDeclaredFeatures",
        "NodeFeatureMissing",
        "node(s) didn't match Pod's required features",
        "The node does not declare features that the pod needs.",
        "features",
    ),
    _row(
        "NodeUnreadable",
        "NodeUnreadable",
        "node(s) could not be read",
        "The latest state of the node could not be read.",
    ),
    _row(
        "VolumeRestrictions",
        "DiskInUse",
        "node(s) had no available disk",
        "A pod on the node uses a disk of the pod, which is not shared.",
    ),
    _row(
        "VolumeRestrictions",
        "ClaimInUse",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
        "Another pod uses a claim with the access mode ReadWriteOncePod.",
        "claim",
    ),
    _row(
        "VolumeZone",
        "VolumeZoneConflict",
        "node(s) had no available volume zone",
        "The labels of a bound volume ask for another zone or region.",
        "claim",
    ),
    _row(
        "NodeVolumeLimits",
        "TooManyVolumes",
        "node(s) exceed max volume count",
        "The node has as many volumes of a driver attached as it can.",
        "driver",
    ),
    _row(
        "VolumeBinding",
        "VolumeNodeAffinityConflict",
        "node(s) didn't match PersistentVolume's node affinity",
        "The volume of a bound claim cannot be used on the node.",
        "claim",
    ),
    _row(
        "VolumeBinding",
        "NoVolumeToBind",
        "node(s) didn't find available persistent volumes to bind",
        "There is no volume for a claim on the node, and none can be made there.",
        "claim",
    ),
    _row(
        "VolumeBinding",
        "InsufficientStorage",
        "node(s) did not have enough free storage",
        "The driver reports too little room for the volume of a claim.",
        "claim",
    ),
    _row(
        "VolumeBinding",
        "BoundVolumeMissing",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
        ' | persistentvolumeclaim "{claim}" bound to non-existent persistentvolume "{volume}"',
        "A claim is bound to a volume that does not exist.",
    ),
    _row(
        _CLAIMS,
        "ClaimOfOtherPod",
        "PVC {}/{claim} was not created for pod {} (pod is not owner)",
        "The claim of an ephemeral volume was made for another pod.",
    ),
    _row(
        "VolumeBinding",
        "ClaimUnbound",
        "pod has unbound immediate PersistentVolumeClaims",
        "Claims that are bound at once have no volume yet.",
        "claims",
    ),
    _row(
        _CLAIMS,
        "ClaimMissing",
        'persistentvolumeclaim "{claim}" not found'
        ' | waiting for ephemeral volume controller to create the persistentvolumeclaim "{claim}"'
        ' | looking up PVC {}: persistentvolumeclaim "{claim}" not found',
        "A claim that the pod uses does not exist.",
    ),
    _row(
        _CLAIMS,
        "VolumeMissing",
        'persistentvolume "{volume}" not found',
        "The volume of a claim does not exist.",
    ),
    _row(
        "VolumeBinding|VolumeZone",
        "StorageClassMissing",
        'storageclass.storage.k8s.io "{storage_class}" not found',
        "The class of a claim does not exist.",
    ),
    _row(
        _CLAIMS,
        "ClaimTerminating",
        'persistentvolumeclaim "{claim}" is being deleted',
        "A claim that the pod uses is being deleted.",
    ),
    _row(
        _CLAIMS,
        "VolumeUnreadable",
        "PersistentVolumeClaim had no name"
        ' | VolumeBindingMode not set for StorageClass "{storage_class}"'
        " | could not translate pv: {}"
        ' | node "{node}" not found'
        ' | cannot read "PreFilterVolumeRestrictions" from cycleState',
        "A volume, claim, class or node is not as the plugin expects it.",
    ),
    _row(
        "DynamicResources",
        "DeviceShortage",
        "cannot allocate all claims",
        "The node cannot give devices to all requests of the pod's claims.",
        "claim|request",
    ),
    _row(
        "DynamicResources",
        "DevicePoolInvalid",
        "invalid resource pools were encountered"
        " | claim {}/{claim}, request {request}: asks for all devices, but resource pool {} is {}",
        "Pools of the node's devices are incomplete or invalid, and the others do not suffice.",
    ),
    _row(
        "DynamicResources",
        "ExtendedResourceMissing",
        "cannot fit resource",
        "The node has not enough of an extended resource, and no class of devices provides it.",
    ),
    _row(
        "DynamicResources",
        "DeviceClaimElsewhere",
        "resourceclaim not available on the node",
        "The devices of an allocated claim cannot be used on the node.",
        "claim",
    ),
    _row(
        "DynamicResources",
        "DeviceClaimLeftOver",
        "cannot schedule extended resource claim"
        " | deletion of ResourceClaim completed"
        " | deallocation of ResourceClaim completed",
        "A claim of an earlier attempt is taken back before the pod is tried again.",
    ),
    _row(
        "DynamicResources",
        "DeviceClassMissing",
        "request {request}: device class {device_class} does not exist",
        "A request names a class of devices that does not exist.",
    ),
    _row(
        "DynamicResources",
        "DeviceClaimMissing",
        'could not find ResourceClaim "{}/{claim}"'
        ' | pod "{}": ResourceClaim not created yet'
        " | ResourceClaim {}/{claim} was not created for Pod {} (Pod is not owner)",
        "A device claim of the pod does not exist, or belongs to another pod.",
    ),
    _row(
        "DynamicResources",
        "DeviceClaimTerminating",
        'resourceclaim "{claim}" is being deleted',
        "A device claim of the pod is being deleted.",
    ),
    _row(
        "DynamicResources",
        "DeviceClaimInProgress",
        "resource claim {}/{claim} is in the process of being allocated",
        "A device claim is being allocated for another pod.",
    ),
    _row(
        "DynamicResources",
        "DeviceClaimUnsupported",
        "more than {} resource claims"
        ' | pod "{}", spec.resourceClaim "{}": none of the supported fields are set'
        " | resource claim {}/{claim}, request {request}: has subrequests, but the"
        " DRAPrioritizedList feature is disabled"
        " | resource claim {}/{claim}, request {request}: unknown request type",
        "A device claim of the pod, or their number, is not supported.",
    ),
    _row(
        f"SchedulingGates|{BERTH}",
        "SchedulingGated",
        "waiting for scheduling gates: [{gates}]"
        " | waits until its scheduling gates are removed: {gates}",
        "The pod has scheduling gates, and is not tried before they are removed.",
    ),
    _row(
        "DefaultPreemption",
        "NoPreemptionVictims",
        "No preemption victims found for incoming pod",
        "No pod of the node has a lower priority.",
    ),
    _row(
        "DefaultPreemption",
        "PreemptionSearchTooLarge",
        "The pods of lower priority are too large for preemption",
        "The search for victims among the node's pods would be too large, and is not made.",
    ),
    _row(
        "DefaultPreemption",
        "DisruptionBudgetProtects",
        "preemption would break a PodDisruptionBudget",
        "The pods that would have to leave the node are protected by disruption budgets.",
    ),
    _row(
        "DefaultPreemption",
        "PreemptionNotHelpful",
        "Preemption is not helpful for scheduling",
        "The pod would not fit on the node even if other pods left it.",
    ),
    _row(
        "DefaultPreemption",
        "PreemptionNever",
        "preemption: not eligible due to preemptionPolicy=Never.",
        "The pod may not preempt others, by its preemptionPolicy.",
    ),
    _row(
        "DefaultPreemption",
        "PreemptionUnderWay",
        "preemption: not eligible due to a terminating pod on the nominated node.",
        "The pod waits for an earlier victim of it to end.",
    ),
    _row(
        "DefaultPreemption",
        "PreemptionUndecided",
        "preemption: the search goes on in the next attempt"
        " | preemption: the next attempt goes on reading the PodDisruptionBudgets",
        "Preemption goes on in the next attempt.",
    ),
    _row(
        f"DefaultPreemption|{BERTH}",
        "PreemptionAwaited",
        "preemption: found a potential placement for pod on node {node}, preempting {} victims"
        " | is nominated to {node}, where it waits for room or is being bound"
        " | is nominated to {node}",
        "The pod is nominated to a node, whose victims have to end first.",
    ),
    _row(
        "DefaultPreemption",
        "PreemptionFoundNoNode",
        "preemption: no candidate node for preemption | preemption: {}",
        "No node was found where preemption helps.",
    ),
    _row(
        "DynamicResources",
        "NothingToDeallocate",
        "no new claims to deallocate | still not schedulable | not found",
        "No claim of the pod can be taken back to try other devices.",
    ),
    _row(
        EXTENDERS,
        REFUSED_BY_EXTENDER,
        "",
        "An extender has left the node out; `message` has its words, if it gave any.",
    ),
    _row(
        FOREIGN,
        REJECTED,
        "",
        "A plugin of a package, named by `plugin`, rejects the pod, at any extension point.",
        "node",
    ),
    _row(
        SCHEDULER,
        "PermitTimeout",
        "rejected due to timeout after waiting {} at plugin {plugin}",
        "No answer of a Permit plugin came in time.",
        "node",
    ),
    _row(
        BERTH,
        "WaitingOnPermit",
        "waits on {node} until {plugins} permits it, at most {} s"
        " | waits on {node} until {plugins} permits it"
        " | would wait on {node} until {plugins} permits it",
        "The pod has a node, and waits for Permit plugins.",
    ),
    _row(
        BERTH,
        "AttemptFailed",
        "failed on {node} after the decision: {}"
        " | was not bound by its last attempt, as its condition says: {}"
        ' | running {} plugin "{plugin}": {}'
        ' | running "{plugin}" filter plugin: {}'
        ' | running {} plugins: plugin "{plugin}" failed with: {}'
        ' | applying score defaultWeights on Score plugins: plugin "{plugin}" {}'
        ' | running PreBindPreFlight "{plugin}": {}',
        "The attempt ended with an error, before or after a node was chosen.",
        "node",
    ),
    _row(
        BERTH,
        "NotBoundYet",
        "is not on {node} yet: {}",
        "The pod has a node, and is being bound or held there by a plugin.",
    ),
    _row(
        BERTH,
        "VolumeNeverMade",
        "waits for a volume of its claim {claims}: {}"
        " | waits for a volume of its claims {claims}: {}"
        " | waits for its claim {claims}, which waits until a scheduler chooses the node of the"
        " first consumer: {}"
        " | waits for its claims {claims}, which wait until a scheduler chooses the node of the"
        " first consumer: {}",
        "Nothing makes the volumes of these claims.",
    ),
    _row(
        BERTH,
        "ClaimTemplateMissing",
        "waits for a claim to be created from the ResourceClaimTemplate{}",
        "A template of a device claim does not exist.",
    ),
    _row(
        BERTH,
        "PodTerminating",
        "is being deleted since {}",
        "The pod is being deleted.",
    ),
    _row(
        BERTH,
        "PodPlaced",
        "already runs on {node}, which does not exist | already runs on {node}"
        " | is already bound to {node}, which does not exist | is already bound to {node}",
        "The pod has a node; the answer treats it as if it were pending.",
    ),
    _row(BERTH, "PodEnded", "has ended: its phase is {}", "The pod has ended."),
    _row(
        BERTH,
        "OtherScheduler",
        "belongs to the scheduler {} by its spec.schedulerName; {}",
        "The pod asks for a scheduler that the configuration does not have.",
    ),
    _row(
        BERTH,
        "NodeDrained",
        "{node} is drained | {node} is drained, {}",
        "The pod was evicted, as its node is drained.",
    ),
    _row(
        BERTH,
        "NodeRemoved",
        "{node} is removed | {node} is removed, {}",
        "The pod is gone with its node.",
    ),
    _row(
        BERTH,
        "NodeTainted",
        "{node} is tainted with {taint}:NoExecute | {node} is tainted with {taint}:NoExecute, {}",
        "The pod was evicted by a taint of its node.",
    ),
    _row(
        BERTH,
        "PreemptedByPod",
        "preempted by {pod} | preempted by {pod}, {}",
        "The pod was evicted for one of a higher priority.",
    ),
    _row(
        BERTH,
        "PodEvicted",
        "evicted | evicted, {}",
        "The pod was evicted by a step that names it.",
    ),
    _row(
        BERTH,
        "EvictionRefused",
        "eviction is refused (429) by {budgets}",
        "Disruption budgets forbid to evict the pod.",
    ),
    _row(
        BERTH,
        "PodDeleted",
        "deleted | deleted, {}",
        "The pod was deleted by a step that names it.",
    ),
)
BY_CODE = {row.code: row for row in REASONS}
