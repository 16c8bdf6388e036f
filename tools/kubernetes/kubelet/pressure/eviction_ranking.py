"""The order in which the pods of a node are evicted.

Mirrors the rank functions of pkg/kubelet/eviction/helpers.go: pods that use more than they request
come first, then those of lower priority, then those that use most beyond their requests.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from berth.actors.scheduling.kube import core
from berth.actors.scheduling.kube.requests import pod_requests

from ...objects.structs import Pod
from ..usage_models import PodUsage
from .thresholds import (
    CONTAINERFS,
    CONTAINERFS_INODES,
    DISK,
    IMAGEFS,
    IMAGEFS_INODES,
    NODEFS,
    NODEFS_INODES,
    PIDS,
    RESOURCES,
)

SYSTEM_CRITICAL = 2_000_000_000
MIRROR, SOURCE = "kubernetes.io/config.mirror", "kubernetes.io/config.source"
Stats = Mapping[str, PodUsage]  # by uid of the pod
_SortKey = Callable[[Pod], tuple[int, ...]]


class Layout(enum.Enum):
    """The file systems of a node besides the kubelet's own."""

    SHARED = "none: images and containers are on nodefs"
    DEDICATED = "imagefs, with images and containers"
    SPLIT = "imagefs, with images; containers are on nodefs"


class Part(enum.Enum):
    """The parts of a pod's disk usage that a file system can hold."""

    ROOTFS = enum.auto()
    LOGS = enum.auto()
    VOLUMES = enum.auto()

    # by identity, which is faster than the hash of its name
    __hash__ = object.__hash__


Parts = tuple[Part, ...]
_EVERYTHING: Parts = (Part.ROOTFS, Part.LOGS, Part.VOLUMES)
_NODEFS: dict[Layout, Parts] = {
    Layout.SHARED: _EVERYTHING,
    Layout.DEDICATED: (Part.LOGS, Part.VOLUMES),
    Layout.SPLIT: _EVERYTHING,
}
_IMAGEFS: dict[Layout, Parts] = {
    Layout.SHARED: _EVERYTHING,
    Layout.DEDICATED: (Part.ROOTFS,),
    Layout.SPLIT: (),
}
_CONTAINERFS: dict[Layout, Parts] = {
    Layout.SHARED: _EVERYTHING,
    Layout.DEDICATED: (Part.ROOTFS,),
    Layout.SPLIT: _EVERYTHING,
}
_PARTS = {
    NODEFS: _NODEFS,
    NODEFS_INODES: _NODEFS,
    IMAGEFS: _IMAGEFS,
    IMAGEFS_INODES: _IMAGEFS,
    CONTAINERFS: _CONTAINERFS,
    CONTAINERFS_INODES: _CONTAINERFS,
}


def parts_on(signal: str, layout: Layout) -> Parts:
    """Returns the parts of a pod's disk usage that count for a disk signal."""
    return _PARTS[signal][layout]


def is_static(pod: core.Pod) -> bool:
    return pod.metadata.annotations.get(SOURCE, "api") != "api"


def is_critical(pod: core.Pod) -> bool:
    """True for pods that are never evicted under pressure."""
    return (
        is_static(pod)
        or MIRROR in pod.metadata.annotations
        or (pod.spec.priority or 0) >= SYSTEM_CRITICAL
    )


def disk_parts(usage: PodUsage, resource: str) -> dict[Part, int]:
    """Returns the bytes, or for `inodes` the number of inodes, in the parts of a pod."""
    rootfs = logs = volumes = 0
    if resource == DISK:
        for container in usage.containers:
            rootfs += container.rootfs
            logs += container.logs
        for volume in usage.volumes:
            volumes += 0 if volume.in_memory else volume.used
    else:
        for container in usage.containers:
            rootfs += container.inodes
        for volume in usage.volumes:
            volumes += 0 if volume.in_memory else volume.inodes
    return {Part.ROOTFS: rootfs, Part.LOGS: logs, Part.VOLUMES: volumes}


def eviction_order(signal: str, pods: Iterable[Pod], stats: Stats, layout: Layout) -> list[Pod]:
    """Returns the pods in the order in which they are evicted for a signal.

    A pod without stats comes first.
    """
    resource = RESOURCES[signal]
    sort_key: _SortKey
    if signal == PIDS:
        sort_key = partial(_by_processes, stats)
    elif resource == "memory":
        sort_key = partial(_by_memory, stats)
    else:
        sort_key = partial(_by_disk, stats, parts_on(signal, layout), resource)
    return sorted(pods, key=sort_key)


def _by_processes(stats: Stats, pod: Pod) -> tuple[int, ...]:
    usage = stats.get(pod.metadata.uid)
    return pod.spec.priority or 0, usage is not None, 0 if usage is None else -usage.pids


def _by_memory(stats: Stats, pod: Pod) -> tuple[int, ...]:
    usage = stats.get(pod.metadata.uid)
    if usage is None:
        return False, False, pod.spec.priority or 0
    request = pod_requests(pod, status=False).get("memory", 0)
    return _excess_key(pod, usage.memory, request, request)


def _by_disk(stats: Stats, parts: Parts, resource: str, pod: Pod) -> tuple[int, ...]:
    usage = stats.get(pod.metadata.uid)
    if usage is None:
        return False, False, pod.spec.priority or 0
    amounts, requests = disk_parts(usage, resource), pod_requests(pod, status=False)
    used = sum(amounts[part] for part in parts)
    # Nobody can request inodes, so any use exceeds the request; the last comparison subtracts the
    # request of bytes for inodes, too, as the kubelet does.
    return _excess_key(pod, used, requests.get(resource, 0), requests.get(DISK, 0))


def _excess_key(pod: Pod, used: int, request: int, subtracted: int) -> tuple[int, ...]:
    return True, used <= request, pod.spec.priority or 0, subtracted - used
