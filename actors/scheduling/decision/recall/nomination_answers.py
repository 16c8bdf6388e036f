"""Nomination answers: where pods of one template fit next to the pods that are nominated to a node.

The pod must fit on such a node next to the nominated pods. The rules are asked about this only
where the pod fits without them, and asked again only where a row or its nominations changed. The
answers can be kept while every filter that concerns the pod reads one row at a time.
"""

from __future__ import annotations

import numpy as np

from ...framework.cycle_state import CycleState
from ...model.bookmark import Bookmark
from ...model.pod_info import PodInfo
from ...model.snapshot import Snapshot
from ...model.vectors import Bools
from ..rules import Rules


class NominationAnswers:
    """The kept answers, by position in the node tree's order.

    `_full` marks the nodes where the nominated pods leave no room, `_open` the nodes without an
    answer.
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
        """Applies changes. False if there are too many, so that new answers are needed."""
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
        """Returns which of the fitting positions from `start` on fit next to the nominated pods.

        Raises PluginError.
        """
        stop = start + len(fitting)
        unanswered = start + np.flatnonzero(self._open[start:stop] & fitting)
        # Nominations count differently on the node to which the pod itself is nominated.
        row = snapshot.columns.row_of.get(snapshot.nominations.node_of(info.key))
        own = -1 if row is None else int(snapshot.columns.position[row])
        unanswered = unanswered[unanswered != own]
        if len(unanswered):
            view = snapshot.rows(self._order[unanswered])
            rejected = rules.reject_for_nominated(state, info, view)
            self._full[unanswered[[*rejected]]] = True
            self._open[unanswered] = False
        left = fitting & ~self._full[start:stop]
        if start <= own < stop and fitting[own - start]:
            view = snapshot.rows(self._order[own : own + 1])
            left[own - start] = not rules.reject_for_nominated(state, info, view)
        return left
