"""The taint eviction controller: deletes pods that do not tolerate a NoExecute taint of their node.

Some pods may stay for a while. The controller keeps the time since when each pod has been on a
tainted node, because a taint that a user adds has no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from berth.actors.scheduling.kube.core import Node, Pod, Taint, Toleration
from berth.actors.scheduling.kube.taints import tolerates

from .objects import deleting, taints_of
from .writes import Again, Write, delete, disrupted


class TaintEviction:
    def __init__(self) -> None:
        self._since: dict[str, dict[str, datetime]] = {}

    def reconcile(
        self, name: str, node: Node | None, pods: Sequence[Pod], now: datetime
    ) -> list[Write]:
        """Decides on the `pods` on the node of this name."""
        before = self._since.pop(name, {})
        taints = taints_of(node, ("NoExecute",))
        if not taints:
            return []
        self._since[name] = since = {}
        evicted: list[Pod] = []
        waits: list[float] = []
        for pod in pods:
            uid, seconds = pod.metadata.uid, tolerated_seconds(taints, pod.spec.tolerations)
            if seconds is None or deleting(pod):
                continue
            since[uid] = start = before.get(uid, now)
            left = seconds - (now - start).total_seconds()
            if left > 0:
                waits.append(left)
            else:
                evicted.append(pod)
        message = "Taint manager: deleting due to NoExecute taint"
        marks = [
            write
            for pod in evicted
            for write in disrupted(pod, "DeletionByTaintManager", message, now)
        ]
        return [*marks, *map(delete, evicted), *([Again(min(waits))] if waits else [])]


def tolerated_seconds(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> float | None:
    """Returns how long a pod may stay; None for ever."""
    limits: list[float] = []
    for taint in taints:
        used = next(
            (toleration for toleration in tolerations if tolerates(toleration, taint)), None
        )
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            limits.append(max(float(used.toleration_seconds), 0.0))
    return min(limits, default=None)
