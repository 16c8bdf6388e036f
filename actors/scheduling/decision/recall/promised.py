"""Promised: where pods of one template must leave room for pods that are nominated to the node.

Such a node must let the pod in besides the nominated pods. That is asked only where the pod fits
without them, and asked again only where a row or its nominations changed. It holds while every
filter that concerns the pod reads one row at a time.
"""

from __future__ import annotations

import numpy as np

from ...framework.cycle_state import CycleState
from ...model.bookmark import Bookmark
from ...model.pod_info import PodInfo
from ...model.snapshot import Snapshot
from ...model.vectors import Bools
from ..feasibility import reject_for_nominated
from ..rules import Rules


class Promised:
    """By position in the node tree's order: `_full` marks nodes where the nominated pods leave no
    room, `_open` those that have not been asked about.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        columns, nominations = snapshot.columns, snapshot.nominations
        self._bookmark = Bookmark(snapshot)
        self._order = columns.order
        self._full: Bools = np.zeros(len(self._order), dtype=np.bool_)
        self._open: Bools = np.zeros(len(self._order), dtype=np.bool_)
        row_of = columns.row_of
        self._reopen(snapshot, {row_of[n] for n in nominations.nodes() if n in row_of})

    def _reopen(self, snapshot: Snapshot, rows: set[int]) -> None:
        columns, nominated = snapshot.columns, snapshot.nominations.nodes()
        for row in rows:
            position = columns.position[row]
            self._full[position] = False
            self._open[position] = columns.names[row] in nominated

    def refresh(self, snapshot: Snapshot) -> bool:
        """Take in what changed; False if too much did, and this one is of no use any more."""
        changes = self._bookmark.turn(snapshot)
        if changes is None:
            return False
        self._reopen(snapshot, changes.rows_with(snapshot.columns))
        return True

    def leaves(
        self,
        rules: Rules,
        state: CycleState,
        info: PodInfo,
        snapshot: Snapshot,
        start: int,
        fitting: Bools,
    ) -> Bools:
        """Of the positions from `start` on that fit, those that fit besides the nominated pods.

        Raises PluginError.
        """
        stop = start + len(fitting)
        asked = start + np.flatnonzero(self._open[start:stop] & fitting)
        # The nominations of a node mean something else to a pod that is itself nominated there.
        row = snapshot.columns.row_of.get(snapshot.nominations.node_of(info.key))
        own = -1 if row is None else int(snapshot.columns.position[row])
        asked = asked[asked != own]
        if len(asked):
            view = snapshot.rows(self._order[asked])
            rejected = reject_for_nominated(rules, state, info, view)
            self._full[asked[[*rejected]]] = True
            self._open[asked] = False
        left = fitting & ~self._full[start:stop]
        if start <= own < stop and fitting[own - start]:
            view = snapshot.rows(self._order[own : own + 1])
            left[own - start] = not reject_for_nominated(rules, state, info, view)
        return left
