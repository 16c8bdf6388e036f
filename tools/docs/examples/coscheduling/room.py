"""How many pods of one size a cluster has room for, by their requests alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from berth.plugin import Ints, Snapshot


def has_room_for(
    count: int, requests: Mapping[str, int], priority: int, snapshot: Snapshot
) -> bool:
    """True if so many pods with these requests may fit: into free room or, failing that, also where
    pods of lower priority run, which preemption may evict.
    """
    if int(_places(requests, snapshot, {}).sum()) >= count:
        return True
    lower = _of_lower_priority(requests, priority, snapshot)
    return int(_places(requests, snapshot, lower).sum()) >= count


def _places(requests: Mapping[str, int], snapshot: Snapshot, gone: Mapping[str, Ints]) -> Ints:
    """Returns int64[nodes]: how many such pods each node has room for. What is `gone`, by resource
    and with "" the number of pods, counts as free.
    """
    columns = snapshot.columns
    rows = columns.order
    places = columns.allocatable("pods")[rows] - columns.pods[rows] + gone.get("", 0)
    for resource, amount in requests.items():
        if amount > 0:
            free = columns.allocatable(resource)[rows] - columns.requested(resource)[rows]
            places = np.minimum(places, (free + gone.get(resource, 0)) // amount)
    places[columns.unschedulable[rows]] = 0
    return np.asarray(np.maximum(places, 0), dtype=np.int64)


def _of_lower_priority(
    requests: Iterable[str], priority: int, snapshot: Snapshot
) -> dict[str, Ints]:
    """Returns what pods of lower priority request on each node by resource, and with "" their
    number.
    """
    columns = snapshot.columns
    sums = {name: np.zeros(len(columns.order), dtype=np.int64) for name in ("", *requests)}
    for position, row in enumerate(columns.order):
        node = columns.infos[row]
        for pod in node.pods.values() if node is not None else ():
            if pod.priority < priority:
                sums[""][position] += 1
                for resource in requests:
                    sums[resource][position] += pod.requests.get(resource, 0)
    return sums
