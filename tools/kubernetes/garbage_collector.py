"""Garbage collection by owner references. Mirrors Kubernetes' garbage collector.

An object goes once all its owners are gone. An owner that is deleted in the foreground waits for
the dependents that block it; one that is orphaning goes once no dependent refers to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto

from berth.actors.scheduling.kube.meta import HasMetadata, OwnerReference

from .api.types.resources import KINDS
from .api.writes.deletion import FOREGROUND, ORPHAN
from .object_index import ObjectChange, ObjectIndex
from .objects.custom_objects import CustomObjects
from .objects.documents import documents_of
from .objects.properties import deleting
from .objects.structs import TYPES
from .objects.writes import Look, Write, delete, patch
from .workloads.adoption import without_finalizer

_KINDS = {
    (kind.group, kind.kind): kind for kind in KINDS if kind.stored_as is None and kind.kind in TYPES
}


class Standing(Enum):
    """The state of an owner, as far as a dependent's garbage collection is concerned."""

    SOLID = auto()  # it exists
    WAITING = auto()  # it waits for its dependents to go
    GONE = auto()
    UNSEEN = auto()  # it is not among the objects listed, and may be new


def collect(
    obj: HasMetadata,
    standing: Callable[[OwnerReference], Standing],
    dependents: Sequence[HasMetadata],
    look: Callable[[OwnerReference], Look] | None = None,
) -> list[Write]:
    """Returns the due writes for one object, as a deleted owner or as a dependent.

    `look` returns the request to ask for an owner that is unseen; without it, it has a built-in
    kind.
    """
    if waits_for_dependents(obj):
        blocked = any(_blocks(each, obj) for each in dependents)
        return [] if blocked else [_without(obj, FOREGROUND)]
    if _orphan_dependents(obj):
        writes = [_without_owners(each, {obj.metadata.uid}) for each in dependents]
        return [*writes] if writes else [_without(obj, ORPHAN)]
    if deleting(obj):
        return []
    owners = obj.metadata.owner_references
    standings = [(owner, standing(owner)) for owner in owners]
    of = {each for _, each in standings}
    if Standing.SOLID in of or Standing.UNSEEN in of:
        ask = look or (lambda owner: _look_for_owner({}, obj, owner))
        writes = [ask(owner) for owner, each in standings if each is Standing.UNSEEN]
        lost = {owner.uid for owner, each in standings if each in (Standing.WAITING, Standing.GONE)}
        return [*writes, _without_owners(obj, lost)] if lost and Standing.SOLID in of else [*writes]
    if not owners:
        return []
    if Standing.WAITING not in of or not dependents:
        return [delete(obj, propagation=_policy(obj))]
    unblocks = [_unblock_owners(obj)] if any(map(waits_for_dependents, dependents)) else []
    return [*unblocks, delete(obj, propagation="Foreground")]


def touched(cluster: ObjectIndex, change: ObjectChange) -> Iterator[HasMetadata]:
    """Yields the objects whose collection a change may affect; one may occur twice."""
    before, after = change.before, change.after
    if before is not None:
        for reference in before.metadata.owner_references:
            owner = find_owner(cluster, before, reference)
            if owner is not None and (waits_for_dependents(owner) or _orphan_dependents(owner)):
                yield owner
        if after is None or before.metadata.uid != after.metadata.uid:
            yield from cluster.dependents(before.metadata.uid)
    if after is None:
        return
    if any(
        standing_of(cluster, after, reference) is not Standing.SOLID
        for reference in after.metadata.owner_references
    ):
        yield after
    waits = waits_for_dependents(after)
    if waits or _orphan_dependents(after):
        yield after
    if waits and (before is None or not waits_for_dependents(before)):
        yield from cluster.dependents(after.metadata.uid)


def reconcile(cluster: ObjectIndex, obj: HasMetadata) -> list[Write]:
    def standing(owner: OwnerReference) -> Standing:
        return standing_of(cluster, obj, owner)

    def look(owner: OwnerReference) -> Look:
        return _look_for_owner(cluster.customs, obj, owner)

    return collect(obj, standing, cluster.dependents(obj.metadata.uid), look)


def standing_of(cluster: ObjectIndex, obj: HasMetadata, reference: OwnerReference) -> Standing:
    """Returns the state of the owner in a reference. An owner of an unfamiliar kind counts as
    existing.
    """
    if cluster.is_gone(reference.uid):
        return Standing.GONE
    owner = find_owner(cluster, obj, reference)
    if owner is not None:
        return Standing.WAITING if waits_for_dependents(owner) else Standing.SOLID
    place = _place(cluster.customs, obj, reference)
    if place is None or not cluster.is_listed(cluster.type_of(place[0])):
        return Standing.SOLID
    return Standing.GONE if cluster.is_absent(*place, reference.uid) else Standing.UNSEEN


def find_owner(
    cluster: ObjectIndex, obj: HasMetadata, reference: OwnerReference
) -> HasMetadata | None:
    """Returns the owner if an object has the kind, name and uid of the reference."""
    place = _place(cluster.customs, obj, reference)
    if place is None:
        return None
    kind, namespace, name = place
    owner = cluster.find(cluster.type_of(kind), namespace, name)
    return owner if owner is not None and owner.metadata.uid == reference.uid else None


def waits_for_dependents(obj: HasMetadata) -> bool:
    """True if the object is deleted in the foreground."""
    return deleting(obj) and FOREGROUND in obj.metadata.finalizers


def _orphan_dependents(obj: HasMetadata) -> bool:
    return deleting(obj) and ORPHAN in obj.metadata.finalizers


def _place(
    customs: Mapping[str, CustomObjects], obj: HasMetadata, reference: OwnerReference
) -> tuple[str, str, str] | None:
    """Returns the kind, namespace and name of an owner.

    Returns None for a kind that is not followed, and for an owner with a namespace of an object
    without one.
    """
    group = reference.api_version.rpartition("/")[0]
    kind, name = _KINDS.get((group, reference.kind)), reference.kind
    if kind is None:
        name = f"{reference.kind}.{group}"
        kind = customs[name].kind if name in customs else None
    namespace = obj.metadata.namespace
    if kind is None or (kind.namespaced and not namespace):
        return None
    return name, namespace if kind.namespaced else "", reference.name


def _look_for_owner(
    customs: Mapping[str, CustomObjects], obj: HasMetadata, reference: OwnerReference
) -> Look:
    place = _place(customs, obj, reference)
    assert place is not None
    return Look(*place, reference.uid)


def _blocks(dependent: HasMetadata, owner: HasMetadata) -> bool:
    return any(
        reference.uid == owner.metadata.uid and reference.block_owner_deletion
        for reference in dependent.metadata.owner_references
    )


def _policy(obj: HasMetadata) -> str:
    """Returns the propagation policy that the object's finalizers ask for."""
    finalizers = obj.metadata.finalizers
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _without(obj: HasMetadata, finalizer: str) -> Write:
    return patch(obj, {"metadata": without_finalizer(obj, finalizer)}, guarded=True)


def _without_owners(obj: HasMetadata, uids: set[str]) -> Write:
    kept = [owner for owner in obj.metadata.owner_references if owner.uid not in uids]
    return patch(obj, {"metadata": {"ownerReferences": documents_of(kept)}}, guarded=True)


def _unblock_owners(obj: HasMetadata) -> Write:
    """Releases the owners that wait for the object, so that owners in a cycle can be deleted."""
    references = [
        {**reference, "blockOwnerDeletion": False}
        for reference in documents_of(obj.metadata.owner_references)
    ]
    return patch(obj, {"metadata": {"ownerReferences": references}}, guarded=True)
