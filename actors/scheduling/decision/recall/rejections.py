"""Rejections: why pods of one template fit nowhere, kept from pod to pod.

The rules are asked again about rows that changed. The answers can be kept while every filter that
concerns the pod reads one row at a time.
"""

from __future__ import annotations

import numpy as np

from ...framework.cycle_state import CycleState
from ...framework.status import SUCCESS
from ...model.bookmark import Bookmark
from ...model.pod_info import PodInfo
from ...model.snapshot import Snapshot
from ...model.vectors import Bools
from ..evaluation import Evaluation
from ..rules import PreFilterOutcome, Rules


class Rejections:
    """The remembered rejections. `diagnosis` covers all nodes in the node tree's order, and counts
    the pods nominated to them.
    """

    def __init__(self, rules: Rules, state: CycleState, info: PodInfo, snapshot: Snapshot) -> None:
        self._bookmark = Bookmark(snapshot)
        self._own = snapshot.nominations.node_of(info.key)
        every = snapshot.rows(snapshot.columns.order)
        self.diagnosis = rules.diagnose(state, info, every)
        self._live: Bools = np.ones(every.size, dtype=np.bool_)

    def evaluation(self, state: CycleState) -> Evaluation:
        """Returns the rejections as an evaluation with this state."""
        return Evaluation(state, PreFilterOutcome(SUCCESS), self.diagnosis, self._live)

    def refresh(self, rules: Rules, state: CycleState, info: PodInfo, snapshot: Snapshot) -> bool:
        """Asks the rules again where something has changed. False after too many changes. Raises
        PluginError.
        """
        columns, own = snapshot.columns, snapshot.nominations.node_of(info.key)
        changes = self._bookmark.turn(snapshot)
        if changes is None:
            return False
        # A nominated pod counts for every pod but itself.
        changed = changes.rows_with(columns, self._own, own)
        self._own = own
        if changed:
            rows = np.array(sorted(changed), dtype=np.int64)
            fresh = rules.diagnose(state, info, snapshot.rows(rows))
            for i, position in enumerate(columns.position[rows].tolist()):
                self.diagnosis.put(position, fresh.status(i))
        return True
