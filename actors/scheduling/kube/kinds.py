"""The kinds of object that a scheduler watches, each with the path that lists it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from .apps import ReplicaSet, ReplicationController, StatefulSet
from .core import Namespace, Node, Pod, Service
from .devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from .meta import HasMetadata
from .policy import PodDisruptionBudget
from .reading import Reader
from .storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)


class WatchedKind(msgspec.Struct, frozen=True):
    """A kind that is watched. `selector` is a query that leaves out irrelevant objects. With
    `every`, the kind is not watched but listed again after so many seconds.
    """

    api_version: str
    kind: str
    path: str
    type: type[Any]
    selector: str = ""
    every: float = 0.0

    @property
    def full_name(self) -> str:
        """The kind with its version and group, such as Deployment.v1.apps."""
        group, _, version = self.api_version.rpartition("/")
        return ".".join(filter(None, (self.kind, version, group)))


def _kind(version: str, type_: type[Any], plural: str, selector: str = "") -> WatchedKind:
    root = "api" if version == "v1" else "apis"
    return WatchedKind(version, type_.__name__, f"/{root}/{version}/{plural}", type_, selector)


# A finished pod no longer uses resources. With this selector, a watch reports it as deleted.
NOT_FINISHED = f"fieldSelector={quote('status.phase!=Succeeded,status.phase!=Failed')}"
PODS = _kind("v1", Pod, "pods", NOT_FINISHED)
NODES = _kind("v1", Node, "nodes")

# The kinds that plugins look up, besides pods and nodes.
LOOKED_UP = (
    _kind("v1", Namespace, "namespaces"),
    _kind("v1", Service, "services"),
    _kind("v1", ReplicationController, "replicationcontrollers"),
    _kind("apps/v1", ReplicaSet, "replicasets"),
    _kind("apps/v1", StatefulSet, "statefulsets"),
    _kind("policy/v1", PodDisruptionBudget, "poddisruptionbudgets"),
    _kind("v1", PersistentVolume, "persistentvolumes"),
    _kind("v1", PersistentVolumeClaim, "persistentvolumeclaims"),
    _kind("storage.k8s.io/v1", StorageClass, "storageclasses"),
    _kind("storage.k8s.io/v1", CSINode, "csinodes"),
    _kind("storage.k8s.io/v1", CSIDriver, "csidrivers"),
    _kind("storage.k8s.io/v1", CSIStorageCapacity, "csistoragecapacities"),
    _kind("storage.k8s.io/v1", VolumeAttachment, "volumeattachments"),
    _kind("resource.k8s.io/v1", ResourceClaim, "resourceclaims"),
    _kind("resource.k8s.io/v1", ResourceSlice, "resourceslices"),
    _kind("resource.k8s.io/v1", DeviceClass, "deviceclasses"),
    _kind("resource.k8s.io/v1", DeviceTaintRule, "devicetaintrules"),
)
# The rules as Kubernetes 1.36 serves them.
BETA_DEVICE_TAINT_RULES = _kind("resource.k8s.io/v1beta2", DeviceTaintRule, "devicetaintrules")

BY_KIND = {
    (kind.api_version, kind.kind): kind
    for kind in (PODS, NODES, *LOOKED_UP, BETA_DEVICE_TAINT_RULES)
}


def type_of(kind: type[HasMetadata] | WatchedKind) -> type[HasMetadata]:
    return kind.type if isinstance(kind, WatchedKind) else kind


def decode(document: dict[str, Any]) -> HasMetadata | None:
    """Returns the object of a JSON document, or None if scheduling does not read its kind.

    Raises msgspec.ValidationError.
    """
    kind = BY_KIND.get((document.get("apiVersion", ""), document.get("kind", "")))
    if kind is None:
        return None
    obj: HasMetadata = Reader(kind.type).convert(document)
    return obj
