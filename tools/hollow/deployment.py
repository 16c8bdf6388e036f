"""The Deployment controller: one ReplicaSet per template, and the roll-out to the latest one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from .claim import claim
from .documents import labels_in, reference_to, stamp, status_of, template_hash, with_condition
from .objects import (
    Deployment,
    Document,
    ReplicaSet,
    condition_of,
    deleting,
    int_or_percent,
    replicas_of,
    seconds_since,
)
from .replica_set import FAILURE
from .writes import Again, Create, Write, annotated, delete, patch, status_writes

REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"
_OWN_ANNOTATIONS = (REVISION, "kubectl.kubernetes.io/last-applied-configuration")


class Limits(msgspec.Struct, frozen=True):
    """How many pods there may be above and below the desired count; both 0 for Recreate."""

    surge: int
    unavailable: int


def reconcile(
    deployment: Deployment, candidates: Iterable[ReplicaSet], now: datetime
) -> list[Write]:
    """Adopts ReplicaSets, takes one step of the roll-out, and writes the status."""
    sets, writes = claim(deployment, candidates)
    sets.sort(key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))
    new = _of_template(deployment, sets)
    old = [each for each in sets if each is not new]
    if not deleting(deployment):
        revision = max(map(_revision, old), default=0) + 1
        if deployment.spec.paused:
            writes += _scaled_while_paused(deployment, sets)
        else:
            writes += _step(deployment, new, old, revision)
            writes += _history(deployment, old)
        current = max(_revision(new), revision) if new is not None else revision
        if new is not None or not deployment.spec.paused:
            writes += annotated(deployment, {REVISION: str(current)})
    return writes + _status(deployment, new, sets, now)


def limits(deployment: Deployment) -> Limits:
    strategy = deployment.spec.strategy
    if strategy.type == "Recreate":
        return Limits(0, 0)
    rolling, replicas = strategy.rolling_update, replicas_of(deployment)
    most = "25%" if rolling.max_surge is None else rolling.max_surge
    surge = int_or_percent(most, replicas, round_up=True)
    most = "25%" if rolling.max_unavailable is None else rolling.max_unavailable
    unavailable = int_or_percent(most, replicas, round_up=False)
    # if both were 0, the roll-out could never begin
    return Limits(surge, min(unavailable if surge or unavailable else 1, replicas))


def _of_template(deployment: Deployment, sets: list[ReplicaSet]) -> ReplicaSet | None:
    """Returns the ReplicaSet of the current template; the oldest if there are several."""
    template, mark = deployment.spec.template, template_hash(deployment.spec.template)
    same = (
        each
        for each in sets
        if each.metadata.labels.get(HASH) == mark or _template_of(each) == template
    )
    return next(same, None)


def _template_of(replica_set: ReplicaSet) -> Document:
    """Returns the template of the ReplicaSet without the hash label."""
    template = replica_set.spec.template
    labels = {key: value for key, value in labels_in(template).items() if key != HASH}
    return {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}


def _revision(replica_set: ReplicaSet) -> int:
    return int(replica_set.metadata.annotations.get(REVISION, 0))


def _copied(deployment: Deployment, revision: int) -> dict[str, str]:
    kept = {
        key: value
        for key, value in deployment.metadata.annotations.items()
        if key not in _OWN_ANNOTATIONS
    }
    return {**kept, REVISION: str(revision)}


def _replica_set(deployment: Deployment, replicas: int, revision: int) -> Document:
    spec, template = deployment.spec, deployment.spec.template
    label = {HASH: template_hash(template)}
    labels = {**labels_in(template), **label}
    selector: Document = msgspec.to_builtins(spec.selector)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment.metadata.name}-{label[HASH]}",
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": _copied(deployment, revision),
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


def _step(
    deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet], revision: int
) -> list[Write]:
    """Scales the new ReplicaSet up within the surge, and the old ones down within availability."""
    if deployment.spec.strategy.type == "Recreate":
        return _recreate(deployment, new, old, revision)
    size = _new_size(deployment, new, old)
    if new is None:
        return [Create("ReplicaSet", _replica_set(deployment, size, revision))]
    writes = _renewed(deployment, new, revision) + _resize(new, size)
    return writes + _shrink(deployment, new, old)


def _recreate(
    deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet], revision: int
) -> list[Write]:
    """Creates new pods only after all old ones are gone."""
    writes = [write for each in old for write in _resize(each, 0)]
    if writes or any(each.status.replicas for each in old):
        return writes
    if new is None:
        return [Create("ReplicaSet", _replica_set(deployment, replicas_of(deployment), revision))]
    return _renewed(deployment, new, revision) + _resize(new, replicas_of(deployment))


def _renewed(deployment: Deployment, new: ReplicaSet, revision: int) -> list[Write]:
    """Makes the ReplicaSet the latest revision, even an old one after a roll-back."""
    writes = annotated(new, _copied(deployment, max(_revision(new), revision)))
    seconds = deployment.spec.min_ready_seconds
    if new.spec.min_ready_seconds != seconds:
        writes.append(patch(new, {"spec": {"minReadySeconds": seconds}}))
    return writes


def _new_size(deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]) -> int:
    """Returns the number of replicas that the new ReplicaSet should have now."""
    desired, have = replicas_of(deployment), 0 if new is None else replicas_of(new)
    total = sum(map(replicas_of, old)) + have
    allowed = max(desired + limits(deployment).surge - total, 0)
    return desired if have >= desired else have + min(allowed, desired - have)


def _shrink(deployment: Deployment, new: ReplicaSet, old: list[ReplicaSet]) -> list[Write]:
    """Removes unavailable pods of old ReplicaSets first, then as many as availability allows."""
    sizes = {each.metadata.name: replicas_of(each) for each in old}
    if not sum(sizes.values()):
        return []
    needed = replicas_of(deployment) - limits(deployment).unavailable
    missing = replicas_of(new) - _available(new)
    unhealthy = max(sum(sizes.values()) + replicas_of(new) - needed - missing, 0)
    for each in old:
        taken = min(unhealthy, max(sizes[each.metadata.name] - _available(each), 0))
        sizes[each.metadata.name] -= taken
        unhealthy -= taken
    spare = max(sum(map(_available, [new, *old])) - needed, 0)
    for each in old:
        taken = min(spare, sizes[each.metadata.name])
        sizes[each.metadata.name] -= taken
        spare -= taken
    return [write for each in old for write in _resize(each, sizes[each.metadata.name])]


def _available(replica_set: ReplicaSet) -> int:
    """Returns the number of available pods that stay; the status also counts those to delete."""
    return min(replica_set.status.available_replicas, replicas_of(replica_set))


def _resize(replica_set: ReplicaSet, replicas: int) -> list[Write]:
    if replicas_of(replica_set) == replicas:
        return []
    return [patch(replica_set, {"spec": {"replicas": replicas}}, guarded=True)]


def _scaled_while_paused(deployment: Deployment, sets: list[ReplicaSet]) -> list[Write]:
    """Scales a paused deployment, provided that only one ReplicaSet has pods."""
    active = [each for each in sets if replicas_of(each)] or sets[-1:]
    return _resize(active[0], replicas_of(deployment)) if len(active) == 1 else []


def _history(deployment: Deployment, old: list[ReplicaSet]) -> list[Write]:
    limit = deployment.spec.revision_history_limit
    empty = [
        each
        for each in sorted(old, key=_revision)
        if not replicas_of(each) and not each.status.replicas and not deleting(each)
    ]
    return [delete(each) for each in empty[: max(len(empty) - (10 if limit is None else limit), 0)]]


def _status(
    deployment: Deployment, new: ReplicaSet | None, sets: list[ReplicaSet], now: datetime
) -> list[Write]:
    desired = replicas_of(deployment)
    available = sum(each.status.available_replicas for each in sets)
    status: Document = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": sum(each.status.replicas for each in sets),
        "updatedReplicas": 0 if new is None else new.status.replicas,
        "readyReplicas": sum(each.status.ready_replicas for each in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(map(replicas_of, sets)) - available, 0),
    }
    enough = available >= desired - limits(deployment).unavailable
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    message = f"Deployment {'has' if enough else 'does not have'} minimum availability."
    conditions = with_condition(
        deployment.status.conditions, "Available", enough, reason, message, now
    )
    conditions = _failure(conditions, [*([new] if new else []), *sets], now)
    complete = status["replicas"] == status["updatedReplicas"] == available == desired
    conditions, again = _progressing(deployment, conditions, status, new, complete, now)
    return status_writes(deployment, {**status, "conditions": conditions}) + again


def _failure(conditions: list[Document], sets: list[ReplicaSet], now: datetime) -> list[Document]:
    """Returns the conditions with the first ReplicaFailure of the ReplicaSets, if there is one."""
    failures = (condition_of(each.status.conditions, FAILURE) for each in sets)
    failure = next((each for each in failures if each is not None), None)
    if failure is None:
        return [each for each in conditions if each["type"] != FAILURE]
    return with_condition(conditions, FAILURE, True, failure.reason, failure.message, now)


def _progressing(
    deployment: Deployment,
    conditions: list[Document],
    status: Document,
    new: ReplicaSet | None,
    complete: bool,
    now: datetime,
) -> tuple[list[Document], list[Write]]:
    """Returns the conditions with Progressing, and a reminder for its deadline."""
    before = condition_of(deployment.status.conditions, "Progressing")
    was = status_of(deployment)
    name = (
        new.metadata.name
        if new is not None
        else f"{deployment.metadata.name}-{template_hash(deployment.spec.template)}"
    )
    deadline = deployment.spec.progress_deadline_seconds or 600
    moved = any(
        status[field] > was.get(field, 0)
        for field in ("updatedReplicas", "readyReplicas", "availableReplicas")
    ) or status["replicas"] - status["updatedReplicas"] < was.get("replicas", 0) - was.get(
        "updatedReplicas", 0
    )
    renewed = status["observedGeneration"] != was.get("observedGeneration", 0)
    # once complete, a roll-out stays complete until the template changes, even if pods are lost
    settled = before is not None and before.reason == "NewReplicaSetAvailable"
    complete = complete or (settled and status["replicas"] == status["updatedReplicas"])
    idle = (
        0.0 if before is None or moved or renewed else seconds_since(before.last_update_time, now)
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
        conditions, "Progressing", idle < deadline or complete, reason, message, now
    )
    exceeded = not complete and idle >= deadline
    same = (
        before is not None
        and (exceeded or before.reason == reason)
        and (complete or not (moved or renewed))
    )
    condition["lastUpdateTime"] = before.last_update_time if before and same else stamp(now)
    return [*others, condition], [] if complete or exceeded else [Again(deadline - idle)]
