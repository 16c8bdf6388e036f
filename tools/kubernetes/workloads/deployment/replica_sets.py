"""The ReplicaSets of a Deployment: that of its template, their revisions and annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from ...api.types.schema import same
from ...objects.documents import labels_in, reference_to, template_hash
from ...objects.structs import Deployment, Document, ReplicaSet
from ...objects.writes import Write, annotation_writes, patch
from .sizes import size_annotations

REVISION = "deployment.kubernetes.io/revision"
_EARLIER = "deployment.kubernetes.io/revision-history"
HASH = "pod-template-hash"
_NOT_COPIED = (
    REVISION,
    _EARLIER,
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "deprecated.deployment.rollback.to",
    "kubectl.kubernetes.io/last-applied-configuration",
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_LONGEST_HISTORY = 2000  # characters
_LONGEST_NAME = 253


def of_template(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Returns the first ReplicaSet with the current template."""
    template, sets = _without_hash(deployment.spec.template), list(sets)
    templates = [_without_hash(each.spec.template) for each in sets]
    if template in templates:
        return sets[templates.index(template)]
    pairs = zip(sets, templates, strict=True)
    return next((each for each, its in pairs if same("PodTemplateSpec", its, template)), None)


def _without_hash(template: Document) -> Document:
    labels = {key: value for key, value in labels_in(template).items() if key != HASH}
    return {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}


def revision_of(replica_set: ReplicaSet) -> int | None:
    """Returns the revision: 0 without an annotation, None if the annotation is no number."""
    text = replica_set.metadata.annotations.get(REVISION) or "0"
    return int(text) if _NUMBER.fullmatch(text) else None


def next_revision(old: Iterable[ReplicaSet]) -> int:
    return max((0, *(revision_of(each) or 0 for each in old))) + 1


def with_latest_revision(deployment: Deployment, new: ReplicaSet, revision: int) -> list[Write]:
    """Gives a ReplicaSet the latest revision, also an old one after a roll-back.

    Then the deployment gets its revision. Annotations are left alone if the revision is no number.
    """
    annotations, before = new.metadata.annotations, revision_of(new)
    writes: list[Write] = []
    if before is not None:
        copied = _copied_annotations(deployment)
        if before < revision:
            copied[REVISION] = str(revision)
            if REVISION in annotations:
                copied[_EARLIER] = _revision_history(
                    annotations.get(_EARLIER, ""), annotations[REVISION]
                )
        writes += annotation_writes(new, copied)
        annotations = {**annotations, **copied}
    seconds = deployment.spec.min_ready_seconds
    if new.spec.min_ready_seconds != seconds:
        writes.append(patch(new, {"spec": {"minReadySeconds": seconds}}))
    return writes + annotation_writes(deployment, {REVISION: annotations.get(REVISION, "")})


def _copied_annotations(deployment: Deployment) -> dict[str, str]:
    annotations = deployment.metadata.annotations
    return {key: value for key, value in annotations.items() if key not in _NOT_COPIED}


def _revision_history(earlier: str, revision: str) -> str:
    """Appends a revision to a list of revisions. If the list gets too long, the oldest are
    dropped.
    """
    revisions = [*earlier.split(","), revision] if earlier else [revision]
    while sum(map(len, revisions)) + len(revisions) - 1 > _LONGEST_HISTORY:
        del revisions[0]
    return ",".join(revisions)


def collisions_of(deployment: Deployment, is_taken: Callable[[str], bool]) -> int:
    """Returns how many hashes of the template other ReplicaSets have taken."""
    collisions = deployment.status.collision_count or 0
    while is_taken(name_of_new(deployment, collisions)):
        collisions += 1
    return collisions


def name_of_new(deployment: Deployment, collisions: int) -> str:
    mark = _hash(deployment, collisions)
    return f"{deployment.metadata.name[: _LONGEST_NAME - 1 - len(mark)]}-{mark}"


def _hash(deployment: Deployment, collisions: int) -> str:
    template = deployment.spec.template
    return template_hash({**template, "collisions": collisions} if collisions else template)


def new_replica_set(
    deployment: Deployment, replicas: int, revision: int, collisions: int
) -> Document:
    spec, template = deployment.spec, deployment.spec.template
    label = {HASH: _hash(deployment, collisions)}
    labels = {**labels_in(template), **label}
    selector: Document = msgspec.to_builtins(spec.selector)
    noted = size_annotations(deployment)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name_of_new(deployment, collisions),
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": {**_copied_annotations(deployment), REVISION: str(revision), **noted},
            "ownerReferences": [reference_to(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.min_ready_seconds,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), **label},
            },
            "template": {
                **template,
                "metadata": {**(template.get("metadata") or {}), "labels": labels},
            },
        },
    }
