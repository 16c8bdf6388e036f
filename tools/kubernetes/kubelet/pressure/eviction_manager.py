"""The eviction manager of a node: a state machine that takes a step in each monitoring interval.

Mirrors `synchronize` and `Admit` of pkg/kubelet/eviction/eviction_manager.go. What is available
and what pods use comes in; conditions, at most one eviction under pressure, and every eviction of
a pod that exceeds its own limits come out. Times are in seconds, as Unix time.

Each observation is new. So a signal that does not change still leads to an eviction at the next
step, as with a kubelet whose statistics are never older than its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ...objects.structs import Pod
from .eviction_ranking import Layout, Stats, eviction_order, is_critical
from .kubelet_settings import Settings
from .local_storage import limit_exceeded
from .messages import eviction_message
from .thresholds import (
    CONTAINERFS,
    CONTAINERFS_INODES,
    IMAGEFS,
    IMAGEFS_INODES,
    NODEFS,
    NODEFS_INODES,
    RESOURCES,
    Observations,
    Threshold,
    by_priority,
    conditions_of,
    first_observed,
    past_grace,
    thresholds_met,
    union_of_thresholds,
    with_containerfs,
)

IMMEDIATE_GRACE_SECONDS = 1
CONTAINERS, IMAGES = "containers", "images"  # what can be reclaimed from a node
_ON_DISK = (NODEFS, NODEFS_INODES, IMAGEFS, IMAGEFS_INODES, CONTAINERFS, CONTAINERFS_INODES)
_ON_IMAGEFS = (IMAGEFS, IMAGEFS_INODES)
_ON_NODEFS = (NODEFS, NODEFS_INODES)


class Eviction(msgspec.Struct, frozen=True):
    """The eviction of a pod, with its grace period in seconds.

    `under_pressure` is False for a pod that exceeds a limit of its own.
    """

    pod: Pod
    message: str
    grace: int = IMMEDIATE_GRACE_SECONDS
    annotations: dict[str, str] = {}
    under_pressure: bool = False


class EvictionStep(msgspec.Struct, frozen=True):
    """The result of a step. `starved` is the resource that it tried to reclaim."""

    starved: str = ""
    reclaimed: tuple[str, ...] = ()
    evictions: tuple[Eviction, ...] = ()


class Manager:
    def __init__(self, settings: Settings, layout: Layout) -> None:
        self._settings = settings
        self._layout = layout
        self._thresholds = with_containerfs(
            settings.thresholds, containers_on_imagefs=layout is Layout.DEDICATED
        )
        self._first_observed: dict[Threshold, float] = {}
        self._last_observed: dict[str, float] = {}  # by condition
        self._met: list[Threshold] = []
        self.conditions: tuple[str, ...] = ()

    @property
    def is_resting(self) -> bool:
        """True if no threshold was met at the last step."""
        return not self._first_observed

    def is_calm(self, observations: Observations) -> bool:
        """True if none of these observations is below its threshold."""
        return not thresholds_met(self._thresholds, observations, enforce_min_reclaim=False)

    def ends_at(self) -> float | None:
        """Returns when the first condition ends, provided that no threshold is met; None without
        conditions.
        """
        first = min(map(self._last_observed.__getitem__, self.conditions), default=None)
        return None if first is None else first + self._settings.transition

    def step(
        self,
        pods: Sequence[Pod],
        stats: Stats,
        observations: Observations,
        after_reclaim: Callable[[tuple[str, ...]], Observations],
        now: float,
    ) -> EvictionStep:
        """Decides on the active pods.

        `after_reclaim` returns the available amounts once these resources are reclaimed from the
        node.
        """
        thresholds = self._observe(observations, now)
        evictions = self._beyond_limits(pods, stats) if self._settings.isolates_storage else []
        if evictions or not thresholds:
            return EvictionStep(evictions=tuple(evictions))
        thresholds = by_priority(thresholds)
        chosen = thresholds[0]
        starved, reclaims = RESOURCES[chosen.signal], reclaimable(chosen.signal, self._layout)
        if reclaims and not thresholds_met(
            self._thresholds, after_reclaim(reclaims), enforce_min_reclaim=True
        ):
            return EvictionStep(starved, reclaims)
        victim = next(
            (
                p
                for p in eviction_order(chosen.signal, pods, stats, self._layout)
                if not is_critical(p)
            ),
            None,
        )
        if victim is None:
            return EvictionStep(starved, reclaims)
        message, annotations = eviction_message(
            starved, victim, stats.get(victim.metadata.uid), thresholds, observations
        )
        grace = IMMEDIATE_GRACE_SECONDS if chosen.is_hard else self._soft_grace(victim)
        eviction = Eviction(victim, message, grace, annotations, under_pressure=True)
        return EvictionStep(starved, reclaims, (eviction,))

    def _observe(self, observations: Observations, now: float) -> list[Threshold]:
        """Updates the conditions. Returns the thresholds that call for action."""
        thresholds = thresholds_met(self._thresholds, observations, enforce_min_reclaim=False)
        unresolved = thresholds_met(self._met, observations, enforce_min_reclaim=True)
        thresholds = union_of_thresholds(thresholds, unresolved)
        self._first_observed = first_observed(thresholds, self._first_observed, now)
        self._last_observed |= dict.fromkeys(conditions_of(thresholds), now)
        self.conditions = tuple(
            condition
            for condition, last in self._last_observed.items()
            if now - last < self._settings.transition
        )
        self._met = past_grace(self._first_observed, now)
        return self._met

    def _beyond_limits(self, pods: Sequence[Pod], stats: Stats) -> list[Eviction]:
        evictions = []
        for pod in pods:
            usage = stats.get(pod.metadata.uid)
            message = "" if usage is None else limit_exceeded(pod, usage, self._layout)
            if message and not is_critical(pod):
                evictions.append(Eviction(pod, message))
        return evictions

    def _soft_grace(self, pod: Pod) -> int:
        own, most = pod.spec.termination_grace_period_seconds, self._settings.most_grace
        return most if own is None else min(own, most)


def reclaimable(signal: str, layout: Layout) -> tuple[str, ...]:
    """Returns the resources that a node reclaims for a signal before it evicts pods."""
    if signal not in _ON_DISK:
        return ()
    match layout:
        case Layout.SHARED:
            return (CONTAINERS, IMAGES)
        case Layout.DEDICATED:
            return () if signal in _ON_NODEFS else (CONTAINERS, IMAGES)
        case Layout.SPLIT:
            return (IMAGES,) if signal in _ON_IMAGEFS else (CONTAINERS,)
