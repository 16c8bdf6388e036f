"""Inventory: the devices of the cluster, and which of them claims hold.

It follows the changes of slices, of claims and of in-flight allocations. For each change it notes
the nodes for which the allocator may now decide differently; keeping up costs what changed, not the
size of the cluster. Mirrors the tracker of allocated devices and the allocator's lists of slices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from berth.plugin import ResourceClaim, ResourceSlice

from ...cel import CelError, selector
from ...kube.core import Node
from ...kube.devices import (
    Amount,
    Device,
    DeviceRequestAllocationResult,
    InFlightAllocation,
)
from ...model.change_log import ChangeLog
from ...model.cluster_objects import ClusterObjects, ObjectName
from ..steps import NO_LIMIT, Steps
from .allocated_state import AllocatedState, DeviceAllocation, device_allocations
from .consumed_capacity import CapacityAmount, consumed_capacity
from .features import EVERY_FEATURE, Features
from .pod_claims import extended_owner
from .pools import (
    CounterID,
    DeviceID,
    NodePools,
    Pool,
    PoolID,
    Slice,
    SliceDevice,
    devices_for,
    pools_of,
    slices_targeting,
    unreadable_pools,
)
from .requests import AllocationError, SubRequest

# How many results of selectors are kept, and how many capacities that requests consume.
MOST_MATCHES, MOST_CONSUMED = 1 << 20, 1 << 16
# The devices of different content that have a number.
MOST_CONTENTS = 1 << 16
# Steps to compute the consumed capacity, for each capacity of the device.
CAPACITY_STEPS = 10
_ENCODER = msgspec.msgpack.Encoder(enc_hook=dict, order="deterministic")
EVERY_NODE = ""
Results = tuple[DeviceRequestAllocationResult, ...]
# The results of an allocation, and what they keep from other claims.
Held = tuple[Results, frozenset[DeviceAllocation]]
_NOTHING: Held = ((), frozenset())
Requested = tuple[tuple[str, Amount], ...]
_NO_MATCHES: dict[int, bool | str] = {}
# The nodes of which something may be kept though they are gone.
MOST_GONE = 256


class Inventory:
    """The slices of the cluster with their devices, and the devices that claims hold. Owned by the
    plugin.

    `allocated_state` has the held devices. `changed` logs the names of the nodes for which the
    allocator's result may have changed, EVERY_NODE for all of them.
    """

    def __init__(self, objects: ClusterObjects, features: Features = EVERY_FEATURE) -> None:
        self._objects = objects
        self.features = features
        self.allocated_state = AllocatedState()
        self.changed: ChangeLog[str] = ChangeLog()
        self._slices: dict[str, Slice] = {}
        self._pools: dict[PoolID, dict[str, Slice]] = {}
        self._local: dict[str, dict[str, Slice]] = {}  # by node
        self._shared: dict[str, Slice] = {}
        self._contents: dict[bytes, int] = {}
        self._next_content = 0
        self._claims: dict[ObjectName, Held] = {}
        self._in_flight: dict[ObjectName, Held] = {}
        self._owner_of: dict[ObjectName, str] = {}
        self._extended_claims: dict[str, ObjectName] = {}
        self._holders: dict[DeviceAllocation, int] = {}  # the number of claims, and in flight
        self._node_pools: dict[str, tuple[Node, NodePools]] = {}
        # By the names of the slices, for nodes without slices of their own.
        self._alike: dict[tuple[str, ...], NodePools] = {}
        self._nodes_by_pool: dict[PoolID, set[str]] = {}  # as _nodes_of returns them
        self._counters: dict[tuple[PoolID, int], dict[CounterID, int]] = {}
        self._matches: dict[str, dict[int, bool | str]] = {}
        self._number_of_matches = 0
        self._consumed: dict[tuple[Requested, int], dict[str, CapacityAmount] | None] = {}
        self._versions = (-1, -1, -1)

    def is_of(self, objects: ClusterObjects) -> bool:
        return self._objects is objects

    # ----------------------------------------------------------------------------------- keeping up

    def refresh(self) -> None:
        """Takes in the changes. Raises UnlistedError if slices or claims are not known."""
        objects = self._objects
        versions = (
            objects.version(ResourceSlice),
            objects.version(ResourceClaim),
            objects.version(InFlightAllocation),
        )
        if versions == self._versions:
            return
        for kind in (ResourceSlice, ResourceClaim):
            objects.every(kind)  # All are known, or nothing is taken in.
        slices, claims, in_flight = self._versions
        if versions[0] != slices:
            for _, slice_name in self._names(ResourceSlice, slices, self._slice_names()):
                self._read_slice(slice_name)
        freed: list[DeviceAllocation] = []
        for name in self._names(InFlightAllocation, in_flight, self._in_flight):
            unwritten = objects.get(InFlightAllocation, name[1], name[0])
            results = () if unwritten is None else unwritten.results
            self._hold(self._in_flight, name, results, freed)
        for name in self._names(ResourceClaim, claims, self._claims):
            claim = objects.get(ResourceClaim, name[1], name[0])
            allocation = None if claim is None else claim.status.allocation
            results = () if allocation is None else allocation.devices.results
            self._hold(self._claims, name, results, freed)
            self._note_owner(name, claim)
        for device_allocation in freed:
            self._release(device_allocation)
        self._versions = versions

    def _note_owner(self, name: ObjectName, claim: ResourceClaim | None) -> None:
        """Notes the pod for whose extended resources the scheduler made the claim, if it did."""
        before = self._owner_of.get(name, "")
        owner = "" if claim is None else extended_owner(claim)
        if before == owner:
            return
        if before:
            del self._owner_of[name], self._extended_claims[before]
        if owner:
            self._owner_of[name] = owner
            self._extended_claims[owner] = name

    def extended_claim_of(self, uid: str) -> ResourceClaim | None:
        """Returns the claim that the scheduler made for the extended resources of the pod of this
        uid.
        """
        name = self._extended_claims.get(uid)
        return None if name is None else self._objects.get(ResourceClaim, name[1], name[0])

    def _slice_names(self) -> list[ObjectName]:
        return [("", name) for name in self._slices]

    def _names(
        self,
        kind: type[ResourceSlice | ResourceClaim | InFlightAllocation],
        version: int,
        earlier: Iterable[ObjectName],
    ) -> Iterable[ObjectName]:
        """Returns the names of the objects that may have changed since a version. `earlier` are
        those that existed then.
        """
        changed = None if version < 0 else self._objects.changes(kind).since(version)
        if changed is not None:
            return changed
        every = {
            (item.metadata.namespace, item.metadata.name) for item in self._objects.every(kind)
        }
        return every.union(earlier)

    def _read_slice(self, name: str) -> None:
        new = self._objects.get(ResourceSlice, name)
        old = self._slices.pop(name, None)
        if old is not None:
            if new is old.object:
                self._slices[name] = old
                return
            self._note_pool(old.pool)
            slices = self._pools[old.pool]
            del slices[name]
            if not slices:
                del self._pools[old.pool]
            if old.local:
                del self._local[str(old.object.spec.node_name)][name]
            self._shared.pop(name, None)
        if new is not None:
            slice_ = self._slices[name] = Slice(new, self._content_of, self.features)
            self._pools.setdefault(slice_.pool, {})[name] = slice_
            if slice_.local:
                self._local.setdefault(str(new.spec.node_name), {})[name] = slice_
            else:
                self._shared[name] = slice_
            self._note_pool(slice_.pool)

    def _content_of(self, driver: str, device: Device) -> int:
        """Returns the number of what selectors and policies see of a device."""
        seen = (driver, device.attributes, device.capacity, bool(device.allow_multiple_allocations))
        content = _ENCODER.encode(seen)
        number = self._contents.get(content)
        if number is None:
            if len(self._contents) >= MOST_CONTENTS:
                self._contents.clear()
            number = self._contents[content] = self._next_content
            self._next_content += 1
        return number

    def _note_pool(self, pool: PoolID) -> None:
        """Notes that the slices of a pool changed."""
        self._alike.clear()
        self._nodes_by_pool.pop(pool, None)
        for name in self._nodes_of(pool):
            if name == EVERY_NODE:
                self._node_pools.clear()
            else:
                self._node_pools.pop(name, None)
            self.changed.add(name)
        self._forget_counters(pool)

    def _nodes_of(self, pool: PoolID) -> set[str]:
        """Returns the nodes that see a pool, or EVERY_NODE if a slice serves more than one."""
        slices = self._pools.get(pool, {}).values()
        if any(not slice_.local for slice_ in slices):
            return {EVERY_NODE}
        return {str(slice_.object.spec.node_name) for slice_ in slices}

    def _forget_counters(self, pool: PoolID) -> None:
        if self._counters:
            for generation in [key for key in self._counters if key[0] == pool]:
                del self._counters[generation]

    def _hold(
        self,
        held: dict[ObjectName, Held],
        name: ObjectName,
        results: Results,
        freed: list[DeviceAllocation],
    ) -> None:
        """Notes what a claim holds now. What it no longer holds is `freed` after all claims are
        read, so that an allocation that is written, and no longer in flight, changes nothing.
        """
        earlier, before = held.get(name, _NOTHING)
        if earlier == results:
            return
        allocations = device_allocations(results)
        if results:
            held[name] = results, allocations
        else:
            del held[name]
        freed += before - allocations
        for allocation in allocations - before:
            number = self._holders[allocation] = self._holders.get(allocation, 0) + 1
            if number == 1:
                self.allocated_state.add(allocation)
                self._note_device(allocation.device)

    def _release(self, allocation: DeviceAllocation) -> None:
        self._holders[allocation] -= 1
        if not self._holders[allocation]:
            del self._holders[allocation]
            self.allocated_state.remove(allocation)
            self._note_device(allocation.device)

    def _note_device(self, device: DeviceID) -> None:
        """Notes that claims hold more or less of a device."""
        pool = device[:2]
        nodes = self._nodes_by_pool.get(pool)
        if nodes is None and pool in self._pools:
            nodes = self._nodes_by_pool[pool] = self._nodes_of(pool)
        for name in nodes or ():
            self.changed.add(name)
        self._forget_counters(pool)

    # ---------------------------------------------------------------------------- for the allocator

    def pools(self, node: Node) -> NodePools:
        """Returns the pools that a node can use."""
        name = node.metadata.name
        node_of, pools = self._node_pools.get(name, (None, None))
        if node_of is not node or pools is None:
            pools = self._read_pools(node)
            self._node_pools[name] = (node, pools)
        return pools

    def _read_pools(self, node: Node) -> NodePools:
        """Returns the pools of a node, the same object for nodes that see the same."""
        partitionable = self.features.partitionable_devices
        near = self._slices_near(node.metadata.name)
        try:
            slices = slices_targeting(node, near, partitionable=partitionable)
        except AllocationError as problem:
            return unreadable_pools(problem)
        alike = None
        if all(slice_.uniform for slice_ in slices):
            alike = tuple(slice_.object.metadata.name for slice_ in slices)
            pools = self._alike.get(alike)
            if pools is not None:
                return pools
        pools = pools_of(
            node,
            slices,
            lambda pool: [*self._pools[pool].values()],
            partitionable=partitionable,
        )
        if alike is not None:
            self._alike[alike] = pools
        return pools

    def forget_nodes(self, names: Collection[str]) -> None:
        """Forgets all nodes but those with these names, if there may be many others."""
        if len(self._node_pools) > 2 * len(names) + MOST_GONE:
            self._node_pools = {n: pools for n, pools in self._node_pools.items() if n in names}

    def _slices_near(self, node: str) -> tuple[Slice, ...]:
        """Returns the slices that may serve a node."""
        return (*self._local.get(node, {}).values(), *self._shared.values())

    def devices(self, node: Node) -> Iterator[SliceDevice]:
        """Yields the devices of all slices that serve a node, whatever the state of their pools.
        Raises AllocationError.
        """
        for slice_ in self._slices_near(node.metadata.name):
            yield from devices_for(slice_, node)

    def available_counters(self, pool: Pool) -> dict[CounterID, int]:
        """Returns how much claims leave of each counter of a pool, in billionths; it can be
        negative.
        """
        generation = (pool.id, pool.generation)
        available = self._counters.get(generation)
        if available is None:
            available = self._counters[generation] = dict(pool.counter_sets)
            for device in pool.all_devices:
                if device.counters and self.allocated_state.is_allocated(device.id):
                    for counter, amount in device.counters:
                        if counter in available:
                            available[counter] -= amount
        return available

    def consumed_capacity(
        self, sub_request: SubRequest, device: SliceDevice, steps: Steps
    ) -> dict[str, CapacityAmount] | None:
        """Returns the capacity that a sub-request consumes of a device; None if it cannot."""
        request = sub_request.capacity, device.content
        try:
            return self._consumed[request]
        except KeyError:
            if len(self._consumed) >= MOST_CONSUMED:
                self._consumed.clear()
            capacity = device.device.capacity
            steps.take(CAPACITY_STEPS * len(capacity))
            consumed = consumed_capacity(capacity, dict(sub_request.capacity))
            self._consumed[request] = consumed
            return consumed

    def matches(self, expression: str, device: SliceDevice, steps: Steps = NO_LIMIT) -> bool:
        """True if a selector accepts the device. Raises CelError, also if it does not compile, and
        TimedOutError if it has to be evaluated and no steps are left.
        """
        matches = self._matches.get(expression, _NO_MATCHES)
        match = matches.get(device.content)
        if match is None:
            match = self._matches_of(expression)[device.content] = self._match(
                expression, device, steps
            )
        if isinstance(match, str):
            raise CelError(match)
        return match

    def _matches_of(self, expression: str) -> dict[int, bool | str]:
        """Returns the results that are kept of a selector, to add one."""
        self._number_of_matches += 1
        while self._number_of_matches > MOST_MATCHES:
            dropped = self._matches.pop(next(iter(self._matches)))
            self._number_of_matches -= len(dropped)
        return self._matches.setdefault(expression, {})

    def _match(self, expression: str, device: SliceDevice, steps: Steps) -> bool | str:
        """Returns a selector's result, or its error. Raises TimedOutError if no steps are left."""
        steps.spend(0)
        spent: list[int] = []
        try:
            return self._evaluate(expression, device, spent.append)
        except CelError as failure:
            return sys.intern(str(failure))
        finally:
            steps.take(sum(spent))

    @staticmethod
    def _evaluate(expression: str, device: SliceDevice, spend: Callable[[int], None]) -> bool:
        compiled = selector(expression, spend)
        if compiled.error:
            raise CelError(f"CEL compile error: {compiled.error}")
        try:
            return compiled.matches(device.id[0], device.device, spend)
        except CelError as failure:
            raise CelError(f"CEL runtime error: {failure}") from None
