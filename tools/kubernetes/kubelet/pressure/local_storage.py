"""Pods that exceed their own limits of local storage: of a volume, the pod or a container.

Mirrors localStorageEviction of pkg/kubelet/eviction/eviction_manager.go.
"""

from __future__ import annotations

from berth.actors.scheduling.kube.quantity import nano_value
from berth.actors.scheduling.kube.requests import exact_limits

from ...objects.structs import Pod
from ..usage_models import PodUsage
from .eviction_ranking import Layout
from .quantities import canonical, printed_as
from .thresholds import DISK

_NANOS = 10**9


def limit_exceeded(pod: Pod, usage: PodUsage, layout: Layout) -> str:
    """Returns the message about the first limit that the pod exceeds; "" if it exceeds none."""
    return _volume(pod, usage) or _pod_excess(pod, usage) or _container(pod, usage, layout)


def _volume(pod: Pod, usage: PodUsage) -> str:
    used = {volume.name: volume.used for volume in usage.volumes}
    for volume in pod.spec.volumes:
        size = None if volume.empty_dir is None else volume.empty_dir.size_limit
        if size is None:
            continue
        most = nano_value(size)
        if most > 0 and used.get(volume.name, 0) * _NANOS > most:
            limit = canonical(size)
            return f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". '
    return ""


def _pod_excess(pod: Pod, usage: PodUsage) -> str:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    limits = [c.resources.limits[DISK] for c in containers if DISK in c.resources.limits]
    if not limits:
        return ""
    limit = exact_limits(pod.spec)[DISK]
    if usage.ephemeral_storage * _NANOS <= limit:
        return ""
    text = printed_as(limits[0], limit)
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {text}. "


def _container(pod: Pod, usage: PodUsage, layout: Layout) -> str:
    limits = {c.name: c.resources.limits.get(DISK) for c in pod.spec.containers}
    for container in usage.containers:
        limit = limits.get(container.name)
        # On an own file system, the writable layer does not count.
        used = container.logs + (container.rootfs if layout is Layout.SHARED else 0)
        if limit is not None and 0 < nano_value(limit) < used * _NANOS:
            return (
                f"Container {container.name} exceeded its local ephemeral storage limit "
                f'"{canonical(limit)}". '
            )
    return ""
