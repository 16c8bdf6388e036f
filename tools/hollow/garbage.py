"""Garbage collection of objects whose owners are gone. Mirrors Kubernetes' garbage collector."""

from __future__ import annotations

from collections.abc import Callable

from berth.actors.scheduling.kube.meta import HasMetadata

from .documents import documents_of
from .objects import deleting
from .writes import Write, delete, patch


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
