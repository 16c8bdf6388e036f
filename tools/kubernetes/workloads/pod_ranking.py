"""The order in which a controller deletes pods: the least useful first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from functools import cmp_to_key
from math import log2

import msgspec

from ..objects.properties import condition_of, is_active, is_ready, phase_of, seconds_since
from ..objects.structs import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_COST = re.compile(r"0|-\d+|[1-9]\d*", re.ASCII)
_COST_LIMIT = 2**31
_PHASES = {"Pending": 0, "Unknown": 1}
_NEVER = -1e18  # seconds since a time that is not set: it counts as the latest


class _PodHistory(msgspec.Struct, frozen=True):
    """The events in a pod's life, as seconds since then."""

    ready: float
    restarts: tuple[int, int]  # of containers, and of sidecars
    created: float
    uid: str


def by_usefulness(pods: Iterable[Pod], related: Iterable[Pod], now: datetime) -> list[Pod]:
    """Returns the pods of a ReplicaSet in the order of their deletion.

    Unplaced, pending, unready, cheap, crowded, restarted and young ones come first. `related` are
    the pods that crowd each other on a node. Ages that round to the same power of two count as
    equal, so that the pods of the last scaling do not all go before older ones.
    """
    crowd = Counter(pod.spec.node_name for pod in related if is_active(pod))
    past = cmp_to_key(_compare_roughly)
    return sorted(
        pods,
        key=lambda pod: (
            _state(pod),
            _cost(pod),
            -crowd[pod.spec.node_name],
            past(_readiness_and_restarts(pod, now)),
        ),
    )


def by_age(pods: Iterable[Pod], now: datetime) -> list[Pod]:
    """Returns the pods of a Job in the order of their deletion: by state, age and restarts."""
    past = cmp_to_key(_compare)
    return sorted(pods, key=lambda pod: (_state(pod), past(_readiness_and_restarts(pod, now))))


def _state(pod: Pod) -> tuple[bool, int, bool]:
    return bool(pod.spec.node_name), _PHASES.get(phase_of(pod), 2), is_ready(pod)


def _cost(pod: Pod) -> int:
    """Returns the deletion cost of a pod; 0 if the annotation is no integer of 32 bits."""
    text = pod.metadata.annotations.get(DELETION_COST, "")
    if len(text) > len(str(-_COST_LIMIT)) or not _COST.fullmatch(text):
        return 0
    cost = int(text)
    return cost if -_COST_LIMIT <= cost < _COST_LIMIT else 0


def _readiness_and_restarts(pod: Pod, now: datetime) -> _PodHistory:
    ready = condition_of(pod.status.conditions, "Ready") if is_ready(pod) else None
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    return _PodHistory(
        _age(ready.last_transition_time if ready else None, now),
        (
            max((each.restart_count for each in pod.status.container_statuses), default=0),
            max(
                (
                    each.restart_count
                    for each in pod.status.init_container_statuses
                    if each.name in sidecars
                ),
                default=0,
            ),
        ),
        _age(pod.metadata.creation_timestamp, now),
        pod.metadata.uid,
    )


def _age(since: str | None, now: datetime) -> float:
    return seconds_since(since, now) if since else _NEVER


def _compare(left: _PodHistory, right: _PodHistory) -> int:
    """Returns a negative number if the left pod is deleted first: the younger, or more often
    restarted.
    """
    mine = left.ready, [-count for count in left.restarts], left.created, left.uid
    other = right.ready, [-count for count in right.restarts], right.created, right.uid
    return (mine > other) - (mine < other)


def _compare_roughly(left: _PodHistory, right: _PodHistory) -> int:
    """Compares like `_compare`, but by uid if the ages are nearly equal."""
    if left.ready != right.ready:
        return _age_magnitude(left.ready) - _age_magnitude(right.ready) or _by_uid(left, right)
    if left.restarts != right.restarts:
        return -1 if left.restarts > right.restarts else 1
    return _age_magnitude(left.created) - _age_magnitude(right.created) or _by_uid(left, right)


def _age_magnitude(seconds: float) -> int:
    """Returns the power of two of an age in nanoseconds; -1 in the future, -2 if never."""
    if seconds == _NEVER:
        return -2
    return int(log2(seconds * 1e9)) if seconds > 0 else -1


def _by_uid(left: _PodHistory, right: _PodHistory) -> int:
    return (left.uid > right.uid) - (left.uid < right.uid)
