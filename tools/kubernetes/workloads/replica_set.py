"""The ReplicaSet and ReplicationController controllers: keep the desired number of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from ..objects.documents import documents_of, labels_in, pod_from, status_of, with_condition
from ..objects.properties import (
    condition_of,
    controls,
    deleting,
    is_active,
    is_finished,
    is_ready,
    replicas_of,
)
from ..objects.structs import Document, Pod, ReplicaSet, ReplicationController
from ..objects.writes import POD_CREATED, Create, Write, count_available, delete_pod, status_writes
from .adoption import claim, selector_of, would_keep
from .pod_ranking import by_usefulness

BURST = 500  # the most pods that one decision creates or deletes
FAILURE = "ReplicaFailure"  # the condition


def reconcile(
    owner: ReplicaSet | ReplicationController,
    candidates: Iterable[Pod],
    now: datetime,
    refusal: str = "",
    related: Callable[[], Iterable[Pod]] = tuple,
) -> list[Write]:
    """Adopts, creates or deletes pods, and writes the status.

    `related` returns the pods of all ReplicaSets of the same Deployment; it is called only before
    a deletion. `refusal` says why the server refused to create or delete the last pod; "" if it
    did not. Pods that have ended or are being deleted are neither adopted nor released.
    """
    running: list[Pod] = []
    ending: list[Pod] = []
    for pod in candidates:
        if is_active(pod):
            running.append(pod)
        elif not is_finished(pod):
            ending.append(pod)
    active, writes = claim(owner, running)
    desired = replicas_of(owner)
    if not deleting(owner) and would_keep(owner, labels_in(owner.spec.template)):
        missing = min(desired - len(active), BURST)
        writes += [Create("Pod", pod_from(owner), (POD_CREATED,)) for _ in range(missing)]
        surplus = len(active) - desired
        if surplus > 0:
            ranked = by_usefulness(active, related(), now)
            writes += [delete_pod(pod) for pod in ranked[: min(surplus, BURST)]]
    labels = labels_in(owner.spec.template)
    ready = [pod for pod in active if is_ready(pod)]
    available, again = count_available(ready, owner.spec.min_ready_seconds, now)
    selector = selector_of(owner)
    terminating = sum(
        controls(owner, pod) and selector.matches(pod.metadata.labels) for pod in ending
    )
    status = {
        **status_of(owner),
        "replicas": len(active),
        "fullyLabeledReplicas": sum(
            labels.items() <= pod.metadata.labels.items() for pod in active
        ),
        "readyReplicas": len(ready),
        "availableReplicas": available,
        **({"terminatingReplicas": terminating} if isinstance(owner, ReplicaSet) else {}),
        "observedGeneration": owner.metadata.generation,
        "conditions": _conditions(owner, len(active), refusal, now),
    }
    return writes + status_writes(owner, status) + again


def _conditions(
    owner: ReplicaSet | ReplicationController, active: int, refusal: str, now: datetime
) -> list[Document]:
    """Returns the conditions, with ReplicaFailure while the server refuses a change of pods."""
    have, desired = owner.status.conditions, replicas_of(owner)
    fails = bool(refusal) and active != desired
    if fails and condition_of(have, FAILURE) is None:
        reason = "FailedCreate" if active < desired else "FailedDelete"
        return with_condition(have, FAILURE, True, reason, refusal, now)
    return documents_of(each for each in have if fails or each.type != FAILURE)
