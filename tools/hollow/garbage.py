"""Garbage collection of objects whose owners are gone, and of pods whose node is gone.

`collect` mirrors Kubernetes' garbage collector, PodGarbage its pod garbage collector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from .documents import Document, deleting, owners_of
from .writes import Again, Write, delete, disrupted, patch

QUARANTINE_SECONDS = 2.0


def collect(document: Document, is_gone: Callable[[str], bool]) -> list[Write]:
    """Deletes an object whose owners are all gone; otherwise drops the references to those gone.

    `is_gone` returns True for the uid of a deleted object.
    """
    owners = owners_of(document)
    left = [owner for owner in owners if not is_gone(owner["uid"])]
    if deleting(document) or len(left) == len(owners):
        return []
    if left:
        return [patch(document, {"metadata": {"ownerReferences": left}}, guarded=True)]
    return [delete(document)]


class PodGarbage:
    """Keeps the time since when each node with pods has been missing."""

    def __init__(self) -> None:
        self._missing: dict[str, datetime] = {}

    def reconcile(
        self, name: str, node: Document | None, pods: Sequence[Document], now: datetime
    ) -> list[Write]:
        """`pods` are those bound to the node of this name.

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
