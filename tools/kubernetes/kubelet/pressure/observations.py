"""The available resources of a node: its capacities, less the usage of pods, dead containers and
images.

Mirrors makeSignalObservations of pkg/kubelet/eviction/helpers.go, and the summary that it reads. A
node has one file system, unless an annotation gives it another one for images:

    berth.dev/imagefs: 50Gi          for images and the writable layers of containers
    berth.dev/split-imagefs: 50Gi    for images alone
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import msgspec

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.quantity import QuantityError, value

from ..usage_models import DeadContainer, PodUsage
from .eviction_ranking import Layout, Part, disk_parts, parts_on
from .thresholds import (
    ALLOCATABLE_MEMORY,
    CONTAINERFS,
    CONTAINERFS_INODES,
    DISK,
    IMAGEFS,
    IMAGEFS_INODES,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
    Observation,
)

DEDICATED_ANNOTATION, SPLIT_ANNOTATION = "berth.dev/imagefs", "berth.dev/split-imagefs"
MOST_PIDS = 32_768  # of Linux, by default
BYTES_PER_INODE = 16_384  # of ext4, by default
_SIGNALS = (
    (NODEFS, NODEFS_INODES),
    (IMAGEFS, IMAGEFS_INODES),
    (CONTAINERFS, CONTAINERFS_INODES),
)


class Machine(msgspec.Struct, frozen=True):
    """The capacities of a node in bytes, and which file systems it has."""

    memory: int
    allocatable_memory: int
    disk: int
    imagefs: int = 0
    layout: Layout = Layout.SHARED


def machine_of(node: Node) -> Machine:
    """Returns the capacities of a node. An annotation that is no quantity counts as absent."""
    capacity, allocatable = node.status.capacity, node.status.allocatable
    memory = value(capacity.get("memory", allocatable.get("memory", 0)))
    imagefs, layout = 0, Layout.SHARED
    for annotation, with_it in (
        (DEDICATED_ANNOTATION, Layout.DEDICATED),
        (SPLIT_ANNOTATION, Layout.SPLIT),
    ):
        size = _size(node.metadata.annotations.get(annotation, "0"))
        if size > 0:
            imagefs, layout = size, with_it
    return Machine(
        memory,
        value(allocatable.get("memory", memory)),
        value(capacity.get(DISK, allocatable.get(DISK, 0))),
        imagefs,
        layout,
    )


def has_same_machine(before: Node, after: Node) -> bool:
    """True if `machine_of` has the same result for two versions of a node, as after a heartbeat."""
    return (
        before.status.capacity == after.status.capacity
        and before.status.allocatable == after.status.allocatable
        and before.metadata.annotations == after.metadata.annotations
    )


def _size(text: str) -> int:
    try:
        return value(text)
    except QuantityError:
        return 0


def observe(
    machine: Machine, used: Iterable[PodUsage], dead: Iterable[DeadContainer], images: int
) -> dict[str, Observation]:
    """Returns the available amount for each signal. `images` is in bytes.

    A node that does not declare its memory or its disk has no signal for it.
    """
    usages = list(used)
    together = PodUsage(
        tuple(chain.from_iterable([usage.containers for usage in usages])),
        tuple(chain.from_iterable([usage.volumes for usage in usages])),
        tuple(dead),
    )
    observations: dict[str, Observation] = {}
    if machine.memory:
        memory = together.memory
        observations[MEMORY] = _remainder(machine.memory, memory)
        observations[ALLOCATABLE_MEMORY] = _remainder(machine.allocatable_memory, memory)
    if machine.disk:
        observations |= _disks(machine, together, images)
    observations[PIDS] = _remainder(MOST_PIDS, together.pids)
    return observations


def _disks(machine: Machine, together: PodUsage, images: int) -> dict[str, Observation]:
    layout = machine.layout
    used, inodes_used = disk_parts(together, DISK), disk_parts(together, "inodes")
    for container in together.dead:
        used[Part.ROOTFS] += container.rootfs
        used[Part.LOGS] += container.logs
        inodes_used[Part.ROOTFS] += container.inodes
    observations: dict[str, Observation] = {}
    for available, inodes in _SIGNALS:
        parts = parts_on(available, layout)
        on_imagefs = layout is not Layout.SHARED and (
            available == IMAGEFS or (available == CONTAINERFS and layout is Layout.DEDICATED)
        )
        size = machine.imagefs if on_imagefs else machine.disk
        of_images = images if on_imagefs or layout is Layout.SHARED else 0
        observations[available] = _remainder(size, of_images + sum(used[part] for part in parts))
        observations[inodes] = _remainder(
            size // BYTES_PER_INODE, sum(inodes_used[part] for part in parts)
        )
    return observations


def _remainder(capacity: int, used: int) -> Observation:
    return Observation(max(capacity - used, 0), capacity)
