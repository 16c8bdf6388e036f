"""NodeRoom: how many more volumes each node can attach, by driver, kept up to date.

A row is counted again when a pod that attaches volumes comes or leaves, also in a what-if question,
and when an object changes on which the count depends. The cost of a count depends on the volumes
attached to the node; the cost of an update depends on the changes. Invariant: after `refresh`, the
answers for the rows of the view equal a new count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

import msgspec
import numpy as np

from berth.plugin import (
    Bools,
    CSINode,
    Ints,
    NodeView,
    PersistentVolume,
    PersistentVolumeClaim,
    PodInfo,
    Snapshot,
    Status,
    StorageClass,
    VolumeAttachment,
)

from ...kube.meta import HasMetadata
from ...model.cluster_objects import ObjectName
from ...model.columns import PresenceColumn
from ...model.vectors import any_true, grown
from .attachments import Attachments
from .limits import limits_of
from .volumes import ClaimedVolume, attached_by, claimed_volume

_KINDS: tuple[type[HasMetadata], ...] = (
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CSINode,
    VolumeAttachment,
)
NO_LIMIT = 1 << 40  # more than any node can attach
K = TypeVar("K", bound=Hashable)
_STALE = -1  # the count of changes of a row that must be counted anew


class _PodVolumes(msgspec.Struct):
    """The drivers of a pod's volumes, by the volume's name, or the problem because of which they
    cannot be counted. `held` are the pod's claims and the names of its volumes.
    """

    info: PodInfo
    held: dict[Hashable, None] = {}
    volumes: dict[str, str] = {}
    problem: str = ""


class _Row(msgspec.Struct):
    """The inputs of the count of a row. `held` has the claims and volumes of all pods."""

    node: str = ""
    csi_node: CSINode | None = None
    limits: dict[str, int] = {}
    installed: tuple[str, ...] = ()
    pods: dict[str, _PodVolumes] = {}
    held: dict[Hashable, None] = {}


_EMPTY = _Row()


class NodeRoom:
    """The room by driver and row. `room[driver]` has how many more volumes fit, NO_LIMIT where the
    driver has no limit. `problems` are the errors of rows whose volumes cannot be counted.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.columns = snapshot.columns
        self.room: dict[str, Ints] = {}
        self._installed: dict[str, PresenceColumn] = {}
        self.problems: dict[int, str] = {}
        self._objects = snapshot.objects
        self._logs = [(kind, snapshot.objects.changes(kind)) for kind in _KINDS]
        self._versions = [log.version for _, log in self._logs]
        self._nodes_version = self.columns.node_changes.version
        size = len(self.columns.counts.volume_changes)
        self._counted: Ints = np.full(size, _STALE, dtype=np.int64)
        # The smallest limit of a row's drivers, minus the number of its VolumeAttachments.
        self._least: Ints = np.full(size, NO_LIMIT, dtype=np.int64)
        self._with_csi_node: Bools = np.zeros(size, dtype=np.bool_)
        self._rows: dict[int, _Row] = {}
        self._holders: dict[Hashable, PresenceColumn] = {}
        self._claims: dict[ObjectName, ClaimedVolume | None] = {}
        self._readers: dict[tuple[type[HasMetadata], str], dict[ObjectName, None]] = {}
        self._attachments = Attachments(snapshot.objects)

    # -------------------------------------------------------------------------------------- reading

    def is_of(self, snapshot: Snapshot) -> bool:
        return self.columns is snapshot.columns and self._objects is snapshot.objects

    def with_csi_node(self, nodes: NodeView) -> Bools:
        """Returns bool[nodes.size]: the nodes that have a CSINode."""
        return self._with_csi_node[nodes.rows]

    def installs(self, driver: str, nodes: NodeView) -> Bools:
        """Returns bool[nodes.size]: the nodes whose CSINode lists the driver."""
        installed = self._installed.get(driver)
        if installed is None:
            return np.zeros(nodes.size, dtype=np.bool_)
        return installed.present[nodes.rows]

    def holding(self, volume: str, nodes: NodeView) -> Bools | None:
        """Returns bool[nodes.size]: the limited nodes with a pod that attaches the volume of this
        name; None if there is none.
        """
        holders = self._holders.get(volume)
        return None if holders is None else holders.present[nodes.rows]

    # -------------------------------------------------------------------------------------- writing

    def refresh(self, nodes: NodeView, number: int = NO_LIMIT) -> bool:
        """Counts the rows of a view on which something changed. False if so much changed that a new
        NodeRoom is needed.

        A row that certainly has room for this number of volumes is not counted: the least room that
        it can have is kept for it.
        """
        if not (self._follow_nodes() and self._follow_objects()):
            return False
        changes = self.columns.counts.volume_changes[nodes.rows]
        stale = changes != self._counted[nodes.rows]
        if any_true(stale):
            rows = np.arange(self.columns.size)[nodes.rows][stale]
            for row in self._rows_to_count(rows, number).tolist():
                self._count(row)
        return True

    def _rows_to_count(self, rows: Ints, number: int) -> Ints:
        """Returns those of the changed rows whose room may be too little, and which must be
        counted.
        """
        if self.problems:
            return rows  # The problem of a row may be gone.
        least = self._least[rows] - self.columns.counts.most_volumes[rows]
        roomy = (least >= number) & (self._counted[rows] != _STALE)
        if any_true(roomy):
            spared, least = rows[roomy], least[roomy]
            for room in self.room.values():
                room[spared] = np.where(room[spared] == NO_LIMIT, NO_LIMIT, least)
        return np.asarray(rows[~roomy])

    def _follow_nodes(self) -> bool:
        """Marks the rows that now belong to another node. False if too much changed."""
        columns = self.columns
        if len(self._counted) < len(columns.counts.volume_changes):
            self._grow(len(columns.counts.volume_changes))
        if self._nodes_version != columns.node_changes.version:
            changed = columns.node_changes.since(self._nodes_version)
            if changed is None:
                return False
            self._nodes_version = columns.node_changes.version
            for row in changed:
                if self._rows.get(row, _EMPTY).node != columns.names[row]:
                    self._counted[row] = _STALE
        return True

    def _follow_objects(self) -> bool:
        """Marks the rows whose counts depend on a changed object. False if too much changed."""
        changed: dict[type[HasMetadata], set[ObjectName]] = {}
        for i, (kind, log) in enumerate(self._logs):
            if log.version == self._versions[i]:
                continue
            names = log.since(self._versions[i])
            if names is None:
                return False
            changed[kind] = names
            self._versions[i] = log.version
        if not changed:
            return True
        claims = {
            name: None for name in changed.get(PersistentVolumeClaim, ()) if name in self._claims
        }
        for kind in (PersistentVolume, StorageClass):
            for _, name in changed.get(kind, ()):
                claims |= self._readers.get((kind, name), {})
        for claim in claims:
            self._read_claim_again(claim)
        nodes = [name for _, name in changed.get(CSINode, ())]
        nodes += self._attachments.follow(
            [name for _, name in changed.get(VolumeAttachment, ())],
            [name for _, name in changed.get(PersistentVolume, ())],
        )
        for node in nodes:
            row = self.columns.row_of.get(node)
            if row is not None:
                self._counted[row] = _STALE
        return True

    def _grow(self, rows: int) -> None:
        self._counted = grown(self._counted, rows, _STALE)
        self._least = grown(self._least, rows, NO_LIMIT)
        self._with_csi_node = grown(self._with_csi_node, rows)
        self.room = {driver: grown(room, rows, NO_LIMIT) for driver, room in self.room.items()}
        for column in (*self._installed.values(), *self._holders.values()):
            column.grow(rows)

    # ---------------------------------------------------------------------------------------- a row

    def _count(self, row: int) -> None:
        before = self._rows.get(row, _EMPTY)
        now = self._row_of(self.columns.names[row], before)
        pods = before.pods if self._counted[row] != _STALE else {}
        self.problems.pop(row, None)
        volumes: dict[str, str] = {}
        attaching = self.columns.counts.attaching.get(row, {}) if now.limits else {}
        for key, info in attaching.items():
            pod_volumes = pods.get(key)
            if pod_volumes is None or pod_volumes.info is not info:
                pod_volumes = self._volumes_of(info)
            now.pods[key] = pod_volumes
            now.held.update(pod_volumes.held)
            volumes.update(pod_volumes.volumes)
            if pod_volumes.problem:
                self.problems.setdefault(row, pod_volumes.problem)
        self._replace(row, before, now)
        self._least[row] = NO_LIMIT
        if now.limits:
            attached = self._attachments.on(now.node)
            self._least[row] = min(now.limits.values()) - len(attached)
            number = Counter((attached | volumes).values())
            for driver, limit in now.limits.items():
                self.room[driver][row] = limit - number[driver]
        self._counted[row] = self.columns.counts.volume_changes[row]

    def _row_of(self, name: str, before: _Row) -> _Row:
        """Returns an empty row for this node, without its pods."""
        csi_node = self._objects.get(CSINode, name) if name else None
        if csi_node is before.csi_node:
            return _Row(name, csi_node, before.limits, before.installed)
        drivers = () if csi_node is None else csi_node.spec.drivers
        limits = {} if csi_node is None else limits_of(csi_node)
        installed = tuple(dict.fromkeys(driver.name for driver in drivers))
        return _Row(name, csi_node, limits, installed)

    def _volumes_of(self, info: PodInfo) -> _PodVolumes:
        pod_volumes = _PodVolumes(info)

        def find(claim: ObjectName) -> ClaimedVolume | None:
            pod_volumes.held[claim] = None
            return self._claims[claim] if claim in self._claims else self._read_claim(claim)

        attached = attached_by(info, find, has_csi_node=True, new=False)
        if isinstance(attached, Status):
            pod_volumes.problem = attached.message
        else:
            pod_volumes.volumes = attached
            pod_volumes.held.update(dict.fromkeys(attached))
        return pod_volumes

    def _replace(self, row: int, before: _Row, now: _Row) -> None:
        """Updates the indexes for a row that changed from `before` to `now`."""
        self._rows[row] = now
        if before.csi_node is not now.csi_node:
            self._with_csi_node[row] = now.csi_node is not None
            for driver in before.limits:
                self.room[driver][row] = NO_LIMIT
            for driver in now.limits:
                if driver not in self.room:
                    self.room[driver] = np.full(len(self._counted), NO_LIMIT, dtype=np.int64)
            _move_row(self._installed, row, before.installed, now.installed, len(self._counted))
        gone = before.held.keys() - now.held.keys()
        come = now.held.keys() - before.held.keys()
        _move_row(self._holders, row, gone, come, len(self._counted))
        for key in gone:
            if isinstance(key, tuple) and key not in self._holders:
                self._forget(key)

    # --------------------------------------------------------------------------------------- claims

    def _read_claim(self, name: ObjectName) -> ClaimedVolume | None:
        volume = self._claims[name] = claimed_volume(self._objects, name)
        for read in () if volume is None else volume.read:
            self._readers.setdefault(read, {})[name] = None
        return volume

    def _forget(self, name: ObjectName) -> ClaimedVolume | None:
        volume = self._claims.pop(name)
        for read in () if volume is None else volume.read:
            readers = self._readers[read]
            del readers[name]
            if not readers:
                del self._readers[read]
        return volume

    def _read_claim_again(self, name: ObjectName) -> None:
        """Reads a claim again. If its volume has changed, marks the rows that hold it."""
        before = self._forget(name)
        if self._read_claim(name) != before:
            self._counted[self._holders[name].present] = _STALE


def _move_row(
    index: dict[K, PresenceColumn], row: int, gone: Iterable[K], come: Iterable[K], rows: int
) -> None:
    """Moves a row from the columns of the keys in `gone` to those of the keys in `come`."""
    for key in gone:
        index[key].remove(row)
        if not index[key].nodes:
            del index[key]
    for key in come:
        column = index.get(key)
        if column is None:
            column = index[key] = PresenceColumn(rows)
        column.add(row)
