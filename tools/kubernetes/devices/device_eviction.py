"""Device taint eviction: deletes pods that use a device with a NoExecute taint.

Mirrors Kubernetes' device taint eviction controller. A claim tolerates taints by the tolerations of
its allocation, for some time or for ever. This time begins when the taint is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from berth.actors.scheduling.kube.claims import controller_uid
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import (
    NO_EXECUTE,
    Device,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)

from ..objects.object_events import Reporter, about
from ..objects.properties import is_active, seconds_since
from ..objects.writes import Again, Create, Write, delete, disrupted
from .device_claims import device_claims, is_reserved, pool_with, results_of

REPORTER = Reporter("device_taint_eviction")
MESSAGE = "Device Taint manager: deleting due to NoExecute taint"
Slices = Callable[[str], Iterable[ResourceSlice]]


def reconcile(
    pod: Pod, claim: Callable[[str], ResourceClaim | None], slices: Slices, now: datetime
) -> list[Write]:
    """Decides on a pod. `claim` looks up by name, `slices` by pool as in `pool_with`."""
    if not pod.spec.node_name or not is_active(pod):
        return []
    waits = [
        wait
        for used in _used_claims(pod, claim)
        for wait in _waits(used, slices, now)
        if wait is not None
    ]
    if not waits:
        return []
    if min(waits) > 0:
        return [Again(min(waits))]
    reason = "DeviceTaintManagerEviction"
    event = about(pod, "Normal", reason, "Marking for deletion", REPORTER, now)
    marks = disrupted(pod, "DeletionByDeviceTaintManager", MESSAGE, now)
    return [Create("Event", event), *marks, delete(pod)]


def _used_claims(pod: Pod, find: Callable[[str], ResourceClaim | None]) -> Iterator[ResourceClaim]:
    for entry in device_claims(pod):
        claim = find(entry.claim) if entry.claim else None
        if claim is None or (entry.template and controller_uid(claim) != pod.metadata.uid):
            continue
        if is_reserved(claim, pod):
            yield claim


def _waits(claim: ResourceClaim, slices: Slices, now: datetime) -> Iterator[float | None]:
    """Yields how long the pod may stay, for each taint of the claim's devices; None for ever."""
    for result in results_of(claim):
        device = _device(result, slices(pool_with(result)))
        for taint in device.taints if device else ():
            if taint.effect == NO_EXECUTE:
                seconds = tolerated_seconds(taint, result.tolerations)
                passed = seconds_since(taint.time_added, now)
                yield None if seconds is None else seconds - passed


def _device(
    result: DeviceRequestAllocationResult, slices: Iterable[ResourceSlice]
) -> Device | None:
    """Returns the device in the latest generation of the pool's slices; None if it is not there."""
    specs = [slice_.spec for slice_ in slices]
    last = max((spec.pool.generation for spec in specs), default=0)
    devices = (each for spec in specs if spec.pool.generation == last for each in spec.devices)
    return next((each for each in devices if each.name == result.device), None)


def tolerated_seconds(taint: DeviceTaint, tolerations: Iterable[DeviceToleration]) -> float | None:
    """Returns how long a taint is tolerated; None for ever. Only NoExecute tolerations count."""
    limits: list[float] = []
    for toleration in tolerations:
        if toleration.effect != NO_EXECUTE or not _tolerates(toleration, taint):
            continue
        if toleration.toleration_seconds is None:
            return None
        limits.append(max(float(toleration.toleration_seconds), 0.0))
    return min(limits, default=0.0)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
