"""The Deployment controller: one ReplicaSet per template, and the roll-out to the latest one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from .claim import claim
from .documents import (
    Document,
    annotations_of,
    condition_of,
    deleting,
    int_or_percent,
    labels_of,
    name_of,
    namespace_of,
    reference_to,
    replicas_of,
    seconds_since,
    stamp,
    status_of,
    template_hash,
    with_condition,
)
from .writes import Again, Create, Write, annotated, delete, patch, status_writes

REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"
_OWN_ANNOTATIONS = (REVISION, "kubectl.kubernetes.io/last-applied-configuration")


class Limits(msgspec.Struct, frozen=True):
    """How many pods may exceed and fall short of the wanted count; both 0 for Recreate."""

    surge: int
    unavailable: int


def reconcile(deployment: Document, candidates: Iterable[Document], now: datetime) -> list[Write]:
    """Adopts ReplicaSets, takes one step of the roll-out, and writes the status."""
    sets, writes = claim(deployment, candidates)
    sets.sort(key=lambda found: (found["metadata"].get("creationTimestamp") or "", name_of(found)))
    new = _of_template(deployment, sets)
    old = [found for found in sets if found is not new]
    if not deleting(deployment):
        revision = max(map(_revision, old), default=0) + 1
        if deployment["spec"].get("paused"):
            writes += _scaled_while_paused(deployment, sets)
        else:
            writes += _step(deployment, new, old, revision)
            writes += _history(deployment, old)
        current = max(_revision(new), revision) if new is not None else revision
        if new is not None or not deployment["spec"].get("paused"):
            writes += annotated(deployment, {REVISION: str(current)})
    return writes + _status(deployment, new, sets, now)


def limits(deployment: Document) -> Limits:
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return Limits(0, 0)
    rolling, replicas = strategy.get("rollingUpdate") or {}, replicas_of(deployment)
    surge = int_or_percent(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = int_or_percent(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    # if both were 0, the roll-out could never begin
    return Limits(surge, min(unavailable if surge or unavailable else 1, replicas))


def _of_template(deployment: Document, sets: list[Document]) -> Document | None:
    """The ReplicaSet of the deployment's current template; the oldest if there are several."""
    template, wanted = deployment["spec"]["template"], template_hash(deployment["spec"]["template"])
    same = (
        found
        for found in sets
        if labels_of(found).get(HASH) == wanted or _template_of(found) == template
    )
    return next(same, None)


def _template_of(replica_set: Document) -> Document:
    """The ReplicaSet's template without the hash label."""
    template = replica_set["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _revision(replica_set: Document) -> int:
    return int(annotations_of(replica_set).get(REVISION, 0))


def _copied(deployment: Document, revision: int) -> dict[str, str]:
    kept = {
        key: value
        for key, value in annotations_of(deployment).items()
        if key not in _OWN_ANNOTATIONS
    }
    return {**kept, REVISION: str(revision)}


def _replica_set(deployment: Document, replicas: int, revision: int) -> Document:
    spec, template = deployment["spec"], deployment["spec"]["template"]
    label = {HASH: template_hash(template)}
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **label}
    selector = spec["selector"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name_of(deployment)}-{label[HASH]}",
            "namespace": namespace_of(deployment),
            "labels": labels,
            "annotations": _copied(deployment, revision),
            "ownerReferences": [reference_to(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds") or 0,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), **label},
            },
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }


def _step(
    deployment: Document, new: Document | None, old: list[Document], revision: int
) -> list[Write]:
    """Scales the new ReplicaSet up within the surge, and the old ones down within availability."""
    if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        return _recreate(deployment, new, old, revision)
    size = _new_size(deployment, new, old)
    if new is None:
        return [Create("ReplicaSet", _replica_set(deployment, size, revision))]
    writes = _renewed(deployment, new, revision) + _resize(new, size)
    return writes + _shrink(deployment, new, old)


def _recreate(
    deployment: Document, new: Document | None, old: list[Document], revision: int
) -> list[Write]:
    """Creates new pods only after all old ones are gone."""
    writes = [write for found in old for write in _resize(found, 0)]
    if writes or any(status_of(found).get("replicas", 0) for found in old):
        return writes
    if new is None:
        return [Create("ReplicaSet", _replica_set(deployment, replicas_of(deployment), revision))]
    return _renewed(deployment, new, revision) + _resize(new, replicas_of(deployment))


def _renewed(deployment: Document, new: Document, revision: int) -> list[Write]:
    """Makes the ReplicaSet the latest revision, also an old one after a roll-back."""
    wanted = max(_revision(new), revision)
    writes = annotated(new, _copied(deployment, wanted))
    seconds = deployment["spec"].get("minReadySeconds") or 0
    if (new["spec"].get("minReadySeconds") or 0) != seconds:
        writes.append(patch(new, {"spec": {"minReadySeconds": seconds}}))
    return writes


def _new_size(deployment: Document, new: Document | None, old: list[Document]) -> int:
    """The number of replicas that the new ReplicaSet should have now."""
    wanted, have = replicas_of(deployment), 0 if new is None else replicas_of(new)
    total = sum(map(replicas_of, old)) + have
    allowed = max(wanted + limits(deployment).surge - total, 0)
    return wanted if have >= wanted else have + min(allowed, wanted - have)


