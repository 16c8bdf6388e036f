"""StaleRows: the rows of the nodes whose devices must be counted or allocated again."""

from __future__ import annotations

import numpy as np

from berth.plugin import Bools, NodeView

from ...model.columns import NodeColumns
from ...model.vectors import grown
from .inventory import Inventory
from .slices import EVERY_NODE


class StaleRows:
    """The rows that are stale: all at first, and again when a node changes, or the devices that it
    can use, or the claims that hold them.
    """

    def __init__(self, inventory: Inventory, columns: NodeColumns) -> None:
        self._columns = columns
        self._devices = inventory.changed
        self._stale: Bools = np.ones(columns.size, dtype=np.bool_)
        self._seen = self._devices.version
        self._nodes_seen = columns.node_changes.version

    def is_of(self, columns: NodeColumns) -> bool:
        return self._columns is columns

    @property
    def size(self) -> int:
        return len(self._stale)

    def follow(self) -> None:
        """Marks the rows that changed, and new rows."""
        columns = self._columns
        if columns.size > self.size:
            size = self.size
            self._stale = grown(self._stale, columns.size)
            self._stale[size:] = True
        if self._nodes_seen != columns.node_changes.version:
            changed = columns.node_changes.since(self._nodes_seen)
            self._stale[slice(None) if changed is None else [*changed]] = True
            self._nodes_seen = columns.node_changes.version
        if self._seen != self._devices.version:
            names = self._devices.since(self._seen)
            if names is None or EVERY_NODE in names:
                self._stale[:] = True
            else:
                row_of = columns.row_of
                self._stale[[row_of[name] for name in names if name in row_of]] = True
            self._seen = self._devices.version

    def positions(self, nodes: NodeView) -> list[int]:
        """Returns the stale positions of a view."""
        return list(self._stale[nodes.rows].nonzero()[0].tolist())

    def renewed(self, row: int) -> None:
        self._stale[row] = False
