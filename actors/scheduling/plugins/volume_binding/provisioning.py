"""The nodes for which volumes of a class can be made, and the room for such volumes.

The room that drivers report is sorted by the label values of its topology once, and again only when
it changes. Mirrors checkVolumeProvisions and hasEnoughCapacity.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from berth.plugin import Bools, NodeView

from ...kube.core import Node
from ...kube.labels import Selector, SelectorError, from_label_selector
from ...kube.quantity import value
from ...kube.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from ...model.cluster_objects import ClusterObjects
from ...model.node_selection import select_rows
from .label_numbers import NONE, LabelNumbers


def in_topology(terms: Sequence[TopologySelectorTerm], nodes: NodeView) -> Bools | None:
    """Returns bool[nodes.size]: the nodes that any of the terms matches; None for all."""
    if not terms:
        return None
    matched = np.zeros(nodes.size, dtype=np.bool_)
    for term in terms:
        if not term.match_label_expressions:
            continue
        here = np.ones(nodes.size, dtype=np.bool_)
        for requirement in term.match_label_expressions:
            here &= select_rows(nodes, requirement.key, "In", requirement.values)
        matched |= here
    return matched


class Room(msgspec.Struct, frozen=True):
    """Room where the topology matches; `limit` is the size of the largest volume, in bytes."""

    limit: int
    topology: Selector
    capacity: CSIStorageCapacity


class _ClassRoom:
    """The room for volumes of one class."""

    def __init__(self, capacities: Sequence[CSIStorageCapacity]) -> None:
        self.rooms: list[Room] = []
        self._by_label: dict[str, LabelNumbers] = {}
        self._others: list[Room] = []
        most: dict[tuple[str, str], int] = {}
        for capacity in capacities:
            room = _room_of(capacity)
            if room is None:
                continue
            self.rooms.append(room)
            demands = room.topology.requirements
            if len(demands) == 1 and demands[0].operator == "In" and len(demands[0].values) == 1:
                place = demands[0].key, demands[0].values[0]
                most[place] = max(most.get(place, 0), room.limit)
            else:
                self._others.append(room)
        for (label, text), limit in most.items():
            self._by_label.setdefault(label, LabelNumbers(label)).set(text, limit)

    def has(self, size: int, nodes: NodeView) -> Bools:
        enough = np.zeros(nodes.size, dtype=np.bool_)
        for limits in self._by_label.values():
            largest = limits.of(nodes)
            enough |= (largest >= size) & (largest != NONE)
        for room in self._others:
            if room.limit >= size:
                here = np.ones(nodes.size, dtype=np.bool_)
                for demand in room.topology.requirements:
                    here &= select_rows(nodes, demand.key, demand.operator, demand.values)
                enough |= here
        return enough


def largest_volume(capacity: CSIStorageCapacity) -> int | None:
    """Returns the largest size of a volume in bytes; None if the object names none."""
    amount = capacity.maximum_volume_size
    if amount is None:
        amount = capacity.capacity
    return None if amount is None else value(amount)


def _room_of(capacity: CSIStorageCapacity) -> Room | None:
    """Returns the room that an object reports; None without a topology or an amount."""
    largest = largest_volume(capacity)
    if largest is None or capacity.node_topology is None:
        return None
    try:
        topology = from_label_selector(capacity.node_topology)
    except SelectorError:
        return None
    return Room(max(largest, 0), topology, capacity)


class Capacities:
    """The room that CSI drivers report in CSIStorageCapacity objects."""

    def __init__(self) -> None:
        self._objects: ClusterObjects | None = None
        self._version = -1
        self._classes: dict[str, _ClassRoom] = {}

    def enough(
        self,
        objects: ClusterObjects,
        storage_class: StorageClass,
        claim: PersistentVolumeClaim,
        nodes: NodeView,
    ) -> Bools | None:
        """Returns bool[nodes.size]: the nodes with room for the claim; None for all."""
        room = self._room(objects, storage_class, claim)
        if room is None:
            return None
        return room.has(value(claim.spec.resources.requests["storage"]), nodes)

    def chosen(
        self,
        objects: ClusterObjects,
        storage_class: StorageClass,
        claim: PersistentVolumeClaim,
        node: Node,
    ) -> CSIStorageCapacity | None:
        """Returns the first object that has enough room for the claim on the node; None if the room
        is not limited.
        """
        size = value(claim.spec.resources.requests.get("storage", 0))
        for room in self.reported(objects, storage_class, claim) or ():
            if room.limit >= size and room.topology.matches(node.metadata.labels):
                return room.capacity
        return None

    def reported(
        self, objects: ClusterObjects, storage_class: StorageClass, claim: PersistentVolumeClaim
    ) -> Sequence[Room] | None:
        """Returns the room for volumes of the class, by name; None if it is not limited."""
        room = self._room(objects, storage_class, claim)
        return None if room is None else room.rooms

    def _room(
        self, objects: ClusterObjects, storage_class: StorageClass, claim: PersistentVolumeClaim
    ) -> _ClassRoom | None:
        """Returns the room for volumes of the class; None if it is not limited."""
        if "storage" not in claim.spec.resources.requests:
            return None
        driver = objects.get(CSIDriver, storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return None
        version = objects.version(CSIStorageCapacity)
        if self._objects is not objects or self._version != version:
            self._objects, self._version, self._classes = objects, version, {}
        name = storage_class.metadata.name
        room = self._classes.get(name)
        if room is None:
            reports = [c for c in objects.every(CSIStorageCapacity) if c.storage_class_name == name]
            reports.sort(key=lambda report: (report.metadata.namespace, report.metadata.name))
            room = self._classes[name] = _ClassRoom(reports)
        return room
