"""The objects that the controllers read: structs of the scheduler, and structs with further fields.

Parts that a controller copies into new objects, such as the template of a pod, stay documents.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Annotated, Any, Protocol, TypeVar, cast

import msgspec

from berth.actors.scheduling.kube import apps, core, devices, policy
from berth.actors.scheduling.kube.coordination import Lease
from berth.actors.scheduling.kube.devices import ResourceClaim, ResourceSlice
from berth.actors.scheduling.kube.meta import (
    HasMetadata,
    Int32,
    Int64,
    LabelSelector,
    Object,
    ObjectMeta,
    ObjectReference,
)
from berth.actors.scheduling.kube.quantity import nano_value
from berth.actors.scheduling.kube.reading import ReadBy, Reader
from berth.actors.scheduling.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from berth.actors.scheduling.kube.times import Time

from ..api.types.resources import KINDS
from .autoscalers import HorizontalPodAutoscaler
from .services import Endpoints, EndpointSlice, Service

Document = dict[str, Any]
IntOrPercent = Int32 | str
T = TypeVar("T", bound=HasMetadata)
S = TypeVar("S")


class HasStatus(HasMetadata, Protocol):
    @property
    def status(self) -> object: ...


class Condition(Object, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_update_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: Int64 = 0


# --------------------------------------------------------------------------------- pods and nodes


class EphemeralVolumeSource(core.OpaqueVolumeSource, frozen=True, kw_only=True):
    volume_claim_template: Document | None = None


class EmptyDirVolumeSource(Object, frozen=True, kw_only=True):
    medium: str = ""
    size_limit: Annotated[str | Int64 | float, ReadBy(nano_value)] | None = None


class Volume(core.Volume, frozen=True, kw_only=True):
    ephemeral: EphemeralVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None


class ContainerResizePolicy(Object, frozen=True, kw_only=True):
    resource_name: str = ""
    restart_policy: str = ""


class Container(core.Container, frozen=True, kw_only=True):
    resize_policy: tuple[ContainerResizePolicy, ...] = ()


class PodOS(Object, frozen=True, kw_only=True):
    name: str = ""


class PodSpec(core.PodSpec, frozen=True, kw_only=True):
    os: PodOS | None = None
    hostname: str = ""
    subdomain: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class Started(Object, frozen=True, kw_only=True):
    """The state of a running container."""

    started_at: Time | None = None


class Terminated(Object, frozen=True, kw_only=True):
    exit_code: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class Waiting(Object, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class ContainerState(Object, frozen=True, kw_only=True):
    waiting: Waiting | None = None
    running: Started | None = None
    terminated: Terminated | None = None


class ContainerStatus(core.ContainerStatus, frozen=True, kw_only=True):
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    started: bool | None = None
    restart_count: Int32 = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")


class PodIP(Object, frozen=True, kw_only=True):
    ip: str = ""


class PodStatus(core.PodStatus, frozen=True, kw_only=True):
    qos_class: str = ""
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(core.Pod, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeAddress(Object, frozen=True, kw_only=True):
    type: str = ""
    address: str = ""


class NodeSystemInfo(Object, frozen=True, kw_only=True):
    kubelet_version: str = ""


class NodeCondition(core.NodeCondition, frozen=True, kw_only=True):
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class NodeStatus(core.NodeStatus, frozen=True, kw_only=True):
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(core.Node, frozen=True, kw_only=True):
    status: NodeStatus = NodeStatus()


# -------------------------------------------------------------------------------------- workloads


class RollingUpdate(Object, frozen=True, kw_only=True):
    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    partition: Int32 = 0


class UpdateStrategy(Object, frozen=True, kw_only=True):
    type: str = ""
    rolling_update: RollingUpdate = RollingUpdate()


class ReplicaSetSpec(apps.WorkloadSpec, frozen=True, kw_only=True):
    template: Document = msgspec.field(default_factory=dict)
    min_ready_seconds: Int32 = 0


class ReplicaSetStatus(Object, frozen=True, kw_only=True):
    replicas: Int32 = 0
    fully_labeled_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    terminating_replicas: Int32 | None = None
    observed_generation: Int64 = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(apps.ReplicaSet, frozen=True, kw_only=True):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ReplicationControllerSpec(apps.ReplicationControllerSpec, frozen=True, kw_only=True):
    template: Document = msgspec.field(default_factory=dict)
    min_ready_seconds: Int32 = 0


class ReplicationController(apps.ReplicationController, frozen=True, kw_only=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class DeploymentSpec(ReplicaSetSpec, frozen=True, kw_only=True):
    strategy: UpdateStrategy = UpdateStrategy()
    paused: bool = False
    revision_history_limit: Int32 | None = None
    progress_deadline_seconds: Int32 | None = None


class DeploymentStatus(Object, frozen=True, kw_only=True):
    observed_generation: Int64 = 0
    replicas: Int32 = 0
    updated_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    unavailable_replicas: Int32 = 0
    terminating_replicas: Int32 | None = None
    collision_count: Int32 | None = None
    conditions: tuple[Condition, ...] = ()


class Deployment(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class Ordinals(Object, frozen=True, kw_only=True):
    start: Int32 = 0


class ClaimRetentionPolicy(Object, frozen=True, kw_only=True):
    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetSpec(ReplicaSetSpec, frozen=True, kw_only=True):
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: UpdateStrategy = UpdateStrategy()
    ordinals: Ordinals = Ordinals()
    volume_claim_templates: tuple[Document, ...] = ()
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy = ClaimRetentionPolicy()
    revision_history_limit: Int32 | None = None


class StatefulSetStatus(Object, frozen=True, kw_only=True):
    observed_generation: Int64 = 0
    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    current_replicas: Int32 = 0
    updated_replicas: Int32 = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: Int32 | None = None


class StatefulSet(apps.StatefulSet, frozen=True, kw_only=True):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(Object, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: Document = msgspec.field(default_factory=dict)
    min_ready_seconds: Int32 = 0
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: Int32 | None = None


class DaemonSetStatus(Object, frozen=True, kw_only=True):
    desired_number_scheduled: Int32 = 0
    current_number_scheduled: Int32 = 0
    number_misscheduled: Int32 = 0
    number_ready: Int32 = 0
    updated_number_scheduled: Int32 = 0
    number_available: Int32 = 0
    number_unavailable: Int32 = 0
    observed_generation: Int64 = 0
    collision_count: Int32 | None = None


class DaemonSet(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    data: Document = msgspec.field(default_factory=dict)
    revision: Int64 = 0


class OnExitCodes(Object, frozen=True, kw_only=True):
    container_name: str | None = None
    operator: str = ""
    values: tuple[Int32, ...] = ()


class OnPodCondition(Object, frozen=True, kw_only=True):
    type: str = ""
    status: str = "True"


class PodFailureRule(Object, frozen=True, kw_only=True):
    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(Object, frozen=True, kw_only=True):
    rules: tuple[PodFailureRule, ...] = ()


class SuccessRule(Object, frozen=True, kw_only=True):
    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Object, frozen=True, kw_only=True):
    rules: tuple[SuccessRule, ...] = ()


class JobSpec(Object, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: Document = msgspec.field(default_factory=dict)
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str = ""
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str = ""
    success_policy: SuccessPolicy | None = None
    managed_by: str | None = None
    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    suspend: bool = False


class UncountedTerminatedPods(Object, frozen=True, kw_only=True):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Object, frozen=True, kw_only=True):
    active: Int32 = 0
    ready: Int32 | None = None
    terminating: Int32 | None = None
    succeeded: Int32 = 0
    failed: Int32 = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods = UncountedTerminatedPods()
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class CronJobSpec(Object, frozen=True, kw_only=True):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: Int64 | None = None
    concurrency_policy: str = ""
    suspend: bool = False
    job_template: Document = msgspec.field(default_factory=dict)
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None


class CronJobStatus(Object, frozen=True, kw_only=True):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


class CronJob(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


class PodDisruptionBudgetSpec(policy.PodDisruptionBudgetSpec, frozen=True, kw_only=True):
    max_unavailable: IntOrPercent | None = None
    min_available: IntOrPercent | None = None


class PodDisruptionBudgetStatus(policy.PodDisruptionBudgetStatus, frozen=True, kw_only=True):
    observed_generation: Int64 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(policy.PodDisruptionBudget, frozen=True, kw_only=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


# ---------------------------------------------------------------------------------------- devices


class ResourceClaimTemplateSpec(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Document = msgspec.field(default_factory=dict)


class ResourceClaimTemplate(Object, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceTaintRuleStatus(Object, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(devices.DeviceTaintRule, frozen=True, kw_only=True):
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()


Replicated = ReplicaSet | ReplicationController | StatefulSet | Deployment
Workload = Replicated | DaemonSet | Job

# The type of each kind that controllers follow, by its name.
TYPES: dict[str, type[HasMetadata]] = {
    kind.__name__: kind
    for kind in (
        Pod,
        Node,
        Lease,
        ReplicaSet,
        ReplicationController,
        Deployment,
        StatefulSet,
        DaemonSet,
        ControllerRevision,
        Job,
        CronJob,
        HorizontalPodAutoscaler,
        PodDisruptionBudget,
        Service,
        Endpoints,
        EndpointSlice,
        PersistentVolumeClaim,
        PersistentVolume,
        StorageClass,
        CSINode,
        CSIDriver,
        CSIStorageCapacity,
        VolumeAttachment,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
        DeviceTaintRule,
    )
}

# The garbage collector needs no more than the metadata of the others. Events have no owners.
TYPES |= {
    kind.kind: cast(
        "type[HasMetadata]",
        msgspec.defstruct(
            kind.kind,
            [("metadata", ObjectMeta, ObjectMeta())],
            bases=(Object,),
            frozen=True,
            kw_only=True,
        ),
    )
    for kind in KINDS
    if kind.stored_as is None and kind.kind not in {*TYPES, "Event"}
}


def read(document: Document, kind: type[S]) -> S:
    """Returns an object, or a part of one, from its document. Raises msgspec.ValidationError."""
    reader: Reader[S] = _reader(cast("Hashable", kind))
    return reader.convert(document)


@cache
def _reader(kind: type[Any]) -> Reader[Any]:
    return Reader(kind)
