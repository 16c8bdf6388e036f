"""Volumes and requirements of claims: sizes, the claim of a volume, creation of new volumes.

Mirrors component-helpers' storage/volume, and the checks of FindMatchingVolume that need no node.
"""

from __future__ import annotations

import msgspec

from .claims import class_of
from .labels import EVERYTHING, Selector, from_label_selector
from .quantity import nano_value
from .storage import PersistentVolume, PersistentVolumeClaim, StorageClass

FILESYSTEM = "Filesystem"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeRequest(msgspec.Struct, frozen=True, cache_hash=True):
    """The volume that a claim requires; `size` is in billionths of a byte."""

    storage_class: str
    size: int
    volume_mode: str
    access_modes: frozenset[str]
    attributes_class: str
    selector: Selector

    @classmethod
    def of(cls, claim: PersistentVolumeClaim) -> VolumeRequest:
        """Returns the request of a claim. Raises SelectorError."""
        spec = claim.spec
        return cls(
            class_of(claim),
            requested_size(claim),
            spec.volume_mode or FILESYSTEM,
            frozenset(spec.access_modes),
            spec.volume_attributes_class_name or "",
            EVERYTHING if spec.selector is None else from_label_selector(spec.selector),
        )

    def admits(self, volume: PersistentVolume) -> bool:
        """True if a volume of the class that is already bound to the claim can be used."""
        return not self._unusable(volume)

    def matches(self, volume: PersistentVolume) -> bool:
        """True if an available volume of the class can be bound to the claim."""
        return not self.mismatch(volume)

    def mismatch(self, volume: PersistentVolume) -> str:
        """Returns the first reason why a claim cannot use an available volume of its class; "" if
        it can.

        The reason is worded to follow a number of volumes.
        """
        problem = self._unusable(volume)
        if problem:
            return problem
        if not self.selector.matches(volume.metadata.labels):
            return "with labels that the claim does not select"
        if not self.has_modes(volume):
            return "without an access mode of the claim"
        return ""

    def has_modes(self, volume: PersistentVolume) -> bool:
        """True if the volume has every access mode of the claim."""
        return self.access_modes.issubset(volume.spec.access_modes)

    def _unusable(self, volume: PersistentVolume) -> str:
        spec = volume.spec
        if size_of(volume) < self.size:
            return "too small"
        if (spec.volume_mode or FILESYSTEM) != self.volume_mode:
            return "of another volume mode"
        if (spec.volume_attributes_class_name or "") != self.attributes_class:
            return "of another volume attributes class"
        return "" if volume.metadata.deletion_timestamp is None else "being deleted"


def requested_size(claim: PersistentVolumeClaim) -> int:
    """Returns the size that a claim requests, in billionths of a byte."""
    return nano_value(claim.spec.resources.requests.get("storage", 0))


def size_of(volume: PersistentVolume) -> int:
    """Returns the size of a volume in billionths of a byte."""
    return nano_value(volume.spec.capacity.get("storage", 0))


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """True if the volume is bound to the claim, or reserved for a claim of this name."""
    reference, metadata = volume.spec.claim_ref, claim.metadata
    return (
        reference is not None
        and (reference.namespace, reference.name) == (metadata.namespace, metadata.name)
        and reference.uid in ("", metadata.uid)
    )


def can_provision(storage_class: StorageClass) -> bool:
    """True if volumes are created for the claims of this class."""
    return storage_class.provisioner not in ("", NO_PROVISIONER)
