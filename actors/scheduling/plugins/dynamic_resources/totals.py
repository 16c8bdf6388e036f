"""The devices of each node that a class provides as an extended resource, counted for scores.

Every slice that serves a node counts, also one of a pool that cannot be used. Mirrors
calculateDRAResourceTotals of NodeResourcesFit.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from berth.plugin import DeviceClass, Ints, NodeView, ResourceClaim, ResourceSlice

from ...cel import CelError
from ...kube.core import Node
from ...model.columns import NodeColumns
from ...model.vectors import grown
from ..steps import STEPS_PER_SECOND, Steps, TimedOutError
from .extended import ClassesByResource
from .features import EVERY_FEATURE, Features
from .inventory import Inventory
from .pools import SliceDevice
from .requests import AllocationError
from .stale_rows import StaleRows

# The steps in a decision: a quarter of a second.
MOST_STEPS = STEPS_PER_SECOND // 4


class DeviceTotals:
    """The totals of devices by resource, kept until something changes. A plugin that uses them
    needs `LOOKUPS` among its lookups.
    """

    LOOKUPS = (ResourceClaim, ResourceSlice, DeviceClass)

    def __init__(self, features: Features = EVERY_FEATURE) -> None:
        self._features = replace(features, device_taint_rules=False)  # taints do not count
        self._classes = ClassesByResource()
        self._inventory: Inventory | None = None
        self._totals: dict[str, _Totals] = {}

    def in_place(self, resource: str, nodes: NodeView, have: Ints, used: Ints) -> tuple[Ints, Ints]:
        """Returns the amounts of the resource that nodes have, and the used amounts, both int64 for
        each position.

        If a node has no amount of it, and a device class provides the resource, its devices are
        counted instead. Raises UnlistedError.
        """
        objects = nodes.snapshot.objects
        device_class = self._classes.refresh(objects).get(resource)
        if device_class is None:
            return have, used
        if self._inventory is None or not self._inventory.is_of(objects):
            self._inventory = Inventory(objects, self._features)
            self._totals.clear()
        self._inventory.refresh()
        totals = self._totals.get(resource)
        if totals is None or not totals.is_of(device_class, nodes.columns):
            totals = _Totals(device_class, self._inventory, nodes.columns)
            self._totals[resource] = totals
        totals.settle(nodes)
        devices, allocated = totals.devices[nodes.rows], totals.allocated[nodes.rows]
        counted = (have == 0) & (devices > 0)
        return np.where(counted, devices, have), np.where(counted, allocated, used)


class _Totals:
    """The number of devices of a class by row, and the number of those that claims hold."""

    def __init__(
        self, device_class: DeviceClass, inventory: Inventory, columns: NodeColumns
    ) -> None:
        self._selectors = device_class.spec.selectors
        self._expressions = [
            selector.cel.expression for selector in self._selectors if selector.cel is not None
        ]
        self._inventory = inventory
        self._stale = StaleRows(inventory, columns)
        self.devices: Ints = np.zeros(columns.size, dtype=np.int64)
        self.allocated: Ints = np.zeros(columns.size, dtype=np.int64)

    def is_of(self, device_class: DeviceClass, columns: NodeColumns) -> bool:
        return self._stale.is_of(columns) and self._selectors == device_class.spec.selectors

    def settle(self, nodes: NodeView) -> None:
        """Counts stale rows again. If that takes long, the rest waits for the next decision."""
        steps = Steps(MOST_STEPS)
        self._stale.follow()
        if self._stale.size > len(self.devices):
            self.devices = grown(self.devices, self._stale.size)
            self.allocated = grown(self.allocated, self._stale.size)
        for position in self._stale.positions(nodes):
            node, row = nodes.node(position), nodes.row(position)
            if node is not None:
                try:
                    self.devices[row], self.allocated[row] = self._count(node, steps)
                except TimedOutError:
                    return
                self._stale.renewed(row)

    def _count(self, node: Node, steps: Steps) -> tuple[int, int]:
        """Returns the number of devices, and the number of those that claims hold; both are 0 if a
        selector of the class or of a slice fails.
        """
        try:
            ids = [
                device.id
                for device in self._inventory.devices(node)
                if self._selects(device, steps)
            ]
        except (AllocationError, CelError):
            return 0, 0
        return len(ids), sum(map(self._inventory.allocated_state.is_allocated, ids))

    def _selects(self, device: SliceDevice, steps: Steps) -> bool:
        return all(
            self._inventory.matches(expression, device, steps) for expression in self._expressions
        )
