"""Decides which objects an owner controls. Mirrors Kubernetes' controller reference manager.

An object without a controller is adopted if it matches the selector, and released once it no longer
matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from berth.actors.scheduling.kube.labels import (
    Selector,
    from_map,
    selector_or_nothing,
)
from berth.actors.scheduling.kube.meta import HasMetadata

from ..objects.documents import documents_of, labels_in, reference_to
from ..objects.properties import controller_of, deleting
from ..objects.structs import Document, Job, ReplicationController, T, Workload
from ..objects.writes import Write, patch


def selector_of(owner: Workload) -> Selector:
    """Returns the owner's selector.

    The selector of a ReplicationController is a map of labels; by default, these are the labels of
    its template. A Job without a selector selects by its uid.
    """
    if isinstance(owner, ReplicationController):
        return from_map(owner.spec.selector or labels_in(owner.spec.template))
    if isinstance(owner, Job) and owner.spec.selector is None:
        return from_map({"batch.kubernetes.io/controller-uid": owner.metadata.uid})
    return selector_or_nothing(owner.spec.selector)


def would_keep(owner: Workload, labels: Mapping[str, str]) -> bool:
    """True if an owner would keep a new object with these labels.

    Otherwise it would release each that it makes, and make the next, without end.
    """
    return selector_of(owner).matches(labels)


def claim(
    owner: Workload, candidates: Iterable[T], finalizer: str = ""
) -> tuple[list[T], list[Write]]:
    """Returns the candidates that the owner controls, and the writes that adopt and release
    candidates.

    An adopted object gets the finalizer, and a released one loses it.
    """
    selector, uid = selector_of(owner), owner.metadata.uid
    mine: list[T] = []
    writes: list[Write] = []
    labels: Mapping[str, str] | None = None
    matches = False
    for candidate in candidates:
        metadata, controller = candidate.metadata, controller_of(candidate)
        if metadata.labels != labels:  # those of most candidates are equal
            labels = metadata.labels
            matches = selector.matches(labels)
        owners = metadata.owner_references
        if controller is not None and controller.uid == uid:
            if matches or deleting(owner):
                mine.append(candidate)
            else:
                kept = documents_of(reference for reference in owners if reference.uid != uid)
                left = without_finalizer(candidate, finalizer)
                body = {"metadata": {"ownerReferences": kept, **left}}
                writes.append(patch(candidate, body, guarded=True))
        elif controller is None and matches and not deleting(owner) and not deleting(candidate):
            references = [*documents_of(owners), reference_to(owner)]
            added = {"finalizers": [*metadata.finalizers, finalizer]} if finalizer else {}
            body = {"metadata": {"ownerReferences": references, **added}}
            writes.append(patch(candidate, body, guarded=True))
            mine.append(candidate)
    return mine, writes


def without_finalizer(obj: HasMetadata, finalizer: str) -> Document:
    """Returns the change of metadata that removes a finalizer; empty if the object does not have
    it.
    """
    finalizers = obj.metadata.finalizers
    if finalizer not in finalizers:
        return {}
    return {"finalizers": [each for each in finalizers if each != finalizer]}
