"""Readers for volumes, claims, classes and drivers. Mirrors component-helpers' storage/volume.

A field that is missing or null reads as empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from berth.actors.scheduling.kube.annotations import BETA_CLASS, DEFAULT_CLASS
from berth.actors.scheduling.kube.csi_translation import csi_driver as replacement
from berth.actors.scheduling.kube.quantity import nano_value

from ..apiserver.rules.storage import driver_name
from .documents import (
    Document,
    annotations_of,
    controller_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)

NO_PROVISIONER = "kubernetes.io/no-provisioner"
HOLLOW_DRIVER = "hollow.csi.berth.dev"


class PodClaim(msgspec.Struct, frozen=True):
    """A claim that a pod names; the claim of a generic ephemeral volume must be the pod's own."""

    volume: str
    name: str
    ephemeral: bool


def pod_claims(pod: Document) -> list[PodClaim]:
    found: list[PodClaim] = []
    for volume in spec_of(pod).get("volumes") or ():
        name = volume.get("name") or ""
        source = volume.get("persistentVolumeClaim") or {}
        if source.get("claimName"):
            found.append(PodClaim(name, source["claimName"], ephemeral=False))
        elif volume.get("ephemeral") is not None:
            found.append(PodClaim(name, f"{name_of(pod)}-{name}", ephemeral=True))
    return found


def is_of_pod(claim: Document, pod: Document) -> bool:
    """True if the claim was made for a generic ephemeral volume of this pod."""
    owner = controller_of(claim)
    return owner is not None and owner["uid"] == uid_of(pod)


def class_of(document: Document) -> str:
    """The storage class of a volume or a claim; "" for none."""
    return annotations_of(document).get(BETA_CLASS, spec_of(document).get("storageClassName") or "")


def names_class(claim: Document) -> bool:
    """True if the claim asks for a class, or asks for none by an empty name."""
    return BETA_CLASS in annotations_of(claim) or spec_of(claim).get("storageClassName") is not None


def waits_for_consumer(storage_class: Document | None) -> bool:
    return (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"


def is_default_class(storage_class: Document) -> bool:
    annotations = annotations_of(storage_class)
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS)


def default_class(classes: Iterable[Document]) -> Document | None:
    """The newest of the default classes; the first by name of equally old ones."""
    found = sorted(filter(is_default_class, classes), key=name_of)
    return max(found, key=lambda one: one["metadata"].get("creationTimestamp") or "", default=None)


def provisions(storage_class: Document) -> bool:
    """True if volumes are made for the claims of this class."""
    return storage_class.get("provisioner") not in (None, "", NO_PROVISIONER)


def driver_of(storage_class: Document) -> str:
    """The CSI driver of the volumes that are made for a class."""
    name = storage_class.get("provisioner") or ""
    return replacement(name) or (HOLLOW_DRIVER if driver_name("", name) else name)


def volume_of(claim: Document) -> str:
    """The name of the volume that the claim asks for or is bound to."""
    return spec_of(claim).get("volumeName") or ""


def phase_in(document: Document) -> str:
    return status_of(document).get("phase") or "Pending"


def claim_reference(volume: Document) -> Mapping[str, str]:
    """The claim that the volume is for; empty for a free volume."""
    return spec_of(volume).get("claimRef") or {}


def claimed_key(volume: Document) -> str:
    """Namespace and name of the claim that the volume is for; "" for a free volume."""
    reference = claim_reference(volume)
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def claim_key(claim: Document) -> str:
    return f"{namespace_of(claim)}/{name_of(claim)}"


def is_for(volume: Document, claim: Document) -> bool:
    """True if the volume is bound to the claim, or reserved for a claim of its name."""
    reference = claim_reference(volume)
    return (
        bool(reference)
        and claimed_key(volume) == claim_key(claim)
        and reference.get("uid") in (None, "", uid_of(claim))
    )


def requested(claim: Document) -> int:
    """The size that the claim asks for, in billionths of a byte."""
    resources = spec_of(claim).get("resources") or {}
    return nano_value((resources.get("requests") or {}).get("storage") or 0)


def size_of(volume: Document) -> int:
    """In billionths of a byte."""
    return nano_value((spec_of(volume).get("capacity") or {}).get("storage") or 0)


def csi_driver(volume: Document) -> str:
    """The CSI driver of a volume; "" for a volume of another type."""
    return (spec_of(volume).get("csi") or {}).get("driver") or ""


def attach_required(driver: Document | None) -> bool:
    """True unless a CSIDriver object says that its volumes need no attachment."""
    return spec_of(driver or {}).get("attachRequired") is not False
