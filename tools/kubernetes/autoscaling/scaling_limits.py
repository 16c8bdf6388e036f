"""The limits on how far and how fast an autoscaler scales. Mirrors the normalization in upstream's
controller.

Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import msgspec

from ..objects.autoscalers import Behavior, HorizontalPodAutoscalerSpec, Rules

WINDOW_SECONDS = 300  # for which the highest recommendation counts, unless the behavior has its own
LONGEST_WINDOW_SECONDS = 3600
LONGEST_PERIOD_SECONDS = 1800
_STABILIZED = {
    "ScaleUpStabilized": "recent recommendations were lower than current one, "
    "applying the lowest recent recommendation",
    "ScaleDownStabilized": "recent recommendations were higher than current one, "
    "applying the highest recent recommendation",
}
_LIMITED = {
    "ScaleUpLimit": "the desired replica count is increasing faster than the maximum scale rate",
    "ScaleDownLimit": "the desired replica count is decreasing faster than the maximum scale rate",
    "TooManyReplicas": "the desired replica count is more than the maximum replica count",
    "TooFewReplicas": "the desired replica count is less than the minimum replica count",
}


class LimitVerdict(msgspec.Struct, frozen=True):
    """The status, the reason and the message of a condition."""

    status: bool
    reason: str
    message: str


READY = LimitVerdict(True, "ReadyForNewScale", "recommended size matches current size")
WITHIN = LimitVerdict(
    False, "DesiredWithinRange", "the desired count is within the acceptable range"
)


class ScaleWithinLimits(msgspec.Struct, frozen=True):
    """The replicas within the limits, and the conditions AbleToScale and ScalingLimited."""

    replicas: int
    able: LimitVerdict
    limited: LimitVerdict


class PastScale(msgspec.Struct, frozen=True):
    """A past number of replicas with its time: recommended, added or removed."""

    replicas: int
    at: float


class History:
    """The recommendations for one autoscaler, and the numbers of replicas that it added and
    removed.
    """

    def __init__(self) -> None:
        self.recommendations: list[PastScale] = []
        self.added: list[PastScale] = []
        self.removed: list[PastScale] = []

    def begin(self, current: int, now: float) -> None:
        """Notes the initial number of replicas of the target as a recommendation."""
        if not self.recommendations:
            self.recommendations.append(PastScale(current, now))

    def recommend(self, replicas: int, now: float) -> None:
        recent = _since(self.recommendations, now - LONGEST_WINDOW_SECONDS)
        self.recommendations = [*recent, PastScale(replicas, now)]

    def scaled(self, before: int, after: int, now: float) -> None:
        start, past = now - LONGEST_PERIOD_SECONDS, PastScale(abs(after - before), now)
        if after > before:
            self.added = [*_since(self.added, start), past]
        else:
            self.removed = [*_since(self.removed, start), past]

    def at_start(self, current: int, seconds: int, now: float) -> int:
        """Returns the replicas at the start of a period that ends now."""
        added, removed = (
            sum(past.replicas for past in each if past.at > now - seconds)
            for each in (self.added, self.removed)
        )
        return current - added + removed


def _since(past: Sequence[PastScale], start: float) -> list[PastScale]:
    return [each for each in past if each.at >= start]


def limit(
    history: History, spec: HorizontalPodAutoscalerSpec, current: int, desired: int, now: float
) -> ScaleWithinLimits:
    """Returns the number of replicas for now, given the `desired` number of the metrics, which is
    added to the history.
    """
    if spec.behavior is None:
        start = now - WINDOW_SECONDS
        recent = [past.replicas for past in history.recommendations if past.at >= start]
        stable = max([desired, *recent])
        able = READY if stable == desired else _stabilized("ScaleDownStabilized")
        replicas, limited = _within_range(spec, current, stable)
    else:
        stable, able = _stabilized_replicas(history, spec.behavior, current, desired, now)
        replicas, limited = _within_rates(history, spec, spec.behavior, current, stable, now)
    history.recommend(desired, now)
    return ScaleWithinLimits(replicas, able, limited)


def _stabilized(reason: str) -> LimitVerdict:
    return LimitVerdict(True, reason, _STABILIZED[reason])


def _scaling_limited(reason: str) -> LimitVerdict:
    return LimitVerdict(True, reason, _LIMITED[reason])


def _within_range(
    spec: HorizontalPodAutoscalerSpec, current: int, desired: int
) -> tuple[int, LimitVerdict]:
    """Returns the replicas within the range. They at most double, or grow to four."""
    rate = max(2 * current, 4)
    if desired < spec.min_replicas:
        return spec.min_replicas, _scaling_limited("TooFewReplicas")
    if desired > min(spec.max_replicas, rate):
        too_fast = spec.max_replicas > rate
        return min(spec.max_replicas, rate), _scaling_limited(
            "ScaleUpLimit" if too_fast else "TooManyReplicas"
        )
    return desired, WITHIN


def _stabilized_replicas(
    history: History, behavior: Behavior, current: int, desired: int, now: float
) -> tuple[int, LimitVerdict]:
    """Returns the replicas, between the lowest recommendation of one window and the highest of the
    other.
    """
    windows = (
        behavior.scale_up.stabilization_window_seconds or 0,
        WINDOW_SECONDS
        if behavior.scale_down.stabilization_window_seconds is None
        else behavior.scale_down.stabilization_window_seconds,
    )
    up, down = (
        [desired, *(past.replicas for past in history.recommendations if past.at > now - window)]
        for window in windows
    )
    stable = min(max(current, min(up)), max(down))
    if stable == desired:
        return stable, READY
    return stable, _stabilized("ScaleUpStabilized" if desired >= current else "ScaleDownStabilized")


def _within_rates(
    history: History,
    spec: HorizontalPodAutoscalerSpec,
    behavior: Behavior,
    current: int,
    desired: int,
    now: float,
) -> tuple[int, LimitVerdict]:
    """Returns the replicas within the range, and within the rates of the policies."""
    if desired > current:
        rate = max(_most_replicas(history, behavior.scale_up, current, now), current)
        if desired > min(spec.max_replicas, rate):
            too_fast = spec.max_replicas > rate
            return min(spec.max_replicas, rate), _scaling_limited(
                "ScaleUpLimit" if too_fast else "TooManyReplicas"
            )
    elif desired < current:
        rate = min(_least_replicas(history, behavior.scale_down, current, now), current)
        if desired < max(spec.min_replicas, rate):
            too_fast = spec.min_replicas < rate
            return max(spec.min_replicas, rate), _scaling_limited(
                "ScaleDownLimit" if too_fast else "TooFewReplicas"
            )
    return desired, WITHIN


def _most_replicas(history: History, rules: Rules, current: int, now: float) -> int:
    """Returns the most replicas that the policies allow."""
    return _limit(history, rules, current, now, 1)


def _least_replicas(history: History, rules: Rules, current: int, now: float) -> int:
    """Returns the least replicas that the policies allow."""
    return _limit(history, rules, current, now, -1)


def _limit(history: History, rules: Rules, current: int, now: float, sign: int) -> int:
    if rules.select_policy == "Disabled":
        return current
    limits = []
    for policy in rules.policies:
        start = history.at_start(current, policy.period_seconds, now)
        share = start * (1 + sign * policy.value / 100)
        rounded = ceil(share) if sign > 0 else int(share)
        limits.append(start + sign * policy.value if policy.type == "Pods" else rounded)
    return min(limits) if (rules.select_policy == "Min") == (sign > 0) else max(limits)
