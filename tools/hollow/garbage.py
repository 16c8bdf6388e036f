"""Garbage collection of objects whose owners are gone, and of pods whose node is gone.

`collect` mirrors Kubernetes' garbage collector, PodGarbage its pod garbage collector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from berth.actors.scheduling.kube.core import Node, Pod
from berth.actors.scheduling.kube.meta import HasMetadata

from .documents import documents_of
from .objects import deleting
from .writes import Again, Write, delete, disrupted, patch

QUARANTINE_SECONDS = 2.0


def collect(obj: HasMetadata, is_gone: Callable[[str], bool]) -> list[Write]:
    """Deletes an object whose owners are all gone, or drops the references to those that are gone.

    `is_gone` returns True for the uid of a deleted object.
    """
    owners = obj.metadata.owner_references
    left = [owner for owner in owners if not is_gone(owner.uid)]
    if deleting(obj) or len(left) == len(owners):
        return []
    if left:
        references = documents_of(left)
        return [patch(obj, {"metadata": {"ownerReferences": references}}, guarded=True)]
    return [delete(obj)]


class PodGarbage:
    """The pod garbage collector. It keeps the time since when each node with pods is missing."""

    def __init__(self) -> None:
        self._missing: dict[str, datetime] = {}

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
        message = "PodGC: node no longer exists"
        marks = [
            write
            for pod in pods
            for write in disrupted(pod, "DeletionByPodGC", message, now, phase="Failed")
        ]
        return [*marks, *(delete(pod, grace=0) for pod in pods)]
