"""Storage capacity: the room for new volumes in one part of the cluster.

A user creates each CSIStorageCapacity. If the CSIDriver tracks capacity, `capacity` falls by each
new volume and rises by each deleted one; volumes that are older than the CSIDriver do not count. An
annotation holds the size of the volumes that have been subtracted, so a capacity that a user
changes counts as the room left at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from berth.actors.scheduling.kube.annotations import PROVISIONED_BY
from berth.actors.scheduling.kube.labels import selector_or_nothing
from berth.actors.scheduling.kube.quantity import nano_value
from berth.actors.scheduling.kube.storage import CSIDriver, CSIStorageCapacity, PersistentVolume
from berth.actors.scheduling.kube.volumes import size_of

from ..objects.structs import Document
from ..objects.writes import Write, patch
from .topology import segment_in

PROVISIONED = "berth.dev/provisioned"
_NANO = 10**9
_SUFFIXES = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def reconcile(
    capacity: CSIStorageCapacity, volumes: Sequence[PersistentVolume], driver: CSIDriver | None
) -> list[Write]:
    """Updates a capacity. `volumes` are the volumes of its storage class."""
    if not tracks_capacity(driver):
        return []
    room = _unbounded_room(capacity, volumes)
    # What is beyond the capacity has not been subtracted: it does not come back with its volume.
    subtracted = quantity_of(_used(capacity, volumes) + min(room, 0))
    if capacity.metadata.annotations.get(PROVISIONED) == subtracted:
        return []
    body: Document = {"metadata": {"annotations": {PROVISIONED: subtracted}}}
    left = quantity_of(max(room, 0))
    if nano_value(left) != nano_value(capacity.capacity or 0):
        body["capacity"] = left
        if nano_value(capacity.maximum_volume_size or 0) > nano_value(left):
            body["maximumVolumeSize"] = left
    return [patch(capacity, body, guarded=True)]


def tracks_capacity(driver: CSIDriver | None) -> bool:
    return driver is not None and driver.spec.storage_capacity is True


def applies_to(capacity: CSIStorageCapacity, labels: Mapping[str, str]) -> bool:
    """True if the capacity applies to nodes with these labels."""
    return selector_or_nothing(capacity.node_topology).matches(labels)


def is_tracked(capacity: CSIStorageCapacity) -> bool:
    """True once the capacity records which volumes have been subtracted from it."""
    return PROVISIONED in capacity.metadata.annotations


def room_left(capacity: CSIStorageCapacity, volumes: Iterable[PersistentVolume]) -> int:
    """Returns the room that these volumes of the class leave, in billionths of a byte."""
    return max(_unbounded_room(capacity, volumes), 0)


def largest_in(capacity: CSIStorageCapacity) -> int | None:
    """Returns the largest size of a new volume; None if only the room left limits it."""
    largest = capacity.maximum_volume_size
    return None if largest is None else nano_value(largest)


def quantity_of(nano: int) -> str:
    """Returns the bytes, rounded up, with the largest suffix that leaves a whole number."""
    whole = -(-nano // _NANO)
    for power, suffix in zip(range(len(_SUFFIXES), 0, -1), _SUFFIXES, strict=True):
        if whole and whole % (1 << 10 * power) == 0:
            return f"{whole >> 10 * power}{suffix}"
    return str(whole)


def _unbounded_room(capacity: CSIStorageCapacity, volumes: Iterable[PersistentVolume]) -> int:
    """Returns the room that is left, which is negative if volumes were created at once for the same
    room.
    """
    room = nano_value(capacity.capacity or 0)
    if is_tracked(capacity):
        room += nano_value(capacity.metadata.annotations[PROVISIONED]) - _used(capacity, volumes)
    return room


def _used(capacity: CSIStorageCapacity, volumes: Iterable[PersistentVolume]) -> int:
    return sum(
        size_of(volume)
        for volume in volumes
        if PROVISIONED_BY in volume.metadata.annotations
        and applies_to(capacity, segment_in(volume))
    )
