"""The ReplicaSet and ReplicationController controllers: keep the wanted number of pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from .claim import claim
from .documents import (
    Document,
    annotations_of,
    condition_of,
    deleting,
    is_active,
    is_ready,
    labels_of,
    name_of,
    node_of,
    phase_of,
    pod_from,
    replicas_of,
    status_of,
)
from .writes import Create, Write, count_available, delete, status_writes

BURST = 500
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1}


def reconcile(owner: Document, candidates: Iterable[Document], now: datetime) -> list[Write]:
    """Adopts, creates or deletes pods, and writes the status."""
    pods, writes = claim(owner, candidates)
    active = [pod for pod in pods if is_active(pod)]
    wanted = replicas_of(owner)
    if not deleting(owner):
        template = owner["spec"]["template"]
        missing = min(wanted - len(active), BURST)
        writes += [Create("Pod", pod_from(owner, template)) for _ in range(missing)]
        writes += [delete(pod) for pod in surplus(active, len(active) - wanted)]
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    available, again = count_available(active, owner["spec"].get("minReadySeconds") or 0, now)
    status = {
        **status_of(owner),
        "replicas": len(active),
        "fullyLabeledReplicas": sum(labels.items() <= labels_of(pod).items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": available,
        "observedGeneration": owner["metadata"].get("generation", 0),
    }
    return writes + status_writes(owner, status) + again


def surplus(pods: list[Document], count: int) -> list[Document]:
    """The pods to delete: unplaced, pending, unready, cheap, crowded and young ones first."""
    if count <= 0:
        return []
    crowd = Counter(map(node_of, pods))
    youngest_first = sorted(
        pods, key=lambda pod: (_ready_since(pod), _created(pod), name_of(pod)), reverse=True
    )

    def worth(pod: Document) -> tuple[bool, int, bool, int, int]:
        return (
            bool(node_of(pod)),
            _PHASES.get(phase_of(pod), 2),
            is_ready(pod),
            int(annotations_of(pod).get(DELETION_COST, 0)),
            -crowd[node_of(pod)],
        )

    return sorted(youngest_first, key=worth)[:count]


def _ready_since(pod: Document) -> str:
    ready = condition_of(pod, "Ready")
    return (ready or {}).get("lastTransitionTime") or ""


def _created(pod: Document) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")
