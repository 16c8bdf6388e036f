"""The garbage collection of pods: those that no kubelet will remove, and finished pods above a
limit.

Mirrors Kubernetes' pod garbage collector. It does not wait for a period of 20 seconds, except for
finished pods, which have to be sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from berth.actors.scheduling.kube.core import Node, Pod

from ..objects.documents import status_of
from ..objects.properties import deleting, is_finished
from ..objects.writes import Again, Write, delete, disruption_writes, status_writes
from .condition_taints import is_out_of_service

QUARANTINE_SECONDS = 40.0
PERIOD_SECONDS = 20.0
MOST_FINISHED = 12_500
ORPHANED = ("DeletionByPodGC", "PodGC: node no longer exists")


class Orphans:
    """The nodes that do not exist though pods are bound to them, and the time since when each is
    missing.
    """

    def __init__(self) -> None:
        self._missing: dict[str, datetime] = {}

    def shift(self, step: timedelta) -> None:
        self._missing = {name: since + step for name, since in self._missing.items()}

    def reconcile(
        self, name: str, node: Node | None, pods: Sequence[Pod], now: datetime
    ) -> list[Write]:
        """Decides on the `pods` that are bound to the node of this name.

        They are deleted only after QUARANTINE_SECONDS, since the watch of nodes may be late.
        """
        if node is not None or not pods:
            self._missing.pop(name, None)
            return []
        since = self._missing.setdefault(name, now)
        left = QUARANTINE_SECONDS - (now - since).total_seconds()
        if left > 0:
            return [Again(left)]
        return [
            *(
                write
                for pod in pods
                if not is_finished(pod)
                for write in disruption_writes(pod, *ORPHANED, now, phase="Failed")
            ),
            *(delete(pod, grace=0) for pod in pods),
        ]


class Finished:
    """The limit on finished pods: above MOST_FINISHED the oldest are deleted, evicted ones
    first.
    """

    def __init__(self) -> None:
        self._last: datetime | None = None

    def shift(self, step: timedelta) -> None:
        if self._last is not None:
            self._last += step

    def reconcile(
        self, count: int, finished: Callable[[], Sequence[Pod]], now: datetime
    ) -> list[Write]:
        """Deletes pods above the limit.

        `count` is the number of pods that `finished` returns; `finished` is called only if needed.
        """
        if count <= MOST_FINISHED:
            return []
        if self._last is not None:
            left = PERIOD_SECONDS - (now - self._last).total_seconds()
            if left > 0:
                return [Again(left)]
        self._last = now
        oldest = sorted(finished(), key=_deletion_order)[: count - MOST_FINISHED]
        return [delete(pod, grace=0) for pod in oldest]


def reconcile(pod: Pod, node: Node | None) -> list[Write]:
    """Ends a pod that is being deleted if it has no node, or its node is out of service."""
    if not deleting(pod):
        return []
    if pod.spec.node_name and (node is None or not is_out_of_service(node)):
        return []
    if is_finished(pod) and pod.metadata.deletion_grace_period_seconds == 0:
        return []  # only finalizers keep it
    return [*_as_failed(pod), delete(pod, grace=0)]


def _as_failed(pod: Pod) -> list[Write]:
    return [] if is_finished(pod) else status_writes(pod, {**status_of(pod), "phase": "Failed"})


def _deletion_order(pod: Pod) -> tuple[bool, str, str]:
    evicted = pod.status.phase == "Failed" and pod.status.reason == "Evicted"
    return not evicted, pod.metadata.creation_timestamp or "", pod.metadata.name
