"""Storage capacity: what is left for new volumes in one part of the cluster.

A CSIStorageCapacity is created by hand. If the CSIDriver tracks capacity, its `capacity` falls by
what is provisioned and rises by what is deleted. An annotation holds the size of the volumes that
have been subtracted, so a capacity changed by hand counts as what is left at that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from berth.actors.scheduling.kube.annotations import PROVISIONED_BY
from berth.actors.scheduling.kube.quantity import nano_value

from ..claim import selects
from ..documents import Document, annotations_of, spec_of
from ..volumes import size_of
from ..writes import Write, patch
from .topology import segment_in

PROVISIONED = "berth.dev/provisioned"
_NANO = 10**9
_SUFFIXES = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def reconcile(
    capacity: Document, volumes: Sequence[Document], driver: Document | None
) -> list[Write]:
    """`volumes` are those of its storage class."""
    if not tracks_capacity(driver):
        return []
    used = quantity_of(_used(capacity, volumes))
    if annotations_of(capacity).get(PROVISIONED) == used:
        return []
    body: Document = {"metadata": {"annotations": {PROVISIONED: used}}}
    left = quantity_of(left_in(capacity, volumes))
    if nano_value(left) != _amount(capacity, "capacity"):
        body["capacity"] = left
        if _amount(capacity, "maximumVolumeSize") > nano_value(left):
            body["maximumVolumeSize"] = left
    return [patch(capacity, body, guarded=True)]


def tracks_capacity(driver: Document | None) -> bool:
    return spec_of(driver or {}).get("storageCapacity") is True


def covers(capacity: Document, labels: Mapping[str, str]) -> bool:
    """True if the capacity is that of nodes with these labels."""
    return selects(capacity.get("nodeTopology"), labels)


def is_tracked(capacity: Document) -> bool:
    """True once the capacity says which volumes have been subtracted."""
    return PROVISIONED in annotations_of(capacity)


def left_in(capacity: Document, volumes: Iterable[Document]) -> int:
    """The room that is left besides these volumes of the class, in billionths of a byte."""
    left = _amount(capacity, "capacity")
    if is_tracked(capacity):
        left += nano_value(annotations_of(capacity)[PROVISIONED]) - _used(capacity, volumes)
    return max(left, 0)


def largest_in(capacity: Document) -> int | None:
    """The largest size of a new volume; None if only what is left limits it."""
    given = capacity.get("maximumVolumeSize")
    return None if given is None else nano_value(given)


def quantity_of(nano: int) -> str:
    """Bytes, rounded up, with the largest suffix that leaves a whole number."""
    whole = -(-nano // _NANO)
    for power, suffix in zip(range(len(_SUFFIXES), 0, -1), _SUFFIXES, strict=True):
        if whole and whole % (1 << 10 * power) == 0:
            return f"{whole >> 10 * power}{suffix}"
    return str(whole)


def _used(capacity: Document, volumes: Iterable[Document]) -> int:
    return sum(
        size_of(volume)
        for volume in volumes
        if PROVISIONED_BY in annotations_of(volume) and covers(capacity, segment_in(volume))
    )


def _amount(capacity: Document, field: str) -> int:
    return nano_value(capacity.get(field) or 0)
