"""Where pods of one template must stay away for the sake of pods that were promised the node, kept
from pod to pod.

A node that lets the pod in may have been promised to others by preemption, and must then let it in
besides them too. That is asked only where the pod would fit, and asked again only where a row or
what is nominated there changed. As with everything that is kept, it holds only while every filter
that has something to say looks at one row at a time.
"""

from __future__ import annotations

import numpy as np
from berth.actors.scheduling.decision.feasibility import reject_for_nominated
from berth.actors.scheduling.decision.rules import Rules
from berth.actors.scheduling.framework.cycle_state import CycleState
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.actors.scheduling.model.vectors import Bools


class Promised:
    """By position in the node tree's order: `_full` where the nominated pods leave no room, `_open`
    where to ask.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._order = snapshot.columns.order
        self._full: Bools = np.zeros(len(self._order), dtype=np.bool_)
        self._open: Bools = np.zeros(len(self._order), dtype=np.bool_)
        self._note(snapshot, {*snapshot.nominations.nodes()})

    def _note(self, snapshot: Snapshot, names: set[str]) -> None:
        columns, nominated = snapshot.columns, snapshot.nominations.nodes()
        self._version, self._nominations_version = (
            columns.changes.version,
            snapshot.nominations.changes.version,
        )
        for name in names:
            row = columns.row_of.get(name)
            if row is not None:
                position = columns.position[row]
                self._full[position] = False
                self._open[position] = name in nominated

    def refresh(self, snapshot: Snapshot) -> bool:
        """Learn what changed; False if that is not known any more."""
        columns, nominations = snapshot.columns, snapshot.nominations
        changed, named = (
            columns.changes.since(self._version),
            nominations.changes.since(self._nominations_version),
        )
        if self._order is not columns.order or changed is None or named is None:
            return False
        if changed or named:
            self._note(snapshot, named.union(columns.names[row] for row in changed))
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
        # What is nominated to the node that the pod itself was promised is another thing to it than
        # to its like.
        row = snapshot.columns.row_of.get(snapshot.nominations.node_of(info.key))
        own = -1 if row is None else int(snapshot.columns.position[row])
        asked = asked[asked != own]
        if len(asked):
            rejected = reject_for_nominated(rules, state, info, snapshot.rows(self._order[asked]))
            self._full[asked[[*rejected]]] = True
            self._open[asked] = False
        left = fitting & ~self._full[start:stop]
        if start <= own < stop and fitting[own - start]:
            left[own - start] = not reject_for_nominated(
                rules, state, info, snapshot.rows(self._order[own : own + 1])
            )
        return left
