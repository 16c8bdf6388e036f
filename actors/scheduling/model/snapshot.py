"""Snapshot: the cluster as one scheduling cycle sees it.

Brought up to date by the cache between cycles and lent to the cycle, which only reads it. The
columns are the truth for vector rules; `info` gives the NodeInfo for rules that look at one node at
a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.model.amounts import Amounts
from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.model.columns import Ints, NodeColumns, Rows
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.nominations import Nominations


class Snapshot:
    """The columns, with the NodeInfo of every row, and the other objects that rules look up."""

    def __init__(
        self, objects: ClusterObjects | None = None, nominations: Nominations | None = None
    ) -> None:
        self.columns = NodeColumns()
        self.objects = ClusterObjects() if objects is None else objects
        self.nominations = Nominations() if nominations is None else nominations

    def __len__(self) -> int:
        return len(self.columns.order)

    def all(self) -> NodeView:
        """A view of all rows, dead ones included: cheap, because no column is copied."""
        return NodeView(self, slice(0, self.columns.size))

    def rows(self, rows: Ints) -> NodeView:
        """A view of some rows, in the order given."""
        return NodeView(self, rows)


class NodeView:
    """Some rows of a snapshot: `view.columns.pods[view.rows]` is the pod count of each, in the
    view's order.
    """

    __slots__ = ("columns", "rows", "size", "snapshot")

    def __init__(self, snapshot: Snapshot, rows: Rows) -> None:
        self.snapshot = snapshot
        self.columns = snapshot.columns
        self.rows = rows
        self.size = rows.stop if isinstance(rows, slice) else len(rows)

    def row(self, position: int) -> int:
        """The row at a position of the view."""
        return position if isinstance(self.rows, slice) else int(self.rows[position])

    def positions(self, rows: Ints) -> Ints:
        """Where rows are in the view, -1 for those that are not."""
        if isinstance(self.rows, slice):
            return np.where(rows < self.size, rows, -1)
        where = np.full(self.columns.size, -1, dtype=np.int64)
        where[self.rows] = np.arange(self.size)
        return where[rows]

    def allocatable(self, resources: Sequence[str]) -> Ints:
        """How much of these resources each node has for pods: int64[resources, n]."""
        return self._stacked(resources, self.columns.allocatable)

    def requested(self, resources: Sequence[str]) -> Ints:
        """The sums of the requests of the pods on each node: int64[resources, n]."""
        return self._stacked(resources, self.columns.requested)

    def _stacked(self, resources: Sequence[str], amounts: Amounts) -> Ints:
        rows = self.rows
        stacked = np.empty((len(resources), self.size), dtype=np.int64)
        for i, resource in enumerate(resources):
            stacked[i] = amounts(resource)[rows]
        return stacked

    def name(self, position: int) -> str:
        """The name of the node at a position; "" on a dead row."""
        return self.columns.names[self.row(position)]

    def node(self, position: int) -> Node | None:
        """The node at a position, None on a dead row."""
        return self.columns.nodes[self.row(position)]

    def info(self, position: int) -> NodeInfo | None:
        """The NodeInfo at a position, None on a dead row."""
        return self.columns.infos[self.row(position)]
