"""Bookmark: how far the change logs of a snapshot have been read.

Whoever keeps answers from pod to pod keeps a bookmark with them, and asks it what changed since.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec
from berth.actors.scheduling.model.columns import NodeColumns
from berth.actors.scheduling.model.snapshot import Snapshot


class Changes(msgspec.Struct, frozen=True):
    """What changed between two readings.

    `rows` are rows whose node or pods changed, `nodes` those of them whose node object changed,
    `nominated` the names of the nodes that a nomination came to or left.
    """

    rows: Set[int] = frozenset()
    nodes: Set[int] = frozenset()
    nominated: Set[str] = frozenset()

    def rows_with(self, columns: NodeColumns, *names: str) -> set[int]:
        """The rows that changed in any way, nominations included, and those of the nodes named."""
        row_of = columns.row_of
        return {*self.rows, *(row_of[n] for n in (*self.nominated, *names) if n in row_of)}


NOTHING = Changes()


class Bookmark:
    """Begins at the snapshot as it is when the bookmark is made."""

    __slots__ = ("_nodes", "_nominations", "_order", "_rows")

    def __init__(self, snapshot: Snapshot) -> None:
        columns = snapshot.columns
        self._order = columns.order
        self._rows = columns.changes.version
        self._nodes = columns.node_changes.version
        self._nominations = snapshot.nominations.changes.version

    def same_nodes(self, snapshot: Snapshot) -> bool:
        """True if neither a node object nor the node tree changed. Does not move the bookmark."""
        columns = snapshot.columns
        return self._order is columns.order and self._nodes == columns.node_changes.version

    def turn(self, snapshot: Snapshot) -> Changes | None:
        """Move to the present and return what changed.

        Returns None, and does not move, if nodes came or went or too much changed to know it all.
        """
        columns, nominations = snapshot.columns, snapshot.nominations.changes
        if self._order is not columns.order:
            return None
        if self._rows == columns.changes.version and self._nominations == nominations.version:
            return NOTHING  # A change of a node object is a change of its row.
        rows = columns.changes.since(self._rows)
        nodes = columns.node_changes.since(self._nodes)
        nominated = nominations.since(self._nominations)
        if rows is None or nodes is None or nominated is None:
            return None
        self._rows, self._nodes = columns.changes.version, columns.node_changes.version
        self._nominations = nominations.version
        return Changes(rows, nodes, nominated)
