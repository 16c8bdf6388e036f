"""Storage capacity: what is left for new volumes in one part of the cluster.

A CSIStorageCapacity is created by hand. If the CSIDriver tracks capacity, its `capacity` falls by
what is provisioned and rises by what is deleted. An annotation holds the size of the volumes that
have been subtracted, so a capacity changed by hand counts as what is left at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from berth.actors.scheduling.kube.annotations import PROVISIONED_BY
from berth.actors.scheduling.kube.quantity import nano_value
from berth.actors.scheduling.kube.storage import CSIDriver, CSIStorageCapacity, PersistentVolume
from berth.actors.scheduling.kube.volumes import size_of

from ..claim import selector_from
from ..objects import Document
from ..writes import Write, patch
from .topology import segment_in

PROVISIONED = "berth.dev/provisioned"
_NANO = 10**9
_SUFFIXES = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def reconcile(
    capacity: CSIStorageCapacity, volumes: Sequence[PersistentVolume], driver: CSIDriver | None
) -> list[Write]:
    """`volumes` are those of its storage class."""
    if not tracks_capacity(driver):
        return []
    used = quantity_of(_used(capacity, volumes))
    if capacity.metadata.annotations.get(PROVISIONED) == used:
        return []
    body: Document = {"metadata": {"annotations": {PROVISIONED: used}}}
    left = quantity_of(left_in(capacity, volumes))
    if nano_value(left) != nano_value(capacity.capacity or 0):
        body["capacity"] = left
        if nano_value(capacity.maximum_volume_size or 0) > nano_value(left):
            body["maximumVolumeSize"] = left
    return [patch(capacity, body, guarded=True)]


def tracks_capacity(driver: CSIDriver | None) -> bool:
    return driver is not None and driver.spec.storage_capacity is True


def covers(capacity: CSIStorageCapacity, labels: Mapping[str, str]) -> bool:
    """True if the capacity is that of nodes with these labels."""
    return selector_from(capacity.node_topology).matches(labels)


def is_tracked(capacity: CSIStorageCapacity) -> bool:
    """True once the capacity says which volumes have been subtracted."""
    return PROVISIONED in capacity.metadata.annotations


def left_in(capacity: CSIStorageCapacity, volumes: Iterable[PersistentVolume]) -> int:
    """The room that is left besides these volumes of the class, in billionths of a byte."""
    left = nano_value(capacity.capacity or 0)
    if is_tracked(capacity):
        provisioned = capacity.metadata.annotations[PROVISIONED]
        left += nano_value(provisioned) - _used(capacity, volumes)
    return max(left, 0)


def largest_in(capacity: CSIStorageCapacity) -> int | None:
    """The largest size of a new volume; None if only what is left limits it."""
    largest = capacity.maximum_volume_size
    return None if largest is None else nano_value(largest)


def quantity_of(nano: int) -> str:
    """Bytes, rounded up, with the largest suffix that leaves a whole number."""
    whole = -(-nano // _NANO)
    for power, suffix in zip(range(len(_SUFFIXES), 0, -1), _SUFFIXES, strict=True):
        if whole and whole % (1 << 10 * power) == 0:
            return f"{whole >> 10 * power}{suffix}"
    return str(whole)


def _used(capacity: CSIStorageCapacity, volumes: Iterable[PersistentVolume]) -> int:
    return sum(
        size_of(volume)
        for volume in volumes
        if PROVISIONED_BY in volume.metadata.annotations and covers(capacity, segment_in(volume))
    )
