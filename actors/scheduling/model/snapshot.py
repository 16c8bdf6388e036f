"""Snapshot: the cluster as one scheduling cycle sees it.

The cache updates it between cycles and lends it to the cycle, which only reads it. Vector rules
read the columns; rules that look at one node at a time read the NodeInfo from `info`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..kube.core import Node
from .amounts import Amounts
from .cluster_objects import ClusterObjects
from .columns import NodeColumns
from .node_info import NO_LABELS, NodeInfo
from .nominations import Nominations
from .pod_info import PodInfo
from .vectors import Bools, Ints, Rows, all_true


class Snapshot:
    """The columns with the NodeInfo of every row, and the other objects that rules look up."""

    def __init__(
        self, objects: ClusterObjects | None = None, nominations: Nominations | None = None
    ) -> None:
        self.columns = NodeColumns()
        self.objects = ClusterObjects() if objects is None else objects
        self.nominations = Nominations() if nominations is None else nominations

    def __len__(self) -> int:
        return len(self.columns.order)

    def all(self) -> NodeView:
        """Returns a view of all rows, including dead ones; it is cheap, as no column is copied."""
        return NodeView(self, slice(0, self.columns.size))

    def rows(self, rows: Ints) -> NodeView:
        """Returns a view of these rows, in this order."""
        return NodeView(self, rows)

    def info(self, name: str) -> NodeInfo | None:
        """Returns the node of a name; None if there is none."""
        row = self.columns.row_of.get(name)
        return None if row is None else self.columns.infos[row]

    def pods(
        self, namespace: str = "", labels: Mapping[str, str] = NO_LABELS
    ) -> list[tuple[str, PodInfo]]:
        """Returns the pods of a namespace, "" for all, that have these labels, each with the name
        of its node. It looks at each set of labels once, and at the pods of the nodes where some
        have them.
        """
        columns, wanted = self.columns, labels.items()
        return [
            (info.name, pod)
            for row in columns.counts.rows_with(namespace, labels)
            if (info := columns.infos[row]) is not None
            for pod in info.pods.values()
            if namespace in ("", pod.pod.metadata.namespace)
            and wanted <= pod.pod.metadata.labels.items()
        ]


class NodeView:
    """Some rows of a snapshot, in the view's own order.

    For example, `view.columns.pods[view.rows]` holds the pod count of each of its nodes.
    """

    __slots__ = ("columns", "rows", "size", "snapshot")

    def __init__(self, snapshot: Snapshot, rows: Rows) -> None:
        self.snapshot = snapshot
        self.columns = snapshot.columns
        self.rows = rows
        self.size = rows.stop if isinstance(rows, slice) else len(rows)

    @property
    def alive(self) -> int:
        """The number of rows that have a node; of rows that are listed, none is dead."""
        return len(self.snapshot) if isinstance(self.rows, slice) else self.size

    def only(self, positions: Bools) -> NodeView:
        """Returns a view of the nodes at these positions: this view for all of them."""
        if all_true(positions):
            return self
        rows = self.rows
        return NodeView(
            self.snapshot, positions.nonzero()[0] if isinstance(rows, slice) else rows[positions]
        )

    def row(self, position: int) -> int:
        """Returns the row at a position of the view."""
        return position if isinstance(self.rows, slice) else int(self.rows[position])

    def positions(self, rows: Ints) -> Ints:
        """Returns the positions of rows in the view; -1 for a row that is not in it."""
        if isinstance(self.rows, slice):
            return np.where(rows < self.size, rows, -1)
        where = np.full(self.columns.size, -1, dtype=np.int64)
        where[self.rows] = np.arange(self.size)
        return where[rows]

    def allocatable(self, resources: Sequence[str]) -> Ints:
        """Returns the amounts of these resources that nodes have for pods: int64[resources, n]."""
        return self._stacked(resources, self.columns.allocatable)

    def requested(self, resources: Sequence[str]) -> Ints:
        """Returns the sums of the requests of the pods on each node: int64[resources, n]."""
        return self._stacked(resources, self.columns.requested)

    def _stacked(self, resources: Sequence[str], amounts: Amounts) -> Ints:
        rows = self.rows
        stacked = np.empty((len(resources), self.size), dtype=np.int64)
        for i, resource in enumerate(resources):
            stacked[i] = amounts(resource)[rows]
        return stacked

    def name(self, position: int) -> str:
        """Returns the name of the node at a position; "" on a dead row."""
        return self.columns.names[self.row(position)]

    def node(self, position: int) -> Node | None:
        """Returns the node at a position, None on a dead row."""
        return self.columns.nodes[self.row(position)]

    def info(self, position: int) -> NodeInfo | None:
        """Returns the NodeInfo at a position, None on a dead row."""
        return self.columns.infos[self.row(position)]
