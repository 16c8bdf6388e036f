"""The history of a DaemonSet or StatefulSet: a ControllerRevision for each of its templates.

A template that returns gets its old revision back, with a new number. Mirrors Kubernetes'
controller history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from berth.actors.scheduling.kube.core import Pod

from ..api.types.schema import same
from ..objects.documents import labels_in, reference_to, template_hash
from ..objects.properties import deleting
from ..objects.structs import ControllerRevision, DaemonSet, Document, StatefulSet
from ..objects.writes import Create, Write, delete, patch
from .adoption import claim

HASH = "controller-revision-hash"
LIMIT = 10
LONGEST_PREFIX = 223  # of a revision's name


class History(msgspec.Struct, frozen=True):
    """The old revisions of an owner, the oldest first.

    `name` and `hash` belong to the revision of its present template. `collisions` counts the hashes
    that were taken.
    """

    name: str
    hash: str
    old: tuple[ControllerRevision, ...] = ()
    collisions: int = 0

    def template_of(self, name: str) -> Document | None:
        """Returns the template of an old revision."""
        revision = next((each for each in self.old if each.metadata.name == name), None)
        if revision is None:
            return None
        template = revision.data["spec"]["template"]
        return {field: value for field, value in template.items() if field != "$patch"}


def empty_history(owner: DaemonSet | StatefulSet) -> History:
    """Returns the history of an owner that has no revisions."""
    return _new(owner, owner.status.collision_count or 0)


def record(
    owner: DaemonSet | StatefulSet,
    candidates: Iterable[ControllerRevision],
    is_taken: Callable[[str], bool],
) -> tuple[History, list[Write]]:
    """Returns the history, and the writes that bring the revisions up to date.

    `is_taken` returns True for the name of a revision that exists.
    """
    mine, writes = claim(owner, candidates)
    mine = sorted(
        (each for each in mine if not deleting(each)),
        key=lambda each: (
            each.revision,
            each.metadata.creation_timestamp or "",
            each.metadata.name,
        ),
    )
    data = _patch_to_template(owner)
    current = [each for each in mine if each.data == data]
    current = current or [each for each in mine if _has_template_of(each, owner)]
    old = tuple(each for each in mine if each not in current)
    number = max((each.revision for each in old), default=0) + 1
    collisions = owner.status.collision_count or 0
    if deleting(owner) and not current:
        return _new(owner, collisions, old), writes
    if current:
        revision = current[-1]
        if revision.revision < number:
            writes.append(patch(revision, {"revision": number}, guarded=True))
        metadata = revision.metadata
        mark = metadata.labels.get(HASH, metadata.name)
        return History(metadata.name, mark, old, collisions), writes
    while is_taken(_new(owner, collisions).name):
        collisions += 1
    history = _new(owner, collisions, old)
    return history, [*writes, Create("ControllerRevision", _document(owner, history, number))]


def delete_old_revisions(
    owner: DaemonSet | StatefulSet, history: History, pods: Iterable[Pod]
) -> list[Write]:
    """Deletes the oldest revisions beyond the limit, except those that pods have.

    For a StatefulSet, the revisions in use do not count towards the limit.
    """
    live = {pod.metadata.labels.get(HASH) for pod in pods}
    if isinstance(owner, StatefulSet):
        live.add(owner.status.current_revision)
    unused = [
        each
        for each in history.old
        if not {each.metadata.name, each.metadata.labels.get(HASH)} & live
    ]
    limit = owner.spec.revision_history_limit
    counted = unused if isinstance(owner, StatefulSet) else history.old
    surplus = max(len(counted) - (LIMIT if limit is None else limit), 0)
    return [delete(each) for each in unused[:surplus]]


def _new(
    owner: DaemonSet | StatefulSet, collisions: int, old: tuple[ControllerRevision, ...] = ()
) -> History:
    template = owner.spec.template
    mark = template_hash({**template, "collisions": collisions} if collisions else template)
    return History(f"{owner.metadata.name[:LONGEST_PREFIX]}-{mark}", mark, old, collisions)


def _patch_to_template(owner: DaemonSet | StatefulSet) -> Document:
    """Returns the patch that restores the present template of the owner."""
    return {"spec": {"template": {**owner.spec.template, "$patch": "replace"}}}


def _has_template_of(revision: ControllerRevision, owner: DaemonSet | StatefulSet) -> bool:
    """True if Kubernetes takes the template of a revision for the present one of its owner."""
    data = revision.data
    template = (data.get("spec") or {}).get("template")
    if data.keys() != {"spec"} or not isinstance(template, dict):
        return False
    template = {field: value for field, value in template.items() if field != "$patch"}
    return same("PodTemplateSpec", template, owner.spec.template)


def _document(owner: DaemonSet | StatefulSet, history: History, number: int) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": history.name,
            "namespace": owner.metadata.namespace,
            "labels": {**labels_in(owner.spec.template), HASH: history.hash},
            "annotations": dict(owner.metadata.annotations),
            "ownerReferences": [reference_to(owner)],
        },
        "data": _patch_to_template(owner),
        "revision": number,
    }
