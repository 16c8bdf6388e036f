"""Device taint eviction: deletes pods that use a device with a NoExecute taint.

A device has the taints of its slice, and those of the DeviceTaintRules that select it. A claim
tolerates taints by the tolerations of its allocation, for some time or for ever. This time begins
when the taint is added. Mirrors Kubernetes' device taint eviction controller, but for the claims of
extended resources, of which it knows nothing before 1.38.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.claims import controller_uid
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.devices import (
    NO_EXECUTE,
    Device,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from berth.actors.scheduling.kube.meta import key

from ..objects.object_events import Reporter, event_about
from ..objects.properties import is_active, seconds_since
from ..objects.writes import Again, Create, Write, delete, disruption_writes
from .device_claims import device_claims, is_reserved, pool_with, results_of

REPORTER = Reporter("device_taint_eviction")
REASON = "DeviceTaintManagerEviction"
MESSAGE = "Device Taint manager: deleting due to NoExecute taint"
FindClaim = Callable[[str], ResourceClaim | None]
Slices = Callable[[str], Iterable[ResourceSlice]]


class EvictingTaint(msgspec.Struct, frozen=True):
    """A NoExecute taint of a device that a pod uses, the seconds until it evicts the pod, and the
    rule that made the taint, if one did.
    """

    seconds: float
    rule: DeviceTaintRule | None = None


class DeviceEviction:
    """The pods that wait for their deletion, and those that each rule has evicted."""

    def __init__(self) -> None:
        self._marked: dict[str, str] = {}  # uids by namespace and name
        self._evicted: dict[str, set[str]] = {}  # by the uid of the rule

    def forget(self, pod: str) -> None:
        """Forgets a pod, by its namespace and name, that no longer exists."""
        self._marked.pop(pod, None)

    def forget_rule(self, uid: str) -> None:
        self._evicted.pop(uid, None)

    def evicted_by(self, rule: DeviceTaintRule) -> int:
        return len(self._evicted.get(rule.metadata.uid, ()))

    def reconcile(
        self,
        pod: Pod,
        claim: FindClaim,
        slices: Slices,
        rules: Iterable[DeviceTaintRule],
        now: datetime,
    ) -> list[Write]:
        """Decides on a pod. `claim` looks up by name, `slices` by pool as in `pool_with`."""
        name, uid = key(pod), pod.metadata.uid
        taints = evicting_taints(pod, claim, slices, rules, now)
        marked = self._marked.pop(name, None) == uid
        if not taints:
            cancelled = marked and is_active(pod)
            return [_event(pod, "Cancelling deletion", now)] if cancelled else []
        wait = min(taint.seconds for taint in taints)
        if wait > 0:
            self._marked[name] = uid
            return [Again(wait)]
        for rule in filter(None, (taint.rule for taint in taints)):
            self._evicted.setdefault(rule.metadata.uid, set()).add(uid)
        marks = disruption_writes(pod, "DeletionByDeviceTaintManager", MESSAGE, now)
        return [_event(pod, "Marking for deletion", now), *marks, delete(pod)]


def _event(pod: Pod, message: str, now: datetime) -> Create:
    return Create("Event", event_about(pod, "Normal", REASON, message, REPORTER, now))


def evicting_taints(
    pod: Pod, claim: FindClaim, slices: Slices, rules: Iterable[DeviceTaintRule], now: datetime
) -> list[EvictingTaint]:
    """Returns the taints that evict a pod, now or later: those that are not tolerated for ever."""
    if not pod.spec.node_name or not is_active(pod):
        return []
    evicting = [rule for rule in rules if rule.spec.taint.effect == NO_EXECUTE]
    return [
        taint for used in _used_claims(pod, claim) for taint in _taints(used, slices, evicting, now)
    ]


def selects(rule: DeviceTaintRule, result: DeviceRequestAllocationResult) -> bool:
    """True if a rule selects an allocated device; a rule without a selector selects none."""
    return selects_device(rule, result.driver, result.pool, result.device)


def selects_device(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    selector = rule.spec.device_selector
    return (
        selector is not None
        and selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and selector.device in (None, device)
    )


def _used_claims(pod: Pod, find: FindClaim) -> Iterator[ResourceClaim]:
    for entry in device_claims(pod):
        claim = find(entry.claim) if entry.claim else None
        if claim is None or (entry.template and controller_uid(claim) != pod.metadata.uid):
            continue
        if is_reserved(claim, pod):
            yield claim


def _taints(
    claim: ResourceClaim, slices: Slices, rules: Iterable[DeviceTaintRule], now: datetime
) -> Iterator[EvictingTaint]:
    """Yields the taints of a claim's devices that the claim does not tolerate for ever."""
    for result in results_of(claim):
        device = _device(result, slices(pool_with(result)))
        taints: list[tuple[DeviceTaint, DeviceTaintRule | None]] = [
            *((taint, None) for taint in (device.taints if device else ())),
            *((rule.spec.taint, rule) for rule in rules if selects(rule, result)),
        ]
        for taint, rule in taints:
            if taint.effect != NO_EXECUTE:
                continue
            seconds = tolerated_seconds(taint, result.tolerations)
            if seconds is not None:
                yield EvictingTaint(seconds - seconds_since(taint.time_added, now), rule)


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
