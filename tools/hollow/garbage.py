"""Garbage collection: what no owner and no node needs any more goes.

`collect` is the garbage collector for dependents of deleted owners, PodGarbage the pod garbage
collector for the pods of nodes that are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from berth.tools.hollow.documents import Document, deleting, owners_of
from berth.tools.hollow.writes import Again, Write, delete, disrupted, patch

QUARANTINE_SECONDS = 2.0


def collect(document: Document, is_gone: Callable[[str], bool]) -> list[Write]:
    """`is_gone` tells of a uid whether its object has been deleted. One owner that is left keeps
    the object.
    """
    owners = owners_of(document)
    left = [owner for owner in owners if not is_gone(owner["uid"])]
    if deleting(document) or len(left) == len(owners):
        return []
    if left:
        return [patch(document, {"metadata": {"ownerReferences": left}}, guarded=True)]
    return [delete(document)]


class PodGarbage:
    """It owns since when each node with pods has been missing."""

    def __init__(self) -> None:
        self._missing: dict[str, datetime] = {}

    def reconcile(
        self, name: str, node: Document | None, pods: Sequence[Document], now: datetime
    ) -> list[Write]:
        """`pods` are those bound to the node of this name. The watch of nodes may be late, so a
        moment must pass.
        """
        if node is not None or not pods:
            self._missing.pop(name, None)
            return []
        since = self._missing.setdefault(name, now)
        left = QUARANTINE_SECONDS - (now - since).total_seconds()
        if left > 0:
            return [Again(left)]
        message = "PodGC: node no longer exists"
        told = [
            write
            for pod in pods
            for write in disrupted(pod, "DeletionByPodGC", message, now, phase="Failed")
        ]
        return [*told, *(delete(pod, grace=0) for pod in pods)]
