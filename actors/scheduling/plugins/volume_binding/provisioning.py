"""Where new volumes of a class can be made, and where there is room for them.

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
    """bool[nodes.size]: the nodes that one of a class's allowedTopologies matches; None for all."""
    if not terms:
        return None
    matched = np.zeros(nodes.size, dtype=np.bool_)
    for term in terms:
        if not term.match_label_expressions:
            continue
        here = np.ones(nodes.size, dtype=np.bool_)
        for wanted in term.match_label_expressions:
            here &= select_rows(nodes, wanted.key, "In", wanted.values)
        matched |= here
    return matched


class Room(msgspec.Struct, frozen=True):
    """The largest volume, in bytes, that can be made where the topology matches."""

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
            wanted = room.topology.requirements
            if len(wanted) == 1 and wanted[0].operator == "In" and len(wanted[0].values) == 1:
                place = wanted[0].key, wanted[0].values[0]
                most[place] = max(most.get(place, 0), room.limit)
            else:
                self._others.append(room)
        for (label, text), limit in most.items():
            self._by_label.setdefault(label, LabelNumbers(label)).set(text, limit)

    def has(self, size: int, nodes: NodeView) -> Bools:
        enough = np.zeros(nodes.size, dtype=np.bool_)
        for limits in self._by_label.values():
            found = limits.of(nodes)
            enough |= (found >= size) & (found != NONE)
        for room in self._others:
            if room.limit >= size:
                here = np.ones(nodes.size, dtype=np.bool_)
                for wanted in room.topology.requirements:
                    here &= select_rows(nodes, wanted.key, wanted.operator, wanted.values)
                enough |= here
        return enough


def largest_volume(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume, in bytes, that can be made; None if the object names no amount."""
    amount = capacity.maximum_volume_size
    if amount is None:
        amount = capacity.capacity
    return None if amount is None else value(amount)


def _room_of(capacity: CSIStorageCapacity) -> Room | None:
    """None if the object gives no room: without a topology, or without an amount."""
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
        """bool[nodes.size]: the nodes where the class has room for the claim; None for all."""
        if not self._is_limited(objects, storage_class, claim):
            return None
        room = self._room(objects, storage_class)
        return room.has(value(claim.spec.resources.requests["storage"]), nodes)

    def chosen(
        self,
        objects: ClusterObjects,
        storage_class: StorageClass,
        claim: PersistentVolumeClaim,
        node: Node,
    ) -> CSIStorageCapacity | None:
        """The first object that has enough room for the claim on the node; None if the room is not
        limited.
        """
        if not self._is_limited(objects, storage_class, claim):
            return None
        size = value(claim.spec.resources.requests["storage"])
        for room in self._room(objects, storage_class).rooms:
            if room.limit >= size and room.topology.matches(node.metadata.labels):
                return room.capacity
        return None

    def reported(
        self, objects: ClusterObjects, storage_class: StorageClass, claim: PersistentVolumeClaim
    ) -> Sequence[Room] | None:
        """The room for volumes of the class, by name; None if the room is not limited."""
        if not self._is_limited(objects, storage_class, claim):
            return None
        return self._room(objects, storage_class).rooms

    @staticmethod
    def _is_limited(
        objects: ClusterObjects, storage_class: StorageClass, claim: PersistentVolumeClaim
    ) -> bool:
        if "storage" not in claim.spec.resources.requests:
            return False
        driver = objects.get(CSIDriver, storage_class.provisioner)
        return driver is not None and bool(driver.spec.storage_capacity)

    def _room(self, objects: ClusterObjects, storage_class: StorageClass) -> _ClassRoom:
        version = objects.version(CSIStorageCapacity)
        if self._objects is not objects or self._version != version:
            self._objects, self._version, self._classes = objects, version, {}
        name = storage_class.metadata.name
        room = self._classes.get(name)
        if room is None:
            found = [c for c in objects.every(CSIStorageCapacity) if c.storage_class_name == name]
            found.sort(key=lambda one: (one.metadata.namespace, one.metadata.name))
            room = self._classes[name] = _ClassRoom(found)
        return room
