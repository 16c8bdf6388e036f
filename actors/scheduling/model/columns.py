"""NodeColumns: the nodes as a struct of arrays, one row a node, so that a rule is one operation
over all of them.

A node keeps its row for life; rows of removed nodes are reused. What a dead row holds is never
read, because every answer is taken in `order`, the live rows in the node tree's order. Rows are
rewritten by `refresh` only where a NodeInfo changed; label columns and image columns come into
being when a rule first reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from berth.actors.scheduling.kube.core import Node, Taint
from berth.actors.scheduling.kube.quantity import MAX
from berth.actors.scheduling.model.amounts import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Amounts,
    is_many,
)
from berth.actors.scheduling.model.change_log import ChangeLog
from berth.actors.scheduling.model.label_column import LabelColumn
from berth.actors.scheduling.model.node_info import NodeInfo
from berth.actors.scheduling.model.pod_counts import PodCounts
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.unsure_node import UnsureNode
from berth.actors.scheduling.model.vectors import Bools, Codes, Ints, Rows, grown

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "PODS",
    "Bools",
    "Codes",
    "Ints",
    "LabelColumn",
    "NodeColumns",
    "Rows",
]


class PresenceColumn:
    """Where something is present; `nodes` is on how many rows.

    What is on few rows is kept as these rows: a node may have thousands of things that no other
    has.
    """

    def __init__(self, rows: int) -> None:
        self._size = rows
        self._few: dict[int, None] = {}
        self._many: Bools | None = None
        self.nodes = 0

    def put(self, row: int) -> None:
        """Does nothing if it is there already."""
        if self._many is None:
            self._few[row] = None
            self.nodes = len(self._few)
            if is_many(self.nodes, self._size):
                self._many = self.present
                self._few = {}
        elif not self._many[row]:
            self._many[row] = True
            self.nodes += 1

    def take_out(self, row: int) -> None:
        """Does nothing if it is not there."""
        if self._many is None:
            self._few.pop(row, None)
            self.nodes = len(self._few)
        elif self._many[row]:
            self._many[row] = False
            self.nodes -= 1

    @property
    def present(self) -> Bools:
        """bool[rows], to read only."""
        if self._many is not None:
            return self._many
        marks = np.zeros(self._size, dtype=np.bool_)
        self.mark(marks)
        return marks

    def mark(self, marks: Bools) -> None:
        """Mark in bool[rows] where it is."""
        if self._many is not None:
            marks |= self._many
        else:
            marks[[*self._few]] = True

    def grow(self, rows: int) -> None:
        self._size = rows
        if self._many is not None:
            self._many = grown(self._many, rows)


class ImageColumn(PresenceColumn):
    """Where one image is present, and how large it is by the last node that told (bytes)."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.size_bytes = 0


