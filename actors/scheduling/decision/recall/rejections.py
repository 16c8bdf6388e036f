"""Why pods of one template fit nowhere, row by row, kept from pod to pod and renewed where
something changed.

Only as long as every filter that has something to say looks at one row at a time; else every filter
is asked anew. It never changes what is decided, or what a user reads.
"""

from __future__ import annotations

import numpy as np
from berth.actors.scheduling.decision.feasibility import Evaluation, filter_nodes
from berth.actors.scheduling.decision.rules import PreFiltered, Rules
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.framework.status import SUCCESS
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot


class Rejections:
    """The diagnosis of every node, in the node tree's order, pods nominated ahead taken into
    account.
    """

    def __init__(self, rules: Rules, state: CycleState, info: PodInfo, snapshot: Snapshot) -> None:
        self._order = snapshot.columns.order
        self._note_versions(snapshot)
        every = snapshot.rows(self._order)
        self._diagnosis = filter_nodes(rules, state, info, every)
        self.evaluation = Evaluation(
            PreFiltered(SUCCESS), self._diagnosis, np.ones(every.size, dtype=np.bool_)
        )
        self._own = snapshot.nominations.node_of(info.key)

    def _note_versions(self, snapshot: Snapshot) -> None:
        self._version = snapshot.columns.changes.version
        self._nominations_version = snapshot.nominations.changes.version

    def refresh(self, rules: Rules, state: CycleState, info: PodInfo, snapshot: Snapshot) -> bool:
        """Ask again where something changed; False if that is not known any more."""
        columns, nominations = snapshot.columns, snapshot.nominations
        now = (columns.changes.version, nominations.changes.version, nominations.node_of(info.key))
        if self._order is columns.order and now == (
            self._version,
            self._nominations_version,
            self._own,
        ):
            return True
        changed = columns.changes.since(self._version)
        nominated = nominations.changes.since(self._nominations_version)
        if self._order is not columns.order or changed is None or nominated is None:
            return False
        # What is nominated to a node counts for every pod but the nominated one itself.
        nominated |= {self._own, nominations.node_of(info.key)}
        changed.update(columns.row_of[name] for name in nominated if name in columns.row_of)
        self._own = nominations.node_of(info.key)
        self._note_versions(snapshot)
        if changed:
            rows = np.array(sorted(changed), dtype=np.int64)
            fresh = filter_nodes(rules, state, info, snapshot.rows(rows))
            for i, position in enumerate(columns.position[rows].tolist()):
                self._diagnosis.put(position, fresh.status(i))
        return True
