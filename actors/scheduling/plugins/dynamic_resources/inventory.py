"""Inventory: the devices of the cluster, and which of them claims hold.

It follows the changes of slices, of the rules that taint devices, of claims and of in-flight
allocations. For each change it notes the nodes for which the allocator may now decide differently;
keeping up costs what changed, not the size of the cluster. Mirrors the tracker of allocated devices
and the allocator's lists of slices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from berth.plugin import ResourceClaim, ResourceSlice

from ...kube.devices import DeviceTaintRule, InFlightAllocation
from ...model.change_log import ChangeLog
from ...model.cluster_objects import ClusterObjects, ObjectName
from .allocated_state import AllocatedState
from .device_answers import DeviceAnswers
from .features import EVERY_FEATURE, Features
from .held_devices import HeldDevices, Results
from .pools import CounterID, Pool, PoolID
from .slices import Slices
from .taint_rules import TaintRules


class Inventory:
    """The slices of the cluster with their devices, and the devices that claims hold. Owned by the
    plugin.

    `allocated_state` has the held devices. `changed` logs the names of the nodes for which the
    allocator's result may have changed, EVERY_NODE for all of them.
    """

    def __init__(self, objects: ClusterObjects, features: Features = EVERY_FEATURE) -> None:
        self._objects = objects
        self.features = features
        self.changed: ChangeLog[str] = ChangeLog()
        self._held = HeldDevices()
        self.allocated_state = self._held.allocated_state
        self._counters = Counters(self.allocated_state)
        self.available_counters = self._counters.available
        answers = DeviceAnswers(features)
        self.matches, self.consumed_capacity = answers.matches, answers.consumed_capacity
        self._slices = slices = Slices(answers.content_of, features)
        self.pools, self.devices, self.forget_nodes = (
            slices.pools,
            slices.devices,
            slices.forget_nodes,
        )
        self._rules = TaintRules()
        self._versions = (-1, -1, -1, -1)

    def is_of(self, objects: ClusterObjects) -> bool:
        return self._objects is objects

    def refresh(self) -> None:
        """Takes in the changes. Raises UnlistedError if slices, claims or rules are not known."""
        objects, held, by_rules = self._objects, self._held, self.features.device_taint_rules
        versions = (
            objects.version(ResourceSlice),
            objects.version(ResourceClaim),
            objects.version(InFlightAllocation),
            objects.version(DeviceTaintRule) if by_rules else -1,
        )
        if versions == self._versions:
            return
        for kind in (ResourceSlice, ResourceClaim, *((DeviceTaintRule,) if by_rules else ())):
            objects.every(kind)  # All are known, or nothing is taken in.
        slices, claims, in_flight, rules = self._versions
        renewed = self._retainted(rules) if versions[3] != rules else set()
        if versions[0] != slices:
            changed_slices = self._names(ResourceSlice, slices, self._slices.names())
            renewed.update(name for _, name in changed_slices)
        for name in renewed:
            slice_ = self._rules.merged(name, objects.get(ResourceSlice, name))
            for pool, nodes in self._slices.put(name, slice_):
                self._note(pool, nodes)
        unwritten = self._names(InFlightAllocation, in_flight, held.in_flight)
        changed = held.follow(
            [(name, self._results(name)) for name in unwritten],
            [(name, self._claim(name)) for name in self._names(ResourceClaim, claims, held.claims)],
        )
        for device in changed:
            self._note(device[:2], self._slices.seeing(device[:2]))
        self._versions = versions

    def _retainted(self, version: int) -> set[str]:
        """Takes in the rules that changed since a version. Returns the names of the slices that
        they may taint otherwise.
        """
        places = {
            place
            for _, name in self._names(DeviceTaintRule, version, self._rules.names())
            for place in self._rules.put(name, self._objects.get(DeviceTaintRule, name))
        }
        return {name for place in places for name in self._slices.within(*place)}

    def _results(self, name: ObjectName) -> Results:
        unwritten = self._objects.get(InFlightAllocation, name[1], name[0])
        return () if unwritten is None else unwritten.results

    def _claim(self, name: ObjectName) -> ResourceClaim | None:
        return self._objects.get(ResourceClaim, name[1], name[0])

    def extended_claim_of(self, uid: str) -> ResourceClaim | None:
        """Returns the claim that the scheduler made for the extended resources of the pod of this
        uid.
        """
        name = self._held.extended_claims.get(uid)
        return None if name is None else self._claim(name)

    def _names(
        self,
        kind: type[ResourceSlice | ResourceClaim | InFlightAllocation | DeviceTaintRule],
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

    def _note(self, pool: PoolID, nodes: Collection[str]) -> None:
        """Notes that a pool changed, or what claims hold of it; `nodes` see it."""
        for name in nodes:
            self.changed.add(name)
        self._counters.forget(pool)


class Counters:
    """What claims leave of the counters of pools; computed when asked for."""

    def __init__(self, allocated_state: AllocatedState) -> None:
        self._allocated_state = allocated_state
        self._available: dict[tuple[PoolID, int], dict[CounterID, int]] = {}

    def available(self, pool: Pool) -> dict[CounterID, int]:
        """Returns how much claims leave of each counter of a pool, in billionths; it can be
        negative.
        """
        generation = (pool.id, pool.generation)
        available = self._available.get(generation)
        if available is None:
            available = self._available[generation] = dict(pool.counter_sets)
            for device in pool.all_devices:
                if device.counters and self._allocated_state.is_allocated(device.id):
                    for counter, amount in device.counters:
                        if counter in available:
                            available[counter] -= amount
        return available

    def forget(self, pool: PoolID) -> None:
        if self._available:
            for generation in [key for key in self._available if key[0] == pool]:
                del self._available[generation]
