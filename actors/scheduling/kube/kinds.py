"""The kinds of object that a scheduler watches, each with the path that lists it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from .apps import ReplicaSet, ReplicationController, StatefulSet
from .core import Namespace, Node, Pod, Service
from .devices import DeviceClass, ResourceClaim, ResourceSlice
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
    """A kind that is watched. `selector` is a query that leaves out objects of no use here."""

    api_version: str
    kind: str
    path: str
    type: type[Any]
    selector: str = ""

    @property
    def full_name(self) -> str:
        """The kind with its version and group, such as Deployment.v1.apps."""
        group, _, version = self.api_version.rpartition("/")
        return ".".join(filter(None, (self.kind, version, group)))


# A finished pod no longer uses resources. With this selector, a watch reports it as deleted.
NOT_FINISHED = f"fieldSelector={quote('status.phase!=Succeeded,status.phase!=Failed')}"
PODS = WatchedKind("v1", "Pod", "/api/v1/pods", Pod, NOT_FINISHED)
NODES = WatchedKind("v1", "Node", "/api/v1/nodes", Node)

STORAGE, RESOURCE = "storage.k8s.io/v1", "resource.k8s.io/v1"

# The kinds that plugins look up, besides pods and nodes.
LOOKED_UP = (
    WatchedKind("v1", "Namespace", "/api/v1/namespaces", Namespace),
    WatchedKind("v1", "Service", "/api/v1/services", Service),
    WatchedKind(
        "v1", "ReplicationController", "/api/v1/replicationcontrollers", ReplicationController
    ),
    WatchedKind("apps/v1", "ReplicaSet", "/apis/apps/v1/replicasets", ReplicaSet),
    WatchedKind("apps/v1", "StatefulSet", "/apis/apps/v1/statefulsets", StatefulSet),
    WatchedKind(
        "policy/v1",
        "PodDisruptionBudget",
        "/apis/policy/v1/poddisruptionbudgets",
        PodDisruptionBudget,
    ),
    WatchedKind("v1", "PersistentVolume", "/api/v1/persistentvolumes", PersistentVolume),
    WatchedKind(
        "v1", "PersistentVolumeClaim", "/api/v1/persistentvolumeclaims", PersistentVolumeClaim
    ),
    *(
        WatchedKind(STORAGE, type_.__name__, f"/apis/{STORAGE}/{plural}", type_)
        for type_, plural in (
            (StorageClass, "storageclasses"),
            (CSINode, "csinodes"),
            (CSIDriver, "csidrivers"),
            (CSIStorageCapacity, "csistoragecapacities"),
            (VolumeAttachment, "volumeattachments"),
        )
    ),
    *(
        WatchedKind(RESOURCE, type_.__name__, f"/apis/{RESOURCE}/{plural}", type_)
        for type_, plural in (
            (ResourceClaim, "resourceclaims"),
            (ResourceSlice, "resourceslices"),
            (DeviceClass, "deviceclasses"),
        )
    ),
)

BY_KIND = {(kind.api_version, kind.kind): kind for kind in (PODS, NODES, *LOOKED_UP)}


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