def _shrink(deployment: Document, new: Document, old: list[Document]) -> list[Write]:
    """Removes unavailable pods of old ReplicaSets first, then as many as availability allows."""
    sizes = {name_of(found): replicas_of(found) for found in old}
    if not sum(sizes.values()):
        return []
    needed = replicas_of(deployment) - limits(deployment).unavailable
    missing = replicas_of(new) - _available(new)
    unhealthy = max(sum(sizes.values()) + replicas_of(new) - needed - missing, 0)
    for found in old:
        taken = min(unhealthy, max(sizes[name_of(found)] - _available(found), 0))
        sizes[name_of(found)] -= taken
        unhealthy -= taken
    spare = max(sum(map(_available, [new, *old])) - needed, 0)
    for found in old:
        taken = min(spare, sizes[name_of(found)])
        sizes[name_of(found)] -= taken
        spare -= taken
    return [write for found in old for write in _resize(found, sizes[name_of(found)])]


def _available(replica_set: Document) -> int:
    """The available pods that will stay: the status still counts those about to be deleted."""
    return min(int(status_of(replica_set).get("availableReplicas", 0)), replicas_of(replica_set))


def _resize(replica_set: Document, replicas: int) -> list[Write]:
    if replicas_of(replica_set) == replicas:
        return []
    return [patch(replica_set, {"spec": {"replicas": replicas}}, guarded=True)]


def _scaled_while_paused(deployment: Document, sets: list[Document]) -> list[Write]:
    """Scales a paused deployment, provided that only one ReplicaSet has pods."""
    active = [found for found in sets if replicas_of(found)] or sets[-1:]
    return _resize(active[0], replicas_of(deployment)) if len(active) == 1 else []


def _history(deployment: Document, old: list[Document]) -> list[Write]:
    limit = deployment["spec"].get("revisionHistoryLimit")
    empty = [
        found
        for found in sorted(old, key=_revision)
        if not replicas_of(found)
        and not status_of(found).get("replicas", 0)
        and not deleting(found)
    ]
    return [
        delete(found) for found in empty[: max(len(empty) - (10 if limit is None else limit), 0)]
    ]


def _status(
    deployment: Document, new: Document | None, sets: list[Document], now: datetime
) -> list[Write]:
    def total(field: str) -> int:
        return sum(status_of(found).get(field, 0) for found in sets)

    wanted, available = replicas_of(deployment), total("availableReplicas")
    status: Document = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total("replicas"),
        "updatedReplicas": 0 if new is None else status_of(new).get("replicas", 0),
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(map(replicas_of, sets)) - available, 0),
    }
    enough = available >= wanted - limits(deployment).unavailable
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    message = f"Deployment {'has' if enough else 'does not have'} minimum availability."
    conditions = with_condition(deployment, "Available", enough, reason, message, now)
    complete = status["replicas"] == status["updatedReplicas"] == available == wanted
    updated = {**deployment, "status": {**status_of(deployment), "conditions": conditions}}
    conditions, again = _progressing(updated, status, new, complete, now)
    return status_writes(deployment, {**status, "conditions": conditions}) + again


def _progressing(
    deployment: Document, status: Document, new: Document | None, complete: bool, now: datetime
) -> tuple[list[Document], list[Write]]:
    """The conditions with Progressing, and a reminder for its deadline."""
    before, was = condition_of(deployment, "Progressing"), status_of(deployment)
    name = (
        name_of(new)
        if new is not None
        else f"{name_of(deployment)}-{template_hash(deployment['spec']['template'])}"
    )
    deadline = deployment["spec"].get("progressDeadlineSeconds") or 600
    moved = any(
        status[field] > was.get(field, 0)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    ) or status["replicas"] - status["updatedReplicas"] < was.get("replicas", 0) - was.get(
        "updatedReplicas", 0
    )
    renewed = status["observedGeneration"] != was.get("observedGeneration", 0)
    # once complete, a roll-out stays complete until the template changes, even if pods are lost
    settled = before is not None and before["reason"] == "NewReplicaSetAvailable"
    complete = complete or (settled and status["replicas"] == status["updatedReplicas"])
    idle = (
        0.0
        if before is None or moved or renewed
        else seconds_since(before.get("lastUpdateTime"), now)
    )
    if complete:
        reason, message = (
            "NewReplicaSetAvailable",
            f'ReplicaSet "{name}" has successfully progressed.',
        )
    elif idle >= deadline:
        reason, message = (
            "ProgressDeadlineExceeded",
            f'ReplicaSet "{name}" has timed out progressing.',
        )
    elif new is None:
        reason, message = "NewReplicaSetCreated", f'Created new replica set "{name}"'
    else:
        reason, message = "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'
    *others, condition = with_condition(
        deployment, "Progressing", idle < deadline or complete, reason, message, now
    )
    exceeded = not complete and idle >= deadline
    same = (
        before is not None
        and (exceeded or before["reason"] == reason)
        and (complete or not (moved or renewed))
    )
    condition["lastUpdateTime"] = (before or {}).get("lastUpdateTime") if same else stamp(now)
    return [*others, condition], [] if complete or exceeded else [Again(deadline - idle)]
