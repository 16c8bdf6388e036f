"""The core/v1 objects that scheduling reads: pods, nodes, and their parts.

Structs are frozen because actors share them. Unknown fields are skipped; absent fields have
Kubernetes' zero values. A quantity stays text (or a bare number, which YAML allows) until
berth.actors.scheduling.kube.quantity parses it. berth.actors.scheduling.kube.reading checks that it
can be parsed when it reads the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from .meta import Int32, Int64, LabelSelector, Object, ObjectReference, WholeObject
from .quantity import nano_value
from .reading import ReadBy
from .times import Time

Quantity = Annotated[str | Int64 | float, ReadBy(nano_value)]
ResourceList = Mapping[str, Quantity]


class ResourceRequirements(Object, frozen=True, kw_only=True):
    requests: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    limits: Mapping[str, Quantity] = msgspec.field(default_factory=dict)


class ContainerPort(Object, frozen=True, kw_only=True):
    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(Object, frozen=True, kw_only=True):
    action: str = ""


class Container(Object, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class Toleration(Object, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class Taint(Object, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSelectorRequirement(Object, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Object, frozen=True, kw_only=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Object, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Object, frozen=True, kw_only=True):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Object, frozen=True, kw_only=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Object, frozen=True, kw_only=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Object, frozen=True, kw_only=True):
    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Object, frozen=True, kw_only=True):
    """The affinity or anti-affinity of a pod to other pods."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Object, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Object, frozen=True, kw_only=True):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Object, frozen=True, kw_only=True):
    name: str = ""


class PersistentVolumeClaimVolumeSource(Object, frozen=True, kw_only=True):
    claim_name: str = ""
    read_only: bool = False


class OpaqueVolumeSource(Object, frozen=True, kw_only=True):
    """A volume source. Scheduling only checks whether it is set."""


class ImageVolumeSource(Object, frozen=True, kw_only=True):
    reference: str = ""


class GCEPersistentDiskVolumeSource(Object, frozen=True, kw_only=True):
    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Object, frozen=True, kw_only=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class RBDVolumeSource(Object, frozen=True, kw_only=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class ISCSIVolumeSource(Object, frozen=True, kw_only=True):
    iqn: str = ""
    read_only: bool = False


class AzureDiskVolumeSource(Object, frozen=True, kw_only=True):
    data_disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class CinderVolumeSource(Object, frozen=True, kw_only=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolumeSource(Object, frozen=True, kw_only=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class CSIVolumeSource(Object, frozen=True, kw_only=True):
    driver: str = ""


class MigratedSource(Object, frozen=True, kw_only=True):
    """The source of a disk that an in-tree plugin used to serve, and a CSI driver serves now."""

    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: OpaqueVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    vsphere_volume: OpaqueVolumeSource | None = None


class Volume(MigratedSource, frozen=True, kw_only=True):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: OpaqueVolumeSource | None = None
    image: ImageVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None


class PodResourceClaim(Object, frozen=True, kw_only=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Object, frozen=True, kw_only=True):
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    node_selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    node_name: str = ""
    host_network: bool = False
    host_users: bool | None = None
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: Int32 | None = None
    preemption_policy: str | None = None
    overhead: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None


FINISHED = ("Succeeded", "Failed")  # phases in which a pod no longer uses resources


class PodCondition(Object, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: Int64 = 0


class ContainerStatus(Object, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Mapping[str, Quantity] = msgspec.field(default_factory=dict)


class PodResourceClaimStatus(Object, frozen=True, kw_only=True):
    """The claim for an entry of the spec, or none without `resource_claim_name`."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Object, frozen=True, kw_only=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Object, frozen=True, kw_only=True):
    """The claim that the scheduler created for the pod's extended resources."""

    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class PodStatus(Object, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(WholeObject, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def reference_to(pod: Pod) -> ObjectReference:
    metadata = pod.metadata
    return ObjectReference(
        "v1", "Pod", metadata.namespace, metadata.name, metadata.uid, metadata.resource_version
    )


class NodeSpec(Object, frozen=True, kw_only=True):
    provider_id: str = msgspec.field(default="", name="providerID")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Object, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class ContainerImage(Object, frozen=True, kw_only=True):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatus(Object, frozen=True, kw_only=True):
    capacity: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    allocatable: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(WholeObject, frozen=True, kw_only=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(WholeObject, frozen=True, kw_only=True):
    """A namespace. Scheduling reads its labels only."""


class ServiceSpec(Object, frozen=True, kw_only=True):
    selector: Mapping[str, str] = msgspec.field(default_factory=dict)


class Service(WholeObject, frozen=True, kw_only=True):
    spec: ServiceSpec = ServiceSpec()
