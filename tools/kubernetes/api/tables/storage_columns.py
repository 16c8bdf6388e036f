"""The columns of volumes, their claims, classes and drivers."""

from __future__ import annotations

from datetime import datetime

from berth.actors.scheduling.kube.annotations import BETA_CLASS, DEFAULT_CLASS

from ..types.api_documents import Document
from .column import (
    AGE,
    NAME,
    NONE,
    UNSET,
    WIDE,
    Column,
    boolean,
    entries,
    field,
    mapping,
    size,
    strings,
    text,
    value_at,
)

ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _phase(document: Document, _: datetime) -> str:
    if document["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return text(document, "status", "phase", default="Pending")


def _modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in ACCESS_MODES.items() if mode in modes)


def _storage_class(document: Document, _: datetime) -> str:
    old = mapping(document, "metadata", "annotations").get(BETA_CLASS)
    return text(document, "spec", "storageClassName") if old is None else str(old)


def _volume_modes(volume: Document, _: datetime) -> str:
    return _modes(strings(volume, "spec", "accessModes"))


def _claim(volume: Document, _: datetime) -> str:
    reference = mapping(volume, "spec", "claimRef")
    return f"{text(reference, 'namespace')}/{text(reference, 'name')}" if reference else ""


def _claim_modes(claim: Document, _: datetime) -> str:
    """Returns the access modes of a claim, once it has a volume."""
    return (
        _modes(strings(claim, "status", "accessModes")) if text(claim, "spec", "volumeName") else ""
    )


def _claim_capacity(claim: Document, _: datetime) -> str:
    return (
        text(claim, "status", "capacity", "storage", default="0")
        if text(claim, "spec", "volumeName")
        else ""
    )


def _class_name(document: Document, _: datetime) -> str:
    default = any(text(document, "metadata", "annotations", key) == "true" for key in DEFAULT_CLASS)
    return text(document, "metadata", "name") + (" (default)" if default else "")


def _token_requests(driver: Document, _: datetime) -> str:
    if value_at(driver, "spec", "tokenRequests") is None:
        return UNSET
    return ",".join(
        text(request, "audience") for request in entries(driver, "spec", "tokenRequests")
    )


def _lifecycle_modes(driver: Document, _: datetime) -> str:
    if value_at(driver, "spec", "volumeLifecycleModes") is None:
        return "Persistent"
    return ",".join(strings(driver, "spec", "volumeLifecycleModes")) or NONE


STORAGE_CLASS = Column("StorageClass", _storage_class, "Its storage class.")
ATTRIBUTES_CLASS = Column(
    "VolumeAttributesClass",
    field("spec", "volumeAttributesClassName", default=UNSET),
    "Its volume attributes class.",
)
VOLUME_MODE = Column(
    "VolumeMode",
    field("spec", "volumeMode", default="Filesystem"),
    "Filesystem or block device.",
    priority=WIDE,
)

PERSISTENT_VOLUMES = (
    NAME,
    Column("Capacity", field("spec", "capacity", "storage", default="0"), "How large it is."),
    Column("Access Modes", _volume_modes, "How it may be mounted."),
    Column(
        "Reclaim Policy",
        field("spec", "persistentVolumeReclaimPolicy", default="Retain"),
        "What happens to it when its claim is deleted.",
    ),
    Column("Status", _phase, "Whether it is bound."),
    Column("Claim", _claim, "The claim it is bound to."),
    STORAGE_CLASS,
    ATTRIBUTES_CLASS,
    Column("Reason", field("status", "reason"), "Why it failed, in one word."),
    AGE,
    VOLUME_MODE,
)
PERSISTENT_VOLUME_CLAIMS = (
    NAME,
    Column("Status", _phase, "Whether it is bound."),
    Column("Volume", field("spec", "volumeName"), "The volume it is bound to."),
    Column("Capacity", _claim_capacity, "How large the volume is."),
    Column("Access Modes", _claim_modes, "How the volume may be mounted."),
    STORAGE_CLASS,
    ATTRIBUTES_CLASS,
    AGE,
    VOLUME_MODE,
)
STORAGE_CLASSES = (
    Column(
        "Name",
        _class_name,
        "Name of the class, and whether claims get it by default.",
        format="name",
    ),
    Column("Provisioner", field("provisioner"), "The driver that creates its volumes."),
    Column(
        "ReclaimPolicy",
        field("reclaimPolicy", default="Delete"),
        "What happens to its volumes when their claim is deleted.",
    ),
    Column(
        "VolumeBindingMode",
        field("volumeBindingMode", default="Immediate"),
        "When claims are bound.",
    ),
    Column(
        "AllowVolumeExpansion", boolean("allowVolumeExpansion"), "Whether its volumes may grow."
    ),
    AGE,
)
CSI_NODES = (
    NAME,
    Column("Drivers", size(("spec", "drivers")), "How many drivers the node has.", "integer"),
    AGE,
)
CSI_DRIVERS = (
    NAME,
    Column(
        "AttachRequired",
        boolean("spec", "attachRequired", default=True),
        "Whether it attaches volumes.",
        "boolean",
    ),
    Column(
        "PodInfoOnMount",
        boolean("spec", "podInfoOnMount"),
        "Whether it gets the pod's data at mount.",
        "boolean",
    ),
    Column(
        "StorageCapacity",
        boolean("spec", "storageCapacity"),
        "Whether it publishes capacities.",
        "boolean",
    ),
    Column("TokenRequests", _token_requests, "The audiences of the tokens it gets."),
    Column(
        "RequiresRepublish",
        boolean("spec", "requiresRepublish"),
        "Whether it is called repeatedly.",
        "boolean",
    ),
    Column("Modes", _lifecycle_modes, "The life cycles of its volumes."),
    AGE,
)
CSI_STORAGE_CAPACITIES = (
    NAME,
    Column("StorageClassName", field("storageClassName"), "The storage class it describes."),
    Column("Capacity", field("capacity", default=UNSET), "How much is left."),
)
VOLUME_ATTACHMENTS = (
    NAME,
    Column("Attacher", field("spec", "attacher"), "The driver that attaches it.", format="name"),
    Column("PV", field("spec", "source", "persistentVolumeName"), "The volume."),
    Column("Node", field("spec", "nodeName"), "The node it is attached to."),
    Column("Attached", boolean("status", "attached"), "Whether it is attached.", "boolean"),
    AGE,
)
VOLUME_ATTRIBUTES_CLASSES = (
    NAME,
    Column("DriverName", field("driverName"), "The driver that knows the attributes."),
    AGE,
)
