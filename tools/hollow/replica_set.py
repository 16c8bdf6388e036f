"""The ReplicaSet and ReplicationController controllers: keep the desired number of pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from berth.actors.scheduling.kube.core import Pod

from .claim import claim
from .documents import documents_of, labels_in, pod_from, status_of, with_condition
from .objects import (
    Document,
    ReplicaSet,
    ReplicationController,
    condition_of,
    deleting,
    is_active,
    is_ready,
    phase_of,
    replicas_of,
)
from .writes import Create, Write, count_available, delete, status_writes

BURST = 500
FAILURE = "ReplicaFailure"  # the condition
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
AnyPod = TypeVar("AnyPod", bound=Pod)
_PHASES = {"Pending": 0, "Unknown": 1}


def reconcile(
    owner: ReplicaSet | ReplicationController,
    candidates: Iterable[Pod],
    now: datetime,
    refusal: str = "",
) -> list[Write]:
    """Adopts, creates or deletes pods, and writes the status.

    `refusal` says why the server refused the last pod; "" if it took it.
    """
    pods, writes = claim(owner, candidates)
    active = [pod for pod in pods if is_active(pod)]
    desired = replicas_of(owner)
    if not deleting(owner):
        missing = min(desired - len(active), BURST)
        writes += [Create("Pod", pod_from(owner)) for _ in range(missing)]
        writes += [delete(pod) for pod in surplus(active, len(active) - desired)]
    labels = labels_in(owner.spec.template)
    available, again = count_available(active, owner.spec.min_ready_seconds, now)
    status = {
        **status_of(owner),
        "replicas": len(active),
        "fullyLabeledReplicas": sum(
            labels.items() <= pod.metadata.labels.items() for pod in active
        ),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": available,
        "observedGeneration": owner.metadata.generation,
        "conditions": _conditions(owner, refusal, now),
    }
    return writes + status_writes(owner, status) + again


def _conditions(
    owner: ReplicaSet | ReplicationController, refusal: str, now: datetime
) -> list[Document]:
    """Returns the conditions, with ReplicaFailure while pods are refused."""
    have = owner.status.conditions
    if refusal and condition_of(have, FAILURE) is None:
        return with_condition(have, FAILURE, True, "FailedCreate", refusal, now)
    return documents_of(each for each in have if refusal or each.type != FAILURE)


def surplus(pods: Sequence[AnyPod], count: int) -> list[AnyPod]:
    """Returns pods to delete: unplaced, pending, unready, cheap, crowded and young ones first."""
    if count <= 0:
        return []
    crowd = Counter(pod.spec.node_name for pod in pods)
    youngest_first = sorted(
        pods, key=lambda pod: (_ready_since(pod), _created(pod), pod.metadata.name), reverse=True
    )

    def worth(pod: Pod) -> tuple[bool, int, bool, int, int]:
        return (
            bool(pod.spec.node_name),
            _PHASES.get(phase_of(pod), 2),
            is_ready(pod),
            int(pod.metadata.annotations.get(DELETION_COST, 0)),
            -crowd[pod.spec.node_name],
        )

    return sorted(youngest_first, key=worth)[:count]


def _ready_since(pod: Pod) -> str:
    ready = condition_of(pod.status.conditions, "Ready")
    return (ready and ready.last_transition_time) or ""


def _created(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or ""
