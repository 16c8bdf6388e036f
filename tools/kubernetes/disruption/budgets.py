"""The disruption controller: sets how many pods of a PodDisruptionBudget may be evicted now.

It also clears the condition DisruptionTarget of pods that were to be deleted, and were not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.labels import SelectorError, from_label_selector
from berth.actors.scheduling.kube.meta import HasMetadata, OwnerReference

from ..api.types.resources import BY_KIND
from ..objects.documents import status_of, with_condition
from ..objects.object_events import Reporter, event_about
from ..objects.properties import (
    condition_of,
    controller_of,
    deleting,
    int_or_percent,
    is_finished,
    is_ready,
    replicas_of,
    seconds_since,
)
from ..objects.structs import Document, PodDisruptionBudget, PodDisruptionBudgetSpec, Replicated
from ..objects.writes import Again, Create, Write, status_writes

REPORTER = Reporter("controllermanager")
# An eviction that was granted this long ago, and whose pod is still there, counts no longer.
FORGET_SECONDS = 120.0
STALE_SECONDS = 120.0  # the time after which a DisruptionTarget without a deletion is taken back
ALLOWED = "DisruptionAllowed"
_APPS = ("apps", "extensions")
# The API groups of the workloads whose replicas are the expected pods.
SCALED: dict[str, tuple[str, ...]] = {
    "ReplicaSet": _APPS,
    "Deployment": _APPS,
    "StatefulSet": ("apps",),
    "ReplicationController": ("",),
}
# A function that returns the workload of this kind, namespace and name.
Find = Callable[[str, str, str], Replicated | None]


class UncountableError(Exception):
    """The number of pods that a budget expects cannot be told."""


class Expectation(msgspec.Struct, frozen=True):
    """The number of expected pods, the number of them that must be healthy, and the pods without a
    controller.
    """

    expected: int
    desired: int
    unmanaged: tuple[str, ...] = ()


def reconcile(
    budget: PodDisruptionBudget, pods: Iterable[Pod], find: Find, now: datetime
) -> list[Write]:
    """Writes the status of the budget, with events if it changes. `pods` include all its pods.

    If the pods cannot be counted, the budget allows no disruption.
    """
    try:
        selector = from_label_selector(budget.spec.selector)
    except SelectorError as problem:
        why = ("NoPods", f"Failed to get pods: {problem}")
        return _forbid_disruptions(budget, str(problem), why, now)
    mine = [pod for pod in pods if selector.matches(pod.metadata.labels)]
    try:
        counts = expectation(budget.spec, mine, find)
    except UncountableError as problem:
        what = f"Failed to calculate the number of expected pods: {problem}"
        return _forbid_disruptions(
            budget, str(problem), ("CalculateExpectedPodCountFailed", what), now
        )
    disrupted, overdue = _granted_evictions(budget, mine, now)
    healthy = sum(
        is_ready(pod) and not deleting(pod) and pod.metadata.name not in disrupted for pod in mine
    )
    allowed = max(healthy - counts.desired, 0) if counts.expected > 0 else 0
    generation = budget.metadata.generation
    reason = "SufficientPods" if allowed else "InsufficientPods"
    status = {
        **status_of(budget),
        "observedGeneration": generation,
        "disruptedPods": disrupted,
        "currentHealthy": healthy,
        "desiredHealthy": counts.desired,
        "expectedPods": counts.expected,
        "disruptionsAllowed": allowed,
        "conditions": _conditions(budget, allowed > 0, reason, "", generation, now),
    }
    writes = status_writes(budget, status)
    if writes:
        writes += [Create("Event", event) for event in _events(budget, mine, counts, now)]
        writes += [Create("Event", _not_deleted(budget, pod, now)) for pod in overdue]
    if disrupted:
        oldest = max(seconds_since(at, now) for at in disrupted.values())
        writes.append(Again(FORGET_SECONDS - oldest))
    return writes


def expectation(spec: PodDisruptionBudgetSpec, pods: Sequence[Pod], find: Find) -> Expectation:
    """Returns the numbers of pods that the budget expects. Raises UncountableError."""
    most, least = spec.max_unavailable, spec.min_available
    if most is not None:
        expected, unmanaged = _expected(pods, find)
        unavailable = _number_or_percentage(most, expected)
        return Expectation(expected, max(expected - unavailable, 0), unmanaged)
    if isinstance(least, str):
        expected, unmanaged = _expected(pods, find)
        return Expectation(expected, _number_or_percentage(least, expected), unmanaged)
    return Expectation(0, 0) if least is None else Expectation(len(pods), least)


def may_be_stale(pod: Pod) -> bool:
    """True if the pod has the condition of a pod to be deleted, but is not being deleted. A kubelet
    may take some time.
    """
    target = condition_of(pod.status.conditions, "DisruptionTarget")
    if target is None or target.status != "True" or target.reason == "TerminationByKubelet":
        return False
    return not deleting(pod) and not is_finished(pod)


def clear_stale_target(pod: Pod, now: datetime) -> list[Write]:
    """Sets the condition DisruptionTarget to False once it has been True for STALE_SECONDS."""
    target = condition_of(pod.status.conditions, "DisruptionTarget")
    if target is None or not may_be_stale(pod):
        return []
    left = STALE_SECONDS - seconds_since(target.last_transition_time, now)
    if left > 0:
        return [Again(left)]
    conditions = with_condition(pod.status.conditions, "DisruptionTarget", False, "", "", now)
    return status_writes(pod, {**status_of(pod), "conditions": conditions})


def _expected(pods: Sequence[Pod], find: Find) -> tuple[int, tuple[str, ...]]:
    """Returns the sum of the replicas of the pods' controllers, and the pods that have none."""
    scales: dict[str, int] = {}
    controllers: set[str] = set()
    unmanaged = []
    for pod in pods:
        reference = controller_of(pod)
        if reference is None:
            unmanaged.append(pod.metadata.name)
        elif reference.uid not in controllers:
            controllers.add(reference.uid)
            workload = _scaled(reference, pod.metadata.namespace, find)
            if workload is None:
                raise UncountableError(f'found no controllers for pod "{pod.metadata.name}"')
            scales[workload.metadata.uid] = replicas_of(workload)
    return sum(scales.values()), tuple(unmanaged)


