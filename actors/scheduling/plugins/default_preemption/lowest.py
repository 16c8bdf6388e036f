"""The lowest priority of the pods on each node: without pods of lower priority, preemption cannot
help there.
"""

from __future__ import annotations

import numpy as np

from berth.plugin import Ints, Snapshot

from ...model.bookmark import Bookmark

NO_PODS = 1 << 31  # higher than all priorities


class LowestPriorities:
    """The lowest priority of the pods on each node, by position in the node tree's order."""

    def __init__(self) -> None:
        self._bookmark: Bookmark | None = None
        self._priorities: Ints = np.zeros(0, dtype=np.int64)

    def of(self, snapshot: Snapshot) -> Ints:
        columns = snapshot.columns
        changes = None if self._bookmark is None else self._bookmark.turn(snapshot)
        if changes is None:
            self._bookmark = Bookmark(snapshot)
            rows = columns.order.tolist()
            self._priorities = np.array([_lowest(snapshot, row) for row in rows], dtype=np.int64)
        else:
            for row in changes.rows:
                self._priorities[columns.position[row]] = _lowest(snapshot, row)
        return self._priorities


def _lowest(snapshot: Snapshot, row: int) -> int:
    info = snapshot.columns.infos[row]
    assert info is not None, row
    return min((pod.priority for pod in info.pods.values()), default=NO_PODS)
