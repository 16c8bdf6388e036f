"""The Deployment controller: one ReplicaSet per template, and the roll-out to the latest one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from ...objects.documents import labels_in
from ...objects.properties import deleting, replicas_of
from ...objects.structs import Deployment, ReplicaSet
from ...objects.writes import Create, Notice, Write, delete
from ..adoption import claim, would_keep
from .deployment_conditions import Step, is_complete, status_after
from .replica_sets import (
    collisions_of,
    name_of_new,
    new_replica_set,
    next_revision,
    of_template,
    revision_of,
    with_latest_revision,
)
from .sizes import (
    SCALING,
    age,
    is_scaled,
    recreates,
    resize_patches,
    scale_down_old,
    scale_in_proportion,
    size_of_new,
)

_KEEPS_ALL = 2**31 - 1


def reconcile(
    deployment: Deployment,
    candidates: Iterable[ReplicaSet],
    now: datetime,
    is_taken: Callable[[str], bool] = lambda _: False,
    refusal: str = "",
) -> list[Write]:
    """Adopts ReplicaSets, takes one step of the roll-out, and writes the status.

    `is_taken` returns True for the name of a ReplicaSet that exists. `refusal` says why the server
    refused the last new ReplicaSet; "" if it took it.
    """
    sets, writes = claim(deployment, candidates)
    sets.sort(key=age)
    new = of_template(deployment, sets)
    old = [each for each in sets if each is not new]
    collisions = deployment.status.collision_count
    if deleting(deployment):
        return writes + status_after(deployment, Step(new, sets, collisions=collisions), now)
    if not would_keep(deployment, labels_in(deployment.spec.template)):
        return writes
    revision = next_revision(old)
    if new is not None:
        writes += with_latest_revision(deployment, new, revision)
    if deployment.spec.paused or is_scaled(deployment, sets):
        writes += scale_in_proportion(deployment, new, old)
        if deployment.spec.paused:
            writes += _delete_old_sets(deployment, old)
        return writes + status_after(deployment, Step(new, sets, collisions=collisions), now)
    steps = _roll_out(deployment, new, old)
    if steps is None:
        collisions = collisions_of(deployment, is_taken) or None
        size, name = size_of_new(deployment, new, old), name_of_new(deployment, collisions or 0)
        document = new_replica_set(deployment, size, revision, collisions or 0)
        notice = Notice(SCALING, f"Scaled up replica set {{name}} from 0 to {size}")
        created = Create("ReplicaSet", document, (notice,) if size else ())
        step = Step(new, sets, not refusal, name, refusal, collisions)
        status = status_after(deployment, step, now)
        # the status of a refusal is written first, because nothing follows another one
        return [*writes, *status, created] if refusal else [*writes, created, *status]
    if not steps and is_complete(deployment, deployment.status):
        steps = _delete_old_sets(deployment, old)
    step = Step(new, sets, rolls=True, collisions=collisions)
    return writes + steps + status_after(deployment, step, now)


def _roll_out(
    deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]
) -> list[Write] | None:
    """Returns the next step; None if it is to create the new ReplicaSet.

    The new ReplicaSet grows within the surge, before the old ones shrink within availability.
    """
    if recreates(deployment):
        writes = [write for each in old for write in resize_patches(deployment, each, 0)]
        if writes or any(_has_pods(each) for each in old):
            return writes
    if new is None:
        return None
    writes = resize_patches(deployment, new, size_of_new(deployment, new, old))
    return writes or scale_down_old(deployment, new, old)


def _has_pods(replica_set: ReplicaSet) -> bool:
    """True until the last pod is gone, even if it ends already."""
    status = replica_set.status
    return status.replicas > 0 or bool(status.terminating_replicas)


def _delete_old_sets(deployment: Deployment, old: list[ReplicaSet]) -> list[Write]:
    """Deletes the oldest ReplicaSets beyond the limit, but none that has pods."""
    limit = deployment.spec.revision_history_limit
    if limit is None or limit == _KEEPS_ALL:
        return []
    oldest = sorted(
        (each for each in old if not deleting(each)),
        key=lambda each: (revision_of(each) or 0, age(each)),
    )
    return [delete(each) for each in oldest[: max(len(oldest) - limit, 0)] if _is_empty(each)]


def _is_empty(replica_set: ReplicaSet) -> bool:
    status = replica_set.status
    observed = status.observed_generation >= replica_set.metadata.generation
    return observed and not replicas_of(replica_set) and not status.replicas
