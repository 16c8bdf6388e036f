"""Device taint eviction: deletes pods that use a device with a NoExecute taint.

Mirrors Kubernetes' device taint eviction controller. A claim tolerates taints by the tolerations of
its allocation, for some time or for ever. The time of a taint counts from when it was added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from ..device_claims import device_claims, is_made_for, is_reserved, pool_key, results_of
from ..documents import (
    Document,
    is_active,
    name_of,
    namespace_of,
    node_of,
    seconds_since,
    spec_of,
    uid_of,
)
from ..events import Reporter, about_pod
from ..writes import Again, Create, Write, delete, disrupted

NO_EXECUTE = "NoExecute"
REPORTER = Reporter("device_taint_eviction")
MESSAGE = "Device Taint manager: deleting due to NoExecute taint"
Slices = Callable[[str], Iterable[Document]]


def reconcile(
    pod: Document, claim: Callable[[str], Document | None], slices: Slices, now: datetime
) -> list[Write]:
    """`claim` looks up a claim by name; `slices` are those of a pool, see `pool_key`."""
    if not node_of(pod) or not is_active(pod):
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
    about = namespace_of(pod), name_of(pod), uid_of(pod)
    reason = "DeviceTaintManagerEviction"
    event = about_pod(about, "Normal", reason, "Marking for deletion", REPORTER, now)
    marks = disrupted(pod, "DeletionByDeviceTaintManager", MESSAGE, now)
    return [Create("Event", event), *marks, delete(pod)]


def _used_claims(pod: Document, find: Callable[[str], Document | None]) -> Iterator[Document]:
    for entry in device_claims(pod):
        claim = find(entry.claim) if entry.claim else None
        if claim is None or (entry.template and not is_made_for(claim, pod)):
            continue
        if is_reserved(claim, pod):
            yield claim


def _waits(claim: Document, slices: Slices, now: datetime) -> Iterator[float | None]:
    """For each taint of the claim's devices, how long the pod may stay; None for ever."""
    for result in results_of(claim):
        device = _device(result, slices(pool_key(result)))
        for taint in (device or {}).get("taints") or ():
            if taint.get("effect") == NO_EXECUTE:
                seconds = tolerated_seconds(taint, result.get("tolerations") or ())
                passed = seconds_since(taint.get("timeAdded"), now)
                yield None if seconds is None else seconds - passed


def _device(result: Document, slices: Iterable[Document]) -> Document | None:
    """The device in the slices of the pool's last generation; None if they do not have it."""
    specs = [spec_of(one) for one in slices]
    last = max((_generation(spec) for spec in specs), default=0)
    for spec in specs:
        for device in spec.get("devices") or () if _generation(spec) == last else ():
            if device.get("name") == result.get("device"):
                found: Document = device
                return found
    return None


def _generation(spec: Document) -> int:
    return int((spec.get("pool") or {}).get("generation") or 0)


def tolerated_seconds(taint: Document, tolerations: Iterable[Document]) -> float | None:
    """How long a taint is tolerated; None for ever. Only tolerations of NoExecute count."""
    limits: list[float] = []
    for toleration in tolerations:
        if toleration.get("effect") != NO_EXECUTE or not _tolerates(toleration, taint):
            continue
        if toleration.get("tolerationSeconds") is None:
            return None
        limits.append(max(float(toleration["tolerationSeconds"]), 0.0))
    return min(limits, default=0.0)


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return (toleration.get("value") or "") == (taint.get("value") or "")
