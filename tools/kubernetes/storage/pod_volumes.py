"""Reads the volumes of pods, their claims and classes. Mirrors component-helpers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from berth.actors.scheduling.kube.annotations import DEFAULT_CLASS
from berth.actors.scheduling.kube.claims import claim_name, controller_uid
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.csi_translation import csi_driver
from berth.actors.scheduling.kube.meta import ObjectReference
from berth.actors.scheduling.kube.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

from ..api.rules.value_forms import driver_name

HOLLOW_DRIVER = "hollow.csi.berth.dev"
_NO_CLAIM = ObjectReference()


class PodClaim(msgspec.Struct, frozen=True):
    """A claim that a pod names; the claim of a generic ephemeral volume must belong to the pod."""

    name: str
    ephemeral: bool


def pod_claims(pod: Pod) -> list[PodClaim]:
    if not pod.spec.volumes:
        return []
    named = ((claim_name(pod, volume), volume.ephemeral) for volume in pod.spec.volumes)
    return [PodClaim(name, ephemeral is not None) for name, ephemeral in named if name]


def is_of_pod(claim: PersistentVolumeClaim, pod: Pod) -> bool:
    """True if the claim was created for a generic ephemeral volume of this pod."""
    return controller_uid(claim) == pod.metadata.uid


def waits_for_consumer(storage_class: StorageClass | None) -> bool:
    return (
        storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    )


def is_default_class(storage_class: StorageClass) -> bool:
    annotations = storage_class.metadata.annotations
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS)


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Returns the newest default class; of equally new ones, the first by name."""
    defaults = sorted(filter(is_default_class, classes), key=lambda each: each.metadata.name)
    return max(defaults, key=lambda each: each.metadata.creation_timestamp or "", default=None)


def driver_of(storage_class: StorageClass) -> str:
    """Returns the CSI driver of the volumes of a class."""
    name = storage_class.provisioner
    return csi_driver(name) or (HOLLOW_DRIVER if driver_name("", name) else name)


def claim_reference(volume: PersistentVolume) -> ObjectReference:
    """Returns the claim to which the volume is reserved; an empty reference for a free volume."""
    return volume.spec.claim_ref or _NO_CLAIM


def claimed_key(volume: PersistentVolume) -> str:
    """Returns namespace and name of the claim to which the volume is reserved; "" for a free
    volume.
    """
    reference = volume.spec.claim_ref
    return f"{reference.namespace}/{reference.name}" if reference else ""


def driver_in(volume: PersistentVolume) -> str:
    """Returns the CSI driver of a volume; "" for a volume of another type."""
    return volume.spec.csi.driver if volume.spec.csi else ""


def needs_attachment(driver: CSIDriver | None) -> bool:
    """True unless a CSIDriver object says that its volumes need no attachment."""
    return driver is None or driver.spec.attach_required is not False
