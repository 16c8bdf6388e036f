"""The disruption controller: how many pods of a PodDisruptionBudget may be evicted now."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from .claim import selects
from .documents import (
    Document,
    controller_of,
    deleting,
    int_or_percent,
    is_ready,
    labels_of,
    name_of,
    replicas_of,
    seconds_since,
    status_of,
    uid_of,
    with_condition,
)
from .writes import Again, Write, status_writes

FORGET_SECONDS = 120.0
SCALED = ("ReplicaSet", "ReplicationController", "StatefulSet", "Deployment")
Find = Callable[[Document], Document | None]


def reconcile(budget: Document, pods: Iterable[Document], find: Find, now: datetime) -> list[Write]:
    """`pods` are those of the namespace; `find` returns the object of an owner reference."""
    mine = [pod for pod in pods if selects(budget["spec"].get("selector"), labels_of(pod))]
    expected, desired = expectation(budget["spec"], mine, find)
    evicted = _evicted(budget, mine, now)
    healthy = sum(
        is_ready(pod) and not deleting(pod) and name_of(pod) not in evicted for pod in mine
    )
    allowed = max(healthy - desired, 0) if expected > 0 else 0
    status = {
        **status_of(budget),
        "observedGeneration": budget["metadata"].get("generation", 0),
        "disruptedPods": evicted,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
    }
    reason = "SufficientPods" if allowed else "InsufficientPods"
    status["conditions"] = with_condition(budget, "DisruptionAllowed", allowed > 0, reason, "", now)
    if not evicted and "disruptedPods" not in status_of(budget):
        del status["disruptedPods"]
    again = (
        [Again(FORGET_SECONDS - min(seconds_since(at, now) for at in evicted.values()))]
        if evicted
        else []
    )
    return [*status_writes(budget, status), *again]


def expectation(spec: Document, pods: list[Document], find: Find) -> tuple[int, int]:
    """The number of expected pods, and how many of them must be healthy."""
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most is not None:
        expected = _scale(pods, find)
        return expected, max(expected - int_or_percent(most, expected, round_up=True), 0)
    if isinstance(least, str):
        expected = _scale(pods, find)
        return expected, int_or_percent(least, expected, round_up=True)
    return len(pods), int(least or 0)


def _scale(pods: list[Document], find: Find) -> int:
    """The sum of the replicas of the pods' controllers; pods without a controller do not count."""
    scales: dict[str, int] = {}
    for pod in pods:
        owner = _owner(pod, find)
        if owner is not None:
            above = _owner(owner, find)
            scaled = owner if above is None else above
            scales[uid_of(scaled)] = replicas_of(scaled)
    return sum(scales.values())


def _owner(document: Document, find: Find) -> Document | None:
    reference = controller_of(document)
    if reference is None or reference["kind"] not in SCALED:
        return None
    found = find({**reference, "namespace": document["metadata"].get("namespace", "")})
    return found if found is not None and uid_of(found) == reference["uid"] else None


def _evicted(budget: Document, pods: list[Document], now: datetime) -> dict[str, str]:
    """Pods whose eviction was granted but not yet seen, each with the time of the grant.

    A grant expires after FORGET_SECONDS, in case the deletion never comes.
    """
    there = {name_of(pod) for pod in pods if not deleting(pod)}
    granted = status_of(budget).get("disruptedPods") or {}
    return {
        name: at
        for name, at in granted.items()
        if name in there and seconds_since(at, now) < FORGET_SECONDS
    }