class NodeColumns:
    """One row a node.

    `allocatable(resource)` is a column of what nodes have for pods, `requested(resource)` of what
    pods on them ask for, and `nonzero` of cpu and memory with the defaults; sums end at the largest
    int64. `changes` logs the rows that were written; `node_changes` those of them whose node object
    is another. `unsure` marks the rows of the `unsure_nodes`, of which a later state could not be
    read. `position[row]` is where a live row stands in `order`, which is a new array whenever it
    changes.
    """

    def __init__(self, rows: int = 64) -> None:
        self.size = 0  # rows in use, dead ones included
        self.order: Ints = np.zeros(0, dtype=np.int64)
        self.position: Ints = np.zeros(0, dtype=np.int64)
        self.row_of: dict[str, int] = {}
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.infos: list[NodeInfo | None] = []
        self.changes: ChangeLog[int] = ChangeLog()
        self.node_changes: ChangeLog[int] = ChangeLog()
        self.allocatable = Amounts(rows)
        self.requested = Amounts(rows)
        self.pods: Ints = np.zeros(rows, dtype=np.int64)
        self.nonzero: Ints = np.zeros((2, rows), dtype=np.int64)
        self.unschedulable: Bools = np.zeros(rows, dtype=np.bool_)
        self.unsure: Bools = np.zeros(rows, dtype=np.bool_)
        self.unsure_nodes = 0
        self.taints: Codes = np.zeros(rows, dtype=np.int32)
        self.taint_classes: list[Sequence[Taint]] = [()]
        self.features: Codes = np.zeros(rows, dtype=np.int32)
        self.feature_classes: list[frozenset[str]] = [frozenset()]
        self.labels: dict[str, LabelColumn] = {}
        self.images: dict[str, ImageColumn] = {}
        # (protocol, port) -> ip -> where it is taken
        self.ports: dict[tuple[str, int], dict[str, PresenceColumn]] = {}
        self.counts = PodCounts(rows)
        self._nodes_with: dict[str, int] = {}  # label key -> how many nodes have it
        self._no_label = LabelColumn(rows)
        self._feature_code: dict[frozenset[str], int] = {frozenset(): 0}
        self._taint_code: dict[Sequence[Taint], int] = {(): 0}
        self._freed: set[int] = set()  # the rows that some ports are free on only in thought
        self._ports_of: dict[int, tuple[tuple[tuple[str, int], str], ...]] = {}
        self._free: list[int] = []

    # -------------------------------------------------------------------------------------- reading

    def label(self, key: str) -> LabelColumn:
        """The column of a label key, made on first use; the keys that no node has share one."""
        column = self.labels.get(key)
        if column is None:
            if key not in self._nodes_with:
                return self._no_label
            column = LabelColumn(len(self.pods))
            for row, node in enumerate(self.nodes):
                if node is not None:
                    column.set(row, node.metadata.labels.get(key))
            self.labels[key] = column
        return column

    def all_have(self, label: LabelColumn) -> bool:
        """Whether there is no node without this label."""
        return label.nodes == len(self.row_of)

    def rows_of(self, names: Iterable[str]) -> Ints:
        """The rows of these nodes, where they have one, as they come in `order`."""
        known = np.array(
            [self.row_of[name] for name in names if name in self.row_of], dtype=np.int64
        )
        return known[np.argsort(self.position[known])] if len(known) > 1 else known

    # -------------------------------------------------------------------------------------- writing

    def refresh(self, info: NodeInfo) -> None:
        """Write a node's row anew; the node gets a row if it has none."""
        node = info.node
        assert node is not None, info.name
        row = self.row_of.get(info.name)
        if row is None:
            row = self._new_row(info.name)
        self.changes.add(row)
        if self.infos[row] is not info:
            self._forget_pods(row)
            self.infos[row] = info
            info.changes = None
        old = self.nodes[row]
        if old is not node:
            self.node_changes.add(row)
            self._write_node(row, old, node)
            if old is not None:
                self.allocatable.clear(row, old.status.allocatable)
            self.allocatable.put(row, info.allocatable)
        self.write_pods(row)

    def write_pods(self, row: int) -> None:
        """Write anew what a row says of the pods on it. It is no change if it is undone before
        anybody looks.
        """
        info = self.infos[row]
        assert info is not None, row
        changes = info.take_changes()
        whole = changes is None
        if changes is None:
            self.counts.clear(row)
            changes = [(pod, 1) for pod in info.pods.values()]
        self.requested.put(
            row, info.requested
        )  # A resource that no pod there asks for any more is in it, as 0.
        self.counts.refresh(row, changes)
        self.pods[row] = len(info.pods)
        self.nonzero[0, row] = min(info.nonzero_cpu, MAX)
        self.nonzero[1, row] = min(info.nonzero_memory, MAX)
        if (info.ports or row in self._ports_of) and (
            whole or self._ports_change(row, info, changes)
        ):
            self._write_ports(row, info)

    def _ports_change(
        self, row: int, info: NodeInfo, changes: Iterable[tuple[PodInfo, int]]
    ) -> bool:
        freed = info.freed_ports or row in self._freed
        return bool(freed) or any(pod.host_ports for pod, _ in changes)

    def remove(self, name: str) -> None:
        """Give up a node's row; does nothing if the node has none."""
        row = self.row_of.pop(name, None)
        if row is None:
            return
        node = self.nodes[row]
        assert node is not None
        self._forget_images(row, node)
        self._write_labels(row, node.metadata.labels, {})
        self._write_ports(row, NodeInfo(name))
        self._forget_pods(row)
        self.allocatable.clear(row, node.status.allocatable)
        self._write_unsure(row, unsure=False)
        self.nodes[row] = None
        self.infos[row] = None
        self.names[row] = ""
        self.changes.add(row)
        self.node_changes.add(row)
        self._free.append(row)

    def reorder(self, names: Iterable[str]) -> None:
        """Take the live rows in this order from now on. Every node with a row should be named;
        others are left out.
        """
        self.order = np.fromiter(
            (self.row_of[name] for name in names if name in self.row_of), dtype=np.int64
        )
        self.position = np.full(self.size, -1, dtype=np.int64)
        self.position[self.order] = np.arange(len(self.order))

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.size
            self.size += 1
            self.names.append(name)
            self.nodes.append(None)
            self.infos.append(None)
            if self.size > len(self.pods):
                self._grow(2 * len(self.pods))
        self.row_of[name] = row
        return row

    def _grow(self, rows: int) -> None:
        self.pods = grown(self.pods, rows)
        self.nonzero = grown(self.nonzero, rows)
        self.unschedulable = grown(self.unschedulable, rows)
        self.unsure = grown(self.unsure, rows)
        self.taints = grown(self.taints, rows)
        self.features = grown(self.features, rows)
        self.allocatable.grow(rows)
        self.requested.grow(rows)
        self.counts.grow(rows)
        for label in (self._no_label, *self.labels.values()):
            label.grow(rows)
        for image in self.images.values():
            image.grow(rows)
        for by_ip in self.ports.values():
            for port in by_ip.values():
                port.grow(rows)

    def _forget_pods(self, row: int) -> None:
        """Nothing runs on a row any more: its NodeInfo has gone."""
        info = self.infos[row]
        if info is not None:
            self.requested.clear(row, info.requested)
        self.counts.clear(row)

    def _write_node(self, row: int, old: Node | None, node: Node) -> None:
        self.nodes[row] = node
        self.unschedulable[row] = node.spec.unschedulable
        self._write_unsure(row, unsure=isinstance(node, UnsureNode))
        taints = node.spec.taints
        code = self._taint_code.get(taints)
        if code is None:
            code = self._taint_code[taints] = len(self.taint_classes)
            self.taint_classes.append(taints)
        self.taints[row] = code
        features = frozenset(node.status.declared_features)
        code = self._feature_code.get(features)
        if code is None:
            code = self._feature_code[features] = len(self.feature_classes)
            self.feature_classes.append(features)
        self.features[row] = code
        self._write_labels(row, {} if old is None else old.metadata.labels, node.metadata.labels)
        if old is None or old.status.images != node.status.images:
            if old is not None:
                self._forget_images(row, old)
            self._write_images(row, node)

    def _write_unsure(self, row: int, *, unsure: bool) -> None:
        if unsure != self.unsure[row]:
            self.unsure[row] = unsure
            self.unsure_nodes += 1 if unsure else -1

    def _write_labels(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        if old == new:
            return
        for key in new.keys() - old.keys():
            self._nodes_with[key] = self._nodes_with.get(key, 0) + 1
        for key in old.keys() - new.keys():
            self._nodes_with[key] -= 1
            if not self._nodes_with[key]:
                del self._nodes_with[key]
        for key, column in self.labels.items():
            column.set(row, new.get(key))

    def _write_images(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                column = self.images.get(name)
                if column is None:
                    column = self.images[name] = ImageColumn(len(self.pods))
                column.put(row)
                column.size_bytes = image.size_bytes

    def _forget_images(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                column = self.images.get(name)
                if column is None:
                    continue
                column.take_out(row)
                if not column.nodes:
                    del self.images[name]

    def _write_ports(self, row: int, info: NodeInfo) -> None:
        for claim, ip in self._ports_of.pop(row, ()):
            by_ip = self.ports[claim]
            by_ip[ip].take_out(row)
            if not by_ip[ip].nodes:
                del by_ip[ip]
                if not by_ip:
                    del self.ports[claim]
        taken = tuple((claim, ip) for claim, ips in info.ports_in_use().items() for ip in ips)
        for claim, ip in taken:
            by_ip = self.ports.setdefault(claim, {})
            if ip not in by_ip:
                by_ip[ip] = PresenceColumn(len(self.pods))
            by_ip[ip].put(row)
        if taken:
            self._ports_of[row] = taken
        if info.freed_ports:
            self._freed.add(row)
        else:
            self._freed.discard(row)
