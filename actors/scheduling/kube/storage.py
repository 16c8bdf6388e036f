"""Volumes, claims, and the storage.k8s.io/v1 objects that decide where a pod's volumes can be.

They have only the fields that scheduling and the toy cluster's controllers read. A volume is
changed with patches, never written back whole, so that its other fields stay. Mirrors the API types
of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from .core import MigratedSource, NodeSelector, Quantity, ResourceRequirements
from .meta import Int32, Int64, LabelSelector, Object, ObjectReference, WholeObject
from .quantity import nano_value
from .reading import ReadBy

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

Amount = Annotated[str | Int64 | float, ReadBy(nano_value)]


# ------------------------------------------------------------------------------------------ volumes


class CSIPersistentVolumeSource(Object, frozen=True, kw_only=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Object, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(MigratedSource, frozen=True, kw_only=True):
    capacity: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    persistent_volume_reclaim_policy: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None


class PersistentVolumeStatus(Object, frozen=True, kw_only=True):
    phase: str = ""
    message: str = ""


class PersistentVolume(WholeObject, frozen=True, kw_only=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


# ------------------------------------------------------------------------------------------- claims


class PersistentVolumeClaimSpec(Object, frozen=True, kw_only=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Object, frozen=True, kw_only=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Mapping[str, str | int | float] = msgspec.field(default_factory=dict)
    current_volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(WholeObject, frozen=True, kw_only=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


# ---------------------------------------------------------------------------------- storage.k8s.io


class TopologySelectorLabelRequirement(Object, frozen=True, kw_only=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Object, frozen=True, kw_only=True):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(WholeObject, frozen=True, kw_only=True):
    provisioner: str = ""
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    reclaim_policy: str | None = None
    mount_options: tuple[str, ...] = ()
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Object, frozen=True, kw_only=True):
    count: Int32 | None = None


class CSINodeDriver(Object, frozen=True, kw_only=True):
    name: str = ""
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Object, frozen=True, kw_only=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(WholeObject, frozen=True, kw_only=True):
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Object, frozen=True, kw_only=True):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(WholeObject, frozen=True, kw_only=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(WholeObject, frozen=True, kw_only=True):
    """The room for new volumes: each may take `maximum_volume_size`, else `capacity`."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None


class VolumeAttachmentSource(Object, frozen=True, kw_only=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Object, frozen=True, kw_only=True):
    attacher: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = ""


class VolumeAttachmentStatus(Object, frozen=True, kw_only=True):
    attached: bool = False


class VolumeAttachment(WholeObject, frozen=True, kw_only=True):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
