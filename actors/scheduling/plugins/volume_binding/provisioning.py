"""The nodes for which a class can make volumes, and the room for them.

The room that drivers report is sorted by the label values of its topology once, and again only what
changes. Mirrors checkVolumeProvisions and hasEnoughCapacity.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec
import numpy as np

from berth.plugin import Bools, Ints, NodeView, Snapshot

from ...kube.core import Node
from ...kube.labels import Requirement, Selector, SelectorError, from_label_selector
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
from .selected_nodes import SelectedNodes, Selection

MOST_SIZES = 64


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
    """The room in a topology. `limit` is the size of the largest volume, in bytes."""

    limit: int
    topology: Selector
    capacity: CSIStorageCapacity


# Steps to read a report of room, and for each requirement in its topology; two values take one.
ROOM_STEPS, REQUIREMENT_STEPS, VALUES_PER_STEP = 20, 4, 2
# The namespace and the name of a CSIStorageCapacity.
ObjectName = tuple[str, str]


class _ClassRoom:
    """The room for volumes of one class, by the object that reports it."""

    def __init__(self, selected: SelectedNodes) -> None:
        self._selected = selected
        self._rooms: dict[ObjectName, Room] = {}
        # By label and value, the room of topologies that demand just that, with the largest one.
        self._by_label: dict[str, dict[str, dict[ObjectName, Room]]] = {}
        self._largest: dict[str, LabelNumbers] = {}
        self._others: dict[ObjectName, tuple[Room, Selection]] = {}
        self._listed: tuple[list[Room], Ints, Ints] | None = None  # the others: slots and limits
        # By size, where one of the others is large enough.
        self._enough: tuple[int, dict[int, Bools]] = (0, {})

    @property
    def rooms(self) -> Sequence[Room]:
        """The room in the order of the objects' names."""
        return [self._rooms[name] for name in sorted(self._rooms)]

    def put(self, name: ObjectName, room: Room) -> None:
        """Adds the room that an object reports. It must not be here yet."""
        self._rooms[name] = room
        demand = _label_value(room.topology)
        if demand is None:
            demands = room.topology.requirements
            labels = dict.fromkeys(each.key for each in demands)
            match = partial(_match, demands)
            self._others[name] = room, self._selected.add(match, [*labels], _steps(room.topology))
            self._listed = None
        else:
            label, value = demand
            self._by_label.setdefault(label, {}).setdefault(value, {})[name] = room
            self._set_largest(label, value)

    def drop(self, name: ObjectName) -> None:
        """Removes the room that an object reported, if it is here."""
        room = self._rooms.pop(name, None)
        if room is None:
            return
        demand = _label_value(room.topology)
        if demand is None:
            self._selected.drop(self._others.pop(name)[1])
            self._listed = None
        else:
            label, value = demand
            del self._by_label[label][value][name]
            self._set_largest(label, value)
            if not self._by_label[label][value]:
                del self._by_label[label][value]

    def _set_largest(self, label: str, value: str) -> None:
        limits = [room.limit for room in self._by_label[label][value].values()]
        numbers = self._largest.setdefault(label, LabelNumbers(label))
        numbers.set(value, max(limits, default=NONE))

    def has(self, size: int, nodes: NodeView) -> Bools:
        """Returns bool[nodes.size]: the nodes with room for a volume of this size."""
        enough = np.zeros(nodes.size, dtype=np.bool_)
        for limits in self._largest.values():
            largest = limits.of(nodes)
            enough |= (largest >= size) & (largest != NONE)
        if self._others:
            enough |= self._nodes_of_topologies(size, nodes.snapshot)[nodes.rows]
        return enough

    def _nodes_of_topologies(self, size: int, snapshot: Snapshot) -> Bools:
        """Returns bool[rows]: the nodes with such room in a topology that demands anything but a
        single value of a label.
        """
        _, slots, limits = self._list_others(snapshot)
        version, by_size = self._enough
        if version != self._selected.version or len(by_size) >= MOST_SIZES:
            by_size = {}
            self._enough = self._selected.version, by_size
        rows = by_size.get(size)
        if rows is None:
            large = slots[limits >= size]
            rows = by_size[size] = self._selected.any_of(large, len(snapshot.columns.pods))
        return rows

    def _list_others(self, snapshot: Snapshot) -> tuple[list[Room], Ints, Ints]:
        deque(self._selected.follow(snapshot), maxlen=0)
        if self._listed is None:
            others = [self._others[name] for name in sorted(self._others)]
            slots = np.array([selection.slot for _, selection in others], dtype=np.int64)
            limits = np.array([room.limit for room, _ in others], dtype=np.int64)
            self._listed = [room for room, _ in others], slots, limits
            self._enough = (0, {})
        return self._listed

    def first(self, size: int, snapshot: Snapshot, node: Node) -> Room | None:
        """Returns the first room, by the name of its object, for a volume of this size on a node;
        None if there is none.
        """
        rooms = [
            room
            for label, values in self._by_label.items()
            for room in values.get(node.metadata.labels.get(label, ""), {}).values()
            if label in node.metadata.labels
        ]
        if self._others:
            others, slots, _ = self._list_others(snapshot)
            row = snapshot.columns.row_of[node.metadata.name]
            rooms += [others[place] for place in self._selected.at(slots, row).tolist()]
        large = (room for room in rooms if room.limit >= size)
        return min(large, key=lambda room: _name_of(room.capacity), default=None)


