"""How many pods of one size a cluster has room for, by their requests alone."""

from __future__ import annotations

import numpy as np

from berth.plugin import Ints, PodInfo, Snapshot


def has_room_for(count: int, info: PodInfo, snapshot: Snapshot) -> bool:
    """True if so many pods like this one may fit: into free room or, failing that, also where pods
    of lower priority run, which preemption may evict.
    """
    if int(_places(info, snapshot, lower=False).sum()) >= count:
        return True
    return int(_places(info, snapshot, lower=True).sum()) >= count


def _places(info: PodInfo, snapshot: Snapshot, *, lower: bool) -> Ints:
    """Returns int64[nodes]: how many such pods each node has room for. With `lower`, pods of lower
    priority count as gone.
    """
    columns = snapshot.columns
    rows = columns.order
    gone = _of_lower_priority(info, snapshot) if lower else {}
    places = columns.allocatable("pods")[rows] - columns.pods[rows] + gone.get("", 0)
    for resource, amount in info.requests.items():
        if amount > 0:
            free = columns.allocatable(resource)[rows] - columns.requested(resource)[rows]
            places = np.minimum(places, (free + gone.get(resource, 0)) // amount)
    places[columns.unschedulable[rows]] = 0
    return np.asarray(np.maximum(places, 0), dtype=np.int64)


def _of_lower_priority(info: PodInfo, snapshot: Snapshot) -> dict[str, Ints]:
    """Returns what pods of lower priority request on each node by resource, and with "" their
    number.
    """
    columns = snapshot.columns
    sums = {name: np.zeros(len(columns.order), dtype=np.int64) for name in ("", *info.requests)}
    for position, row in enumerate(columns.order):
        node = columns.infos[row]
        for pod in node.pods.values() if node is not None else ():
            if pod.priority < info.priority:
                sums[""][position] += 1
                for resource in info.requests:
                    sums[resource][position] += pod.requests.get(resource, 0)
    return sums
