"""The disruption controller: sets how many pods of a PodDisruptionBudget may be evicted now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.meta import HasMetadata

from .claim import selector_from
from .documents import status_of, with_condition
from .objects import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    Replicated,
    controller_of,
    deleting,
    int_or_percent,
    is_ready,
    replicas_of,
    seconds_since,
)
from .writes import Again, Write, status_writes

FORGET_SECONDS = 120.0
SCALED = ("ReplicaSet", "ReplicationController", "StatefulSet", "Deployment")
# A function that returns the workload of this kind, namespace and name.
Find = Callable[[str, str, str], Replicated | None]


def reconcile(
    budget: PodDisruptionBudget, pods: Iterable[Pod], find: Find, now: datetime
) -> list[Write]:
    """Writes the status of the budget. `pods` are those of its namespace."""
    selector = selector_from(budget.spec.selector)
    mine = [pod for pod in pods if selector.matches(pod.metadata.labels)]
    expected, desired = expectation(budget.spec, mine, find)
    evicted = _evicted(budget, mine, now)
    healthy = sum(
        is_ready(pod) and not deleting(pod) and pod.metadata.name not in evicted for pod in mine
    )
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    status = {
        **status_of(budget),
        "observedGeneration": budget.metadata.generation,
        "disruptedPods": evicted,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
    }
    reason = "SufficientPods" if allowed else "InsufficientPods"
    status["conditions"] = with_condition(
        budget.status.conditions, "DisruptionAllowed", allowed > 0, reason, "", now
    )
    again = (
        [Again(FORGET_SECONDS - min(seconds_since(at, now) for at in evicted.values()))]
        if evicted
        else []
    )
    return [*status_writes(budget, status), *again]


def expectation(spec: PodDisruptionBudgetSpec, pods: list[Pod], find: Find) -> tuple[int, int]:
    """Returns the number of expected pods, and how many of them must be healthy."""
    most, least = spec.max_unavailable, spec.min_available
    if most is not None:
        expected = _scale(pods, find)
        return expected, max(expected - int_or_percent(most, expected, round_up=True), 0)
    if isinstance(least, str):
        expected = _scale(pods, find)
        return expected, int_or_percent(least, expected, round_up=True)
    return len(pods), int(least or 0)


def _scale(pods: list[Pod], find: Find) -> int:
    """Returns the sum of the replicas of the pods' controllers; other pods do not count."""
    scales: dict[str, int] = {}
    for pod in pods:
        owner = _owner(pod, find)
        if owner is not None:
            above = _owner(owner, find)
            scaled = owner if above is None else above
            scales[scaled.metadata.uid] = replicas_of(scaled)
    return sum(scales.values())


def _owner(obj: HasMetadata, find: Find) -> Replicated | None:
    reference = controller_of(obj)
    if reference is None or reference.kind not in SCALED:
        return None
    owner = find(reference.kind, obj.metadata.namespace, reference.name)
    return owner if owner is not None and owner.metadata.uid == reference.uid else None


def _evicted(budget: PodDisruptionBudget, pods: list[Pod], now: datetime) -> dict[str, str | None]:
    """Returns pods with a granted eviction that has not been seen yet, and the time of the grant.

    A grant expires after FORGET_SECONDS, in case the deletion never comes.
    """
    there = {pod.metadata.name for pod in pods if not deleting(pod)}
    return {
        name: at
        for name, at in budget.status.disrupted_pods.items()
        if name in there and seconds_since(at, now) < FORGET_SECONDS
    }