def _match(demands: Sequence[Requirement], nodes: NodeView) -> Bools:
    """Returns bool[nodes.size]: the nodes that meet all of these demands."""
    here = np.ones(nodes.size, dtype=np.bool_)
    for demand in demands:
        here &= select_rows(nodes, demand.key, demand.operator, demand.values)
    return here


def _label_value(topology: Selector) -> tuple[str, str] | None:
    """Returns the label and its value, if the topology demands a single one; otherwise None."""
    if len(topology.requirements) != 1:
        return None
    (demand,) = topology.requirements
    if demand.operator != "In" or len(demand.values) != 1:
        return None
    return demand.key, demand.values[0]


def _steps(topology: Selector) -> int:
    """Returns the steps to read a topology, or to match it with nodes."""
    values = sum(len(demand.values) for demand in topology.requirements)
    return REQUIREMENT_STEPS * len(topology.requirements) + values // VALUES_PER_STEP


def _name_of(capacity: CSIStorageCapacity) -> ObjectName:
    return capacity.metadata.namespace, capacity.metadata.name


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
    """The room that CSI drivers report in CSIStorageCapacity objects.

    Invariant: after `follow` it is that of the CSIStorageCapacities among the cluster's objects.
    """

    def __init__(self) -> None:
        self._selected = SelectedNodes()
        self._objects: ClusterObjects | None = None
        self._version = 0
        self._clear()

    def _clear(self) -> None:
        self._selected = SelectedNodes()
        self._changed: dict[ObjectName, None] = {}  # what `follow` still has to read
        self._classes: dict[str, _ClassRoom] = {}
        self._class_of: dict[ObjectName, str] = {}

    def follow(self, objects: ClusterObjects) -> Iterator[int]:
        """Reads the objects that changed since the last call. Yields the steps after each one."""
        log = objects.changes(CSIStorageCapacity)
        if self._objects is not objects or self._version != log.version:
            changed = log.since(self._version) if self._objects is objects else None
            if changed is None:
                names = [_name_of(capacity) for capacity in objects.every(CSIStorageCapacity)]
                self._clear()
            else:
                names = [*changed]
            self._changed.update(dict.fromkeys(names))
            self._objects, self._version = objects, log.version
        while self._changed:
            name = next(iter(self._changed))
            capacity = objects.get(CSIStorageCapacity, name[1], name[0])
            steps = self._replace(name, capacity)
            del self._changed[name]
            yield steps

    def follow_all(self, snapshot: Snapshot) -> Iterator[int]:
        """Updates the room, and the nodes that have it. Yields the steps after each part."""
        yield from self.follow(snapshot.objects)
        yield from self._selected.follow(snapshot)

    def _replace(self, name: ObjectName, capacity: CSIStorageCapacity | None) -> int:
        """Stores the present state of an object, None if it is deleted. Returns the steps."""
        before = self._class_of.pop(name, None)
        if before is not None:
            self._classes[before].drop(name)
        room = None if capacity is None else _room_of(capacity)
        if room is None:
            return ROOM_STEPS
        storage_class = room.capacity.storage_class_name
        self._class_of[name] = storage_class
        if storage_class not in self._classes:
            self._classes[storage_class] = _ClassRoom(self._selected)
        self._classes[storage_class].put(name, room)
        return ROOM_STEPS + _steps(room.topology)

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
        snapshot: Snapshot,
        storage_class: StorageClass,
        claim: PersistentVolumeClaim,
        node: Node,
    ) -> CSIStorageCapacity | None:
        """Returns the first object that has enough room for the claim on the node; None if the room
        is not limited.
        """
        of_class = self._room(snapshot.objects, storage_class, claim)
        if of_class is None:
            return None
        size = value(claim.spec.resources.requests["storage"])
        room = of_class.first(size, snapshot, node)
        return None if room is None else room.capacity

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
        deque(self.follow(objects), maxlen=0)
        name = storage_class.metadata.name
        if name not in self._classes:
            self._classes[name] = _ClassRoom(self._selected)
        return self._classes[name]