def _scaled(reference: OwnerReference, namespace: str, find: Find) -> Replicated | None:
    """Returns the workload that scales pods of this controller; a Deployment for a ReplicaSet.

    Raises UncountableError if the controller is of a kind that has no scale.
    """
    group, _, version = reference.api_version.rpartition("/")
    if group not in SCALED.get(reference.kind, ()):
        served = BY_KIND.get((reference.api_version, reference.kind))
        if served is None:
            place = f'"{reference.kind}" in version "{reference.api_version or version}"'
            raise UncountableError(f"no matches for kind {place}")
        raise UncountableError(f"{served.resource} does not implement the scale subresource")
    workload = find(reference.kind, namespace, reference.name)
    if workload is None or workload.metadata.uid != reference.uid:
        return None
    above = controller_of(workload)
    if above is None or above.kind != "Deployment":
        return workload
    return _deployment(above, workload, find) or workload


def _deployment(reference: OwnerReference, below: HasMetadata, find: Find) -> Replicated | None:
    deployment = find("Deployment", below.metadata.namespace, reference.name)
    same = deployment is not None and deployment.metadata.uid == reference.uid
    return deployment if same else None


def _number_or_percentage(value: int | str, total: int) -> int:
    """Returns the number, or the percentage of `total`, rounded up. Raises UncountableError."""
    try:
        return int_or_percent(value, total, round_up=True)
    except ValueError:
        raise UncountableError(f"{value} is neither a number nor a percentage") from None


def _granted_evictions(
    budget: PodDisruptionBudget, pods: Sequence[Pod], now: datetime
) -> tuple[dict[str, str | None], list[Pod]]:
    """Returns the pods that may be evicted but are not yet deleted, with the time of the
    permission.

    Also returns pods whose grant is older than FORGET_SECONDS: their deletion never came.
    """
    waiting: dict[str, str | None] = {}
    overdue = []
    for pod in pods:
        name = pod.metadata.name
        if name in budget.status.disrupted_pods and not deleting(pod):
            at = budget.status.disrupted_pods[name]
            if seconds_since(at, now) < FORGET_SECONDS:
                waiting[name] = at
            else:
                overdue.append(pod)
    return waiting, overdue


def _conditions(
    budget: PodDisruptionBudget,
    allowed: bool,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> list[Document]:
    before = budget.status.conditions
    *others, condition = with_condition(before, ALLOWED, allowed, reason, message, now)
    return [*others, {**condition, "observedGeneration": generation}]


def _forbid_disruptions(
    budget: PodDisruptionBudget, problem: str, why: tuple[str, str], now: datetime
) -> list[Write]:
    """Writes a status that allows no disruption, and keeps the other numbers."""
    seen = budget.status.observed_generation
    conditions = _conditions(budget, False, "SyncFailed", problem, seen, now)
    status = {**status_of(budget), "disruptionsAllowed": 0, "conditions": conditions}
    writes = status_writes(budget, status)
    if writes:
        writes.append(Create("Event", event_about(budget, "Warning", *why, REPORTER, now)))
    return writes


def _events(
    budget: PodDisruptionBudget, pods: Sequence[Pod], counts: Expectation, now: datetime
) -> list[Document]:
    events = []
    if not pods:
        why = ("Normal", "NoPods", "No matching pods found")
        events.append(event_about(budget, *why, REPORTER, now))
    if counts.unmanaged:
        what = (
            f"The budget cannot count pods without a controller ({', '.join(counts.unmanaged)}); "
            'only a number in ".spec.minAvailable" accounts for them'
        )
        events.append(event_about(budget, "Warning", "UnmanagedPods", what, REPORTER, now))
    return events


def _not_deleted(budget: PodDisruptionBudget, pod: Pod, now: datetime) -> Document:
    place = f"{budget.metadata.namespace}/{budget.metadata.name}"
    what = f"Pod was expected by PDB {place} to be deleted but it wasn't"
    return event_about(pod, "Warning", "NotDeleted", what, REPORTER, now)
