"""The sizes of a Deployment's ReplicaSets.

A roll-out moves replicas from the old ones to the new one. If the Deployment is scaled meanwhile,
all of them grow or shrink in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import floor

import msgspec

from ...objects.properties import int_or_percent, replicas_of
from ...objects.structs import Deployment, ReplicaSet
from ...objects.writes import Notice, Write, patch

DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
SCALING = "ScalingReplicaSet"  # the reason of an event
_MOST_INT32 = 2**31 - 1


class Limits(msgspec.Struct, frozen=True):
    """How many pods there may be above and below the desired count; both 0 for Recreate."""

    surge: int
    unavailable: int


def limits(deployment: Deployment) -> Limits:
    if recreates(deployment):
        return Limits(0, 0)
    rolling, replicas = deployment.spec.strategy.rolling_update, replicas_of(deployment)
    most = "25%" if rolling.max_surge is None else rolling.max_surge
    surge = int_or_percent(most, replicas, round_up=True)
    most = "25%" if rolling.max_unavailable is None else rolling.max_unavailable
    unavailable = int_or_percent(most, replicas, round_up=False)
    # if both were 0, the roll-out could never begin
    return Limits(surge, min(unavailable if surge or unavailable else 1, replicas))


def recreates(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "Recreate"


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """Returns the annotations of a ReplicaSet that record the sizes of the deployment.

    From them it follows later whether the deployment has been scaled since.
    """
    desired = replicas_of(deployment)
    return {DESIRED: str(desired), MOST: str(desired + limits(deployment).surge)}


def _recorded_size(replica_set: ReplicaSet, annotation: str) -> int | None:
    """Returns a size recorded in an annotation; None if it is absent or invalid."""
    text = replica_set.metadata.annotations.get(annotation, "")
    size = int(text) if text.isascii() and text.isdigit() else None
    return size if size is not None and size <= _MOST_INT32 else None


def is_scaled(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """True if the deployment has been scaled since the sizes in its ReplicaSets were noted."""
    noted = (_recorded_size(each, DESIRED) for each in sets if replicas_of(each))
    return any(size is not None and size != replicas_of(deployment) for size in noted)


def resize_patches(
    deployment: Deployment,
    replica_set: ReplicaSet,
    replicas: int,
    *,
    via: int | None = None,
    notes: bool = False,
) -> list[Write]:
    """Returns the patches that give a ReplicaSet its size. With `notes`, annotations are updated
    even at that size. A resize `via` another size is reported as two steps.
    """
    annotations, before = size_annotations(deployment), replicas_of(replica_set)
    if before == replicas and not (
        notes and annotations.items() - replica_set.metadata.annotations.items()
    ):
        return []
    body = {"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}}
    name = replica_set.metadata.name
    notices = tuple(
        Notice(
            SCALING,
            f"Scaled {'up' if old < new else 'down'} replica set {name} from {old} to {new}",
        )
        for old, new in pairwise((before, before if via is None else via, replicas))
        if old != new
    )
    return [patch(replica_set, body, guarded=True, notices=notices)]


# ---------------------------------------------------------------------------------------- scaling


def scale_in_proportion(
    deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]
) -> list[Write]:
    """Scales the ReplicaSets to the size of the deployment, without a step of the roll-out."""
    desired, active = (
        replicas_of(deployment),
        [each for each in _all_sets(new, old) if replicas_of(each)],
    )
    if len(active) < 2:
        latest = active or ([new] if new is not None else old[-1:])
        return [write for each in latest for write in resize_patches(deployment, each, desired)]
    if new is not None and _is_saturated(deployment, new):
        return [write for each in old for write in resize_patches(deployment, each, 0)]
    if recreates(deployment):
        return []
    return [
        write
        for each, size in _proportional_resizes(deployment, active)
        for write in resize_patches(deployment, each, size, notes=True)
    ]


def _all_sets(new: ReplicaSet | None, old: list[ReplicaSet]) -> list[ReplicaSet]:
    return old if new is None else [*old, new]


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    desired = replicas_of(deployment)
    return (
        replicas_of(new) == _recorded_size(new, DESIRED) == new.status.available_replicas == desired
    )


def _proportional_resizes(
    deployment: Deployment, active: list[ReplicaSet]
) -> list[tuple[ReplicaSet, int]]:
    """Divides added or removed replicas among ReplicaSets by their sizes. The largest gets the
    remainder.

    Of equal ones, the newest grow first, and the oldest shrink first.
    """
    desired = replicas_of(deployment)
    most = desired + limits(deployment).surge if desired else 0
    missing = most - sum(map(replicas_of, active))
    by_age = sorted(active, key=age, reverse=missing > 0)
    by_size = sorted(by_age, key=replicas_of, reverse=True) if missing else active
    sizes: list[int] = []
    left = missing
    for each in by_size:
        share = _share(deployment, each, most)
        share = min(share, left) if missing > 0 else max(share, left)
        share = share if left else 0
        sizes.append(replicas_of(each) + share)
        left -= share
    sizes[0] = max(sizes[0] + left, 0)
    return list(zip(by_size, sizes, strict=True))


def age(replica_set: ReplicaSet) -> tuple[str, str]:
    return replica_set.metadata.creation_timestamp or "", replica_set.metadata.name


def _share(deployment: Deployment, replica_set: ReplicaSet, most: int) -> int:
    """Returns how many replicas a ReplicaSet should gain in proportion to its size."""
    replicas = replicas_of(replica_set)
    if not replicas_of(deployment):
        return -replicas
    before = _recorded_size(replica_set, MOST) or deployment.status.replicas
    return floor(replicas * most / before + 0.5) - replicas if before else 0


# --------------------------------------------------------------------------------------- roll-out


def size_of_new(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> int:
    """Returns the number of replicas that the new ReplicaSet should have now."""
    desired, have = replicas_of(deployment), 0 if new is None else replicas_of(new)
    if recreates(deployment):
        return desired
    total = sum(map(replicas_of, old)) + have
    allowed = max(desired + limits(deployment).surge - total, 0)
    return desired if have >= desired else have + min(allowed, desired - have)


def scale_down_old(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]
) -> list[Write]:
    """Scales the old ReplicaSets down: first by their unavailable pods, then as far as availability
    allows.
    """
    sizes = {each.metadata.name: replicas_of(each) for each in old}
    if not sum(sizes.values()):
        return []
    needed = replicas_of(deployment) - limits(deployment).unavailable
    missing = replicas_of(new) - _staying_available(new)
    unhealthy = max(sum(sizes.values()) + replicas_of(new) - needed - missing, 0)
    for each in old:
        removed = min(unhealthy, max(sizes[each.metadata.name] - _staying_available(each), 0))
        sizes[each.metadata.name] -= removed
        unhealthy -= removed
    healthy = dict(sizes)
    spare = max(sum(map(_staying_available, [new, *old])) - needed, 0)
    for each in old:
        removed = min(spare, sizes[each.metadata.name])
        sizes[each.metadata.name] -= removed
        spare -= removed
    return [
        write
        for each in old
        for name in (each.metadata.name,)
        for write in resize_patches(deployment, each, sizes[name], via=healthy[name])
    ]


def _staying_available(replica_set: ReplicaSet) -> int:
    """Returns the number of available pods that stay. The status also counts those to be
    deleted.
    """
    return min(replica_set.status.available_replicas, replicas_of(replica_set))
