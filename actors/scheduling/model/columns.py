"""NodeColumns: the nodes as a struct of arrays, with one row for each node.

A rule is then one operation over all nodes. A node keeps its row for life; the rows of removed
nodes are reused. The contents of a dead row never matter, because every result is taken in `order`,
which lists the live rows in the node tree's order. `refresh` rewrites a row only if its NodeInfo
changed. A label column is created when a rule first reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ..kube.core import Node, Taint
from ..kube.quantity import MAX_INT64
from ..kube.taints import without_times
from .amounts import Amounts, needs_column
from .change_log import ChangeLog
from .class_column import ClassColumn
from .label_column import LabelColumn
from .node_info import NodeInfo
from .pod_counts import PodCounts
from .pod_info import PodInfo
from .pod_template import HostPort, Values
from .read_only_arrays import ReadOnlyList, read_only
from .stale_node import StaleNode
from .vectors import Bools, Ints, grown

FIRST_ROWS = 64


class PresenceColumn:
    """The rows that have something, such as an image; `nodes` is their number.

    Few rows are stored as a dict of these rows, because a node may have thousands of things that no
    other node has.
    """

    def __init__(self, rows: int) -> None:
        self._size = rows
        self._few: dict[int, None] = {}
        self._many: Bools | None = None
        self.nodes = 0

    def add(self, row: int) -> None:
        """Adds a row; does nothing if it is present already."""
        if self._many is None:
            self._few[row] = None
            self.nodes = len(self._few)
            if needs_column(self.nodes, self._size):
                self._many = self._spread()
                self._few = {}
        elif not self._many[row]:
            self._many[row] = True
            self.nodes += 1

    def remove(self, row: int) -> None:
        """Removes a row; does nothing if it is not present."""
        if self._many is None:
            self._few.pop(row, None)
            self.nodes = len(self._few)
        elif self._many[row]:
            self._many[row] = False
            self.nodes -= 1

    @property
    def present(self) -> Bools:
        """bool[rows], read-only."""
        if self._many is not None:
            return read_only(self._many)
        return read_only(self._spread())

    def _spread(self) -> Bools:
        marks = np.zeros(self._size, dtype=np.bool_)
        self.mark(marks)
        return marks

    def mark(self, marks: Bools) -> None:
        """Sets a bool[rows] to true on the present rows."""
        if self._many is not None:
            marks |= self._many
        else:
            marks[[*self._few]] = True

    def grow(self, rows: int) -> None:
        self._size = rows
        if self._many is not None:
            self._many = grown(self._many, rows)


class ImageColumn(PresenceColumn):
    """The rows that have an image, and its size in bytes as the first of its nodes reported it, as
    in kube-scheduler's cache.
    """

    def __init__(self, rows: int, size_bytes: int) -> None:
        super().__init__(rows)
        self.size_bytes = size_bytes


class NodeColumns:
    """One row for each node.

    `allocatable(resource)` is a column of the amounts that nodes have for pods, and
    `requested(resource)` of the sums that their pods request. `nonzero` holds the requested cpu and
    memory, with the defaults of containers that request none. Sums are capped at the largest int64.
    `changes` logs the rows that were written, and `node_changes` the rows whose node object was
    replaced. `stale` marks the rows of nodes whose latest state could not be read; `stale_nodes`
    is their number. `position[row]` is the position of a live row in `order`, which is a new array
    whenever it changes.
    """

    def __init__(self) -> None:
        rows = FIRST_ROWS
        self.size = 0  # rows in use, dead ones included
        self.order: Ints = read_only(np.zeros(0, dtype=np.int64))
        self.position: Ints = read_only(np.zeros(0, dtype=np.int64))
        self._row_of: dict[str, int] = {}
        self.row_of: Mapping[str, int] = MappingProxyType(self._row_of)
        self._names: ReadOnlyList[str] = ReadOnlyList()
        self._nodes: ReadOnlyList[Node | None] = ReadOnlyList()
        self._infos: ReadOnlyList[NodeInfo | None] = ReadOnlyList()
        self.names: Sequence[str] = self._names
        self.nodes: Sequence[Node | None] = self._nodes
        self.infos: Sequence[NodeInfo | None] = self._infos
        self.changes: ChangeLog[int] = ChangeLog()
        self.node_changes: ChangeLog[int] = ChangeLog()
        self.allocatable = Amounts(rows)
        self.requested = Amounts(rows)
        self._pods: Ints = np.zeros(rows, dtype=np.int64)
        self._nonzero: Ints = np.zeros((2, rows), dtype=np.int64)
        self._unschedulable: Bools = np.zeros(rows, dtype=np.bool_)
        self._stale: Bools = np.zeros(rows, dtype=np.bool_)
        self._taints: ClassColumn[Sequence[Taint]] = ClassColumn(rows, ())
        self._features: ClassColumn[frozenset[str]] = ClassColumn(rows, frozenset())
        self._publish()
        self.stale_nodes = 0
        self._labels: dict[str, LabelColumn] = {}
        self.labels = MappingProxyType(self._labels)
        self._images: dict[str, ImageColumn] = {}
        self.images = MappingProxyType(self._images)
        # (protocol, port) -> ip -> the rows on which it is in use
        self._ports: dict[tuple[str, int], dict[str, PresenceColumn]] = {}
        self._lent_ports: dict[tuple[str, int], Mapping[str, PresenceColumn]] = {}
        self.ports = MappingProxyType(self._lent_ports)
        self.counts = PodCounts(rows)
        self._nodes_with: dict[str, int] = {}  # label key -> how many nodes have it
        self._label_keys: frozenset[str] | None = frozenset()
        self._no_label = LabelColumn(rows)
        self._ports_of: dict[int, set[HostPort]] = {}  # what `ports` has of each row
        self._free: list[int] = []

    def _publish(self) -> None:
        """Publishes the new arrays of the rows to readers."""
        self.pods: Ints = read_only(self._pods)
        self.nonzero: Ints = read_only(self._nonzero)
        self.unschedulable: Bools = read_only(self._unschedulable)
        self.stale: Bools = read_only(self._stale)

    # -------------------------------------------------------------------------------------- reading

    @property
    def taints(self) -> Ints:
        """int64[rows]: the codes of the nodes' taints in `taint_classes`."""
        return self._taints.codes

    @property
    def taint_classes(self) -> Mapping[Sequence[Taint], int]:
        """The distinct taints, without the times at which they were added, in the order of their
        codes.
        """
        return self._taints.classes

    @property
    def features(self) -> Ints:
        """int64[rows]: the codes of the nodes' declared features in `feature_classes`."""
        return self._features.codes

    @property
    def feature_classes(self) -> Mapping[frozenset[str], int]:
        """The distinct features, in the order of their codes."""
        return self._features.classes

    def label(self, key: str) -> LabelColumn:
        """Returns the column of a label key, created on first use.

        All keys that no node has share one column.
        """
        column = self.labels.get(key)
        if column is None:
            if key not in self._nodes_with:
                return self._no_label
            column = LabelColumn(len(self.pods))
            for row, node in enumerate(self.nodes):
                if node is not None:
                    column.set(row, node.metadata.labels.get(key))
            self._labels[key] = column
        return column

    @property
    def label_keys(self) -> frozenset[str]:
        """The label keys that nodes have. The object stays the same until they change."""
        if self._label_keys is None:
            self._label_keys = frozenset(self._nodes_with)
        return self._label_keys

    def all_have(self, label: LabelColumn) -> bool:
        """True if every node has this label."""
        return label.nodes == len(self.row_of)

    def rows_of(self, names: Iterable[str]) -> Ints:
        """Returns the rows of these nodes, in `order`; nodes without a row are left out."""
        rows = np.array(
            [self.row_of[name] for name in names if name in self.row_of], dtype=np.int64
        )
        return rows[np.argsort(self.position[rows])] if len(rows) > 1 else rows

    # -------------------------------------------------------------------------------------- writing

    def refresh(self, info: NodeInfo) -> None:
        """Rewrites the row of a node; a node without a row gets one."""
        node = info.node
        assert node is not None, info.name
        row = self._row_of.get(info.name)
        if row is None:
            row = self._new_row(info.name)
        self.changes.add(row)
        if self._infos[row] is not info:
            self._forget_pods(row)
            list.__setitem__(self._infos, row, info)
            info.changes = None
        old = self._nodes[row]
        if old is not node:
            self.node_changes.add(row)
            self._write_node(row, old, node)
            if old is not None:
                self.allocatable.clear(row, old.status.allocatable)
            self.allocatable.put(row, info.allocatable)
        self.write_pods(row)

    def write_pods(self, row: int) -> None:
        """Rewrites the part of a row that depends on the node's pods.

        It does not log a change.
        """
        info = self._infos[row]
        assert info is not None, row
        changes = info.take_changes()
        if changes is None:
            self._write_ports(row, info, list(self._ports_of.get(row, ())))
            self.counts.clear(row)
            changes = [(pod, 1) for pod in info.pods.values()]
            # `info.requested` contains, as 0, the resources that no pod requests any more.
            self.requested.put(row, info.requested)
        self.counts.refresh(row, changes)
        self._write_sums(row, info, [pod.template.values for pod, _ in changes])

    def suppose(self, row: int, changes: Sequence[tuple[PodInfo, Values, int]]) -> None:
        """Rewrites a row for a what-if question, after its NodeInfo has changed."""
        info = self._infos[row]
        assert info is not None, row
        self.counts.suppose(row, changes)
        self._write_sums(row, info, [values for _, values, _ in changes])

    def rewrite_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        """Rewrites which of these ports are in use, after the NodeInfo has changed."""
        info = self._infos[row]
        assert info is not None, row
        self._write_ports(row, info, ports)

    def _write_sums(self, row: int, info: NodeInfo, changed: Iterable[Values]) -> None:
        requested, pods, cpu, memory = info.sums()
        for values in changed:
            self.requested.put(row, requested, values.requests)
            if values.ports:
                self._write_ports(row, info, values.ports)
        self._pods[row] = pods
        self._nonzero[0, row] = min(cpu, MAX_INT64)
        self._nonzero[1, row] = min(memory, MAX_INT64)

    def remove(self, name: str) -> None:
        """Frees the row of a node; does nothing if the node has none."""
        row = self._row_of.pop(name, None)
        if row is None:
            return
        node = self._nodes[row]
        assert node is not None
        self._forget_images(row, node)
        self._write_labels(row, node.metadata.labels, {})
        self._write_ports(row, NodeInfo(name), list(self._ports_of.get(row, ())))
        self._forget_pods(row)
        self.allocatable.clear(row, node.status.allocatable)
        self._write_stale(row, stale=False)
        self._taints.set(row, None)
        self._features.set(row, None)
        list.__setitem__(self._nodes, row, None)
        list.__setitem__(self._infos, row, None)
        list.__setitem__(self._names, row, "")
        self.changes.add(row)
        self.node_changes.add(row)
        self._free.append(row)

    def reorder(self, names: Iterable[str]) -> None:
        """Puts the live rows into the order of these names.

        Every node that has a row should be named; a row whose node is not named appears in no
        result.
        """
        rows = map(self._row_of.get, names)
        self.order = read_only(np.array([row for row in rows if row is not None], dtype=np.int64))
        position = np.full(self.size, -1, dtype=np.int64)
        position[self.order] = np.arange(len(self.order))
        self.position = read_only(position)

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            list.__setitem__(self._names, row, name)
        else:
            row = self.size
            self.size += 1
            list.append(self._names, name)
            list.append(self._nodes, None)
            list.append(self._infos, None)
            if self.size > len(self._pods):
                self._grow(2 * len(self._pods))
        self._row_of[name] = row
        return row

    def _grow(self, rows: int) -> None:
        self._pods = grown(self._pods, rows)
        self._nonzero = grown(self._nonzero, rows)
        self._unschedulable = grown(self._unschedulable, rows)
        self._stale = grown(self._stale, rows)
        self._publish()
        self._taints.grow(rows)
        self._features.grow(rows)
        self.allocatable.grow(rows)
        self.requested.grow(rows)
        self.counts.grow(rows)
        for label in (self._no_label, *self._labels.values()):
            label.grow(rows)
        for image in self._images.values():
            image.grow(rows)
        for by_ip in self._ports.values():
            for port in by_ip.values():
                port.grow(rows)

    def _forget_pods(self, row: int) -> None:
        """Removes the pods of a row, whose NodeInfo is gone, from all sums and counts."""
        info = self._infos[row]
        if info is not None:
            self.requested.clear(row, info.requested)
        self.counts.clear(row)

    def _write_node(self, row: int, old: Node | None, node: Node) -> None:
        list.__setitem__(self._nodes, row, node)
        self._unschedulable[row] = node.spec.unschedulable
        self._write_stale(row, stale=isinstance(node, StaleNode))
        self._taints.set(row, without_times(node.spec.taints))
        self._features.set(row, frozenset(node.status.declared_features))
        self._write_labels(row, {} if old is None else old.metadata.labels, node.metadata.labels)
        if old is None or old.status.images != node.status.images:
            if old is not None:
                self._forget_images(row, old)
            self._write_images(row, node)

    def _write_stale(self, row: int, *, stale: bool) -> None:
        if stale != self._stale[row]:
            self._stale[row] = stale
            self.stale_nodes += 1 if stale else -1

    def _write_labels(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        if old == new:
            return
        for key in new.keys() - old.keys():
            if key not in self._nodes_with:
                self._nodes_with[key] = 0
                self._label_keys = None
            self._nodes_with[key] += 1
        for key in old.keys() - new.keys():
            self._nodes_with[key] -= 1
            if not self._nodes_with[key]:
                del self._nodes_with[key]
                self._label_keys = None
        for key, column in self._labels.items():
            column.set(row, new.get(key))
        if self._label_keys is None:
            for key in old.keys() - self._nodes_with.keys():
                self._labels.pop(key, None)

    def _write_images(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                column = self._images.get(name)
                if column is None:
                    column = self._images[name] = ImageColumn(len(self._pods), image.size_bytes)
                column.add(row)

    def _forget_images(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                column = self._images.get(name)
                if column is None:
                    continue
                column.remove(row)
                if not column.nodes:
                    del self._images[name]

    def _write_ports(self, row: int, info: NodeInfo, ports: Iterable[HostPort]) -> None:
        """Rewrites whether these ports are in use on a row."""
        written = self._ports_of.setdefault(row, set())
        for port in ports:
            number = (port.protocol, port.port)
            used = info.claims(port) > 0 and port not in info.freed_ports
            if used == (port in written):
                continue
            by_ip = self._ports.get(number)
            if by_ip is None:
                by_ip = self._ports[number] = {}
                self._lent_ports[number] = MappingProxyType(by_ip)
            column = by_ip.get(port.ip)
            if column is None:
                column = by_ip[port.ip] = PresenceColumn(len(self._pods))
            if used:
                written.add(port)
                column.add(row)
                continue
            written.remove(port)
            column.remove(row)
            if not column.nodes:
                del by_ip[port.ip]
                if not by_ip:
                    del self._ports[number], self._lent_ports[number]
        if not written:
            del self._ports_of[row]
