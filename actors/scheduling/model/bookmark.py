"""Bookmark: the position up to which a cache has read the change logs of a snapshot.

A cache of results for several pods keeps a bookmark with them, and gets the later changes from it.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from .columns import NodeColumns
from .snapshot import Snapshot


class Changes(msgspec.Struct, frozen=True):
    """The changes between two readings.

    `rows` are the rows whose node or pods changed, and `nodes` those whose node object changed.
    `nominated` names the nodes on which nominations were added or removed.
    """

    rows: Set[int] = frozenset()
    nodes: Set[int] = frozenset()
    nominated: Set[str] = frozenset()

    def rows_with(self, columns: NodeColumns, *names: str) -> set[int]:
        """Returns the rows that changed in any way, also in nominations, and the rows of the nodes
        in `names`.
        """
        row_of = columns.row_of
        return {*self.rows, *(row_of[n] for n in (*self.nominated, *names) if n in row_of)}


NOTHING = Changes()


class Bookmark:
    """A position in the change logs. It begins at the present state of the snapshot."""

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
        """Moves to the present state, and returns the changes since the last position.

        Returns None, and does not move, if nodes were added or removed, or if the bookmark is older
        than the logs.
        """
        columns, nominations = snapshot.columns, snapshot.nominations.changes
        if self._order is not columns.order:
            return None
        if self._rows == columns.changes.version and self._nominations == nominations.version:
            return NOTHING  # A change of a node object is also a change of its row.
        # Mostly pods alone have changed, and each decision asks.
        nodes: Set[int] | None = NOTHING.nodes
        nominated: Set[str] | None = NOTHING.nominated
        rows = columns.changes.since(self._rows)
        if self._nodes != columns.node_changes.version:
            nodes = columns.node_changes.since(self._nodes)
        if self._nominations != nominations.version:
            nominated = nominations.since(self._nominations)
        if rows is None or nodes is None or nominated is None:
            return None
        self._rows, self._nodes = columns.changes.version, columns.node_changes.version
        self._nominations = nominations.version
        return Changes(rows, nodes, nominated)
