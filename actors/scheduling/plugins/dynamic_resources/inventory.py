"""Inventory: the devices of the cluster, and which of them claims hold.

It follows the changes of slices and claims, also of allocations that are not written yet. For each
change it notes the nodes for which a search may now end differently; keeping up costs what
changed, not the size of the cluster. Mirrors the tracker of allocated devices and the allocator's
lists of slices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from berth.plugin import ResourceClaim, ResourceSlice

from ...cel import CelError, selector
from ...kube.core import Node
from ...kube.devices import Device, DeviceRequestAllocationResult, PendingAllocation
from ...kube.quantity import nano_value
from ...model.change_log import ChangeLog
from ...model.cluster_objects import ClusterObjects, ObjectName
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
    serving,
    unreadable,
)
from .steps import Steps
from .wanted import AllocationError

# The selectors whose answers are kept, and the answers of each.
MOST_SELECTORS, MOST_ANSWERS = 1024, 1 << 16
# What the evaluation of a selector may cost, in cel-go's units, in a step of the search.
COSTS_PER_STEP = 5
# The steps that its compilation costs.
STEPS_PER_CHARACTER = 3
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
EVERY_NODE = ""
# The nodes of which something may be kept though they are gone.
MOST_GONE = 256


class _Hold(msgspec.Struct, frozen=True):
    """A device, or a share of one, that a claim holds."""

    device: DeviceID
    share: str | None
    capacity: tuple[tuple[str, int], ...]


def _holds(results: Iterable[DeviceRequestAllocationResult]) -> frozenset[_Hold]:
    """What the results of an allocation take from others. Admin access takes nothing."""
    return frozenset(
        _Hold(
            (result.driver, result.pool, result.device),
            result.share_id,
            ()
            if result.share_id is None
            else tuple(sorted((n, nano_value(a)) for n, a in result.consumed_capacity.items())),
        )
        for result in results
        if not result.admin_access
    )


class Usage:
    """The devices that claims hold, and the capacity that they take of devices that are shared."""

    def __init__(self) -> None:
        self._whole: dict[DeviceID, int] = {}
        self._shares: dict[DeviceID, int] = {}
        self._capacity: dict[DeviceID, dict[str, int]] = {}

    def is_taken(self, device: DeviceID) -> bool:
        """True if a claim holds the device for itself."""
        return device in self._whole

    def is_shared(self, device: DeviceID) -> bool:
        """True if claims hold some of its capacity, be it none of it."""
        return device in self._capacity

    def is_allocated(self, device: DeviceID) -> bool:
        return device in self._whole or device in self._shares or device in self._capacity

    def capacity(self, device: DeviceID) -> Mapping[str, int]:
        """What claims take of the device's capacity, in billionths."""
        return self._capacity.get(device, {})

    def add(self, hold: _Hold, sign: int) -> None:
        """Counts a hold with sign 1, and takes it back with sign -1."""
        counts = self._whole if hold.share is None else self._shares
        number = counts.get(hold.device, 0) + sign
        if number:
            counts[hold.device] = number
        else:
            del counts[hold.device]
        if not hold.capacity:
            return
        taken = self._capacity.setdefault(hold.device, {})
        for name, amount in hold.capacity:
            taken[name] = taken.get(name, 0) + sign * amount
        if sign < 0 and not any(taken.values()):
            del self._capacity[hold.device]


class Inventory:
    """`usage` is what claims hold. `changed` logs the names of the nodes for which the outcome of a
    search may have changed, EVERY_NODE for all of them.
    """

    def __init__(self, objects: ClusterObjects, features: Features = EVERY_FEATURE) -> None:
        self._objects = objects
        self.features = features
        self.usage = Usage()
        self.changed: ChangeLog[str] = ChangeLog()
        self._slices: dict[str, Slice] = {}
        self._pools: dict[PoolID, dict[str, Slice]] = {}
        self._local: dict[str, dict[str, Slice]] = {}  # by node
        self._shared: dict[str, Slice] = {}
        self._contents: dict[bytes, int] = {}
        self._next_content = 0
        self._claims: dict[ObjectName, frozenset[_Hold]] = {}
        self._pending: dict[ObjectName, frozenset[_Hold]] = {}
        self._owner_of: dict[ObjectName, str] = {}
        self._made_for: dict[str, ObjectName] = {}
        self._held: dict[_Hold, int] = {}
        self._node_pools: dict[str, tuple[Node, NodePools]] = {}
        # By the names of the slices, for nodes without slices of their own.
        self._alike: dict[tuple[str, ...], NodePools] = {}
        self._counters: dict[tuple[PoolID, int], dict[CounterID, int]] = {}
        self._answers: dict[str, dict[int, bool | str]] = {}
        self._versions = (-1, -1, -1)

    def is_of(self, objects: ClusterObjects) -> bool:
        return self._objects is objects

    # ----------------------------------------------------------------------------------- keeping up

    def refresh(self) -> None:
        """Takes in what changed. Raises UnlistedError if slices or claims are not known."""
        objects = self._objects
        versions = (
            objects.version(ResourceSlice),
            objects.version(ResourceClaim),
            objects.version(PendingAllocation),
        )
        if versions == self._versions:
            return
        for kind in (ResourceSlice, ResourceClaim):
            objects.every(kind)  # All are known, or nothing is taken in.
        slices, claims, pending = self._versions
        if versions[0] != slices:
            for _, slice_name in self._names(ResourceSlice, slices, self._slices_known()):
                self._read_slice(slice_name)
        freed: list[_Hold] = []
        for name in self._names(PendingAllocation, pending, self._pending):
            waiting = objects.get(PendingAllocation, name[1], name[0])
            results = () if waiting is None else waiting.results
            self._hold(self._pending, name, _holds(results), freed)
        for name in self._names(ResourceClaim, claims, self._claims):
            claim = objects.get(ResourceClaim, name[1], name[0])
            allocation = None if claim is None else claim.status.allocation
            results = () if allocation is None else allocation.devices.results
            self._hold(self._claims, name, _holds(results), freed)
            self._note_owner(name, claim)
        for hold in freed:
            self._release(hold)
        self._versions = versions

    def _note_owner(self, name: ObjectName, claim: ResourceClaim | None) -> None:
        """Notes for which pod the scheduler made a claim."""
        before = self._owner_of.pop(name, "")
        self._made_for.pop(before, None)
        owner = "" if claim is None else extended_owner(claim)
        if owner:
            self._owner_of[name] = owner
            self._made_for[owner] = name

    def made_for(self, uid: str) -> ResourceClaim | None:
        """The claim that the scheduler made for the extended resources of the pod with this uid."""
        name = self._made_for.get(uid)
        return None if name is None else self._objects.get(ResourceClaim, name[1], name[0])

    def _slices_known(self) -> list[ObjectName]:
        return [("", name) for name in self._slices]

    def _names(
        self,
        kind: type[ResourceSlice | ResourceClaim | PendingAllocation],
        version: int,
        known: Iterable[ObjectName],
    ) -> Iterable[ObjectName]:
        """The names of the objects that may have changed since a version."""
        changed = None if version < 0 else self._objects.changes(kind).since(version)
        if changed is not None:
            return changed
        every = {
            (item.metadata.namespace, item.metadata.name) for item in self._objects.every(kind)
        }
        return every.union(known)

    def _read_slice(self, name: str) -> None:
        new = self._objects.get(ResourceSlice, name)
        old = self._slices.pop(name, None)
        if old is not None:
            if new is old.object:
                self._slices[name] = old
                return
            self._note_pool(old.pool)
            its = self._pools[old.pool]
            del its[name]
            if not its:
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
        seen = (driver, device.attributes, device.capacity, bool(device.allow_multiple_allocations))
        content = _ENCODER.encode(seen)
        number = self._contents.get(content)
        if number is None:
            if len(self._contents) >= MOST_ANSWERS:
                self._contents.clear()
            number = self._contents[content] = self._next_content
            self._next_content += 1
        return number

    def _note_pool(self, pool: PoolID) -> None:
        """The slices of a pool changed."""
        self._alike.clear()
        for name in self._nodes_of(pool):
            if name == EVERY_NODE:
                self._node_pools.clear()
            else:
                self._node_pools.pop(name, None)
            self.changed.add(name)
        self._forget_counters(pool)

    def _nodes_of(self, pool: PoolID) -> set[str]:
        """The nodes that see a pool; EVERY_NODE if a slice serves more than one."""
        slices = self._pools.get(pool, {}).values()
        if any(not slice_.local for slice_ in slices):
            return {EVERY_NODE}
        return {str(slice_.object.spec.node_name) for slice_ in slices}

    def _forget_counters(self, pool: PoolID) -> None:
        if self._counters:
            for known in [known for known in self._counters if known[0] == pool]:
                del self._counters[known]

    def _hold(
        self,
        holders: dict[ObjectName, frozenset[_Hold]],
        name: ObjectName,
        holds: frozenset[_Hold],
        freed: list[_Hold],
    ) -> None:
        """Notes what a claim holds now. What it no longer holds is `freed` after all claims are
        read, so that an allocation that is written, and no longer pending, changes nothing.
        """
        before = holders.get(name, frozenset())
        if holds:
            holders[name] = holds
        else:
            holders.pop(name, None)
        freed += before - holds
        for hold in holds - before:
            self._held[hold] = self._held.get(hold, 0) + 1
            if self._held[hold] == 1:
                self._count(hold, 1)

    def _release(self, hold: _Hold) -> None:
        self._held[hold] -= 1
        if not self._held[hold]:
            del self._held[hold]
            self._count(hold, -1)

    def _count(self, hold: _Hold, sign: int) -> None:
        self.usage.add(hold, sign)
        pool = hold.device[:2]
        for name in self._nodes_of(pool):
            self.changed.add(name)
        self._forget_counters(pool)

    # ------------------------------------------------------------------------------- for the search

    def pools(self, node: Node) -> NodePools:
        """The pools that a node can use."""
        name = node.metadata.name
        known = self._node_pools.get(name)
        if known is not None and known[0] is node:
            return known[1]
        found = self._read_pools(node)
        self._node_pools[name] = (node, found)
        return found

    def _read_pools(self, node: Node) -> NodePools:
        """The pools of a node; the same object for nodes that see the same."""
        partitionable = self.features.partitionable_devices
        near = self._slices_near(node.metadata.name)
        try:
            slices = serving(node, near, partitionable=partitionable)
        except AllocationError as problem:
            return unreadable(problem)
        alike = None
        if all(slice_.uniform for slice_ in slices):
            alike = tuple(slice_.object.metadata.name for slice_ in slices)
            known = self._alike.get(alike)
            if known is not None:
                return known
        found = pools_of(
            node,
            slices,
            lambda pool: [*self._pools[pool].values()],
            partitionable=partitionable,
        )
        if alike is not None:
            self._alike[alike] = found
        return found

    def forget_nodes(self, there: Collection[str]) -> None:
        """Forgets the nodes that are not there, if they may be many."""
        if len(self._node_pools) > 2 * len(there) + MOST_GONE:
            self._node_pools = {n: kept for n, kept in self._node_pools.items() if n in there}

    def _slices_near(self, node: str) -> tuple[Slice, ...]:
        """The slices that may serve a node."""
        return (*self._local.get(node, {}).values(), *self._shared.values())

    def devices(self, node: Node) -> Iterator[SliceDevice]:
        """The devices of all slices that serve a node, whatever the state of their pools. Raises
        AllocationError.
        """
        for slice_ in self._slices_near(node.metadata.name):
            yield from devices_for(slice_, node)

    def left_of(self, pool: Pool) -> dict[CounterID, int]:
        """What claims leave of each counter of a pool, in billionths; it may be negative."""
        known = (pool.id, pool.generation)
        left = self._counters.get(known)
        if left is None:
            left = self._counters[known] = dict(pool.counter_sets)
            for device in pool.everything:
                if device.counters and self.usage.is_allocated(device.id):
                    for counter, amount in device.counters:
                        if counter in left:
                            left[counter] -= amount
        return left

    def matches(self, expression: str, device: SliceDevice, steps: Steps | None = None) -> bool:
        """True if a selector accepts the device. Raises CelError, also if it does not compile, and
        TimedOutError.
        """
        answers = self._answers.get(expression)
        if answers is None:
            if len(self._answers) >= MOST_SELECTORS:
                self._answers.clear()
            answers = self._answers[expression] = {}
            if steps is not None:
                steps.take(STEPS_PER_CHARACTER * len(expression))  # It may have to be compiled.
        answer = answers.get(device.content)
        if answer is None:
            if len(answers) >= MOST_ANSWERS:
                answers.clear()
            spent: list[int] = []
            try:
                answer = self._evaluate(expression, device, spent.append)
            except CelError as failure:
                answer = str(failure)
            answers[device.content] = answer
            if steps is not None:
                steps.take(sum(spent) // COSTS_PER_STEP)
        if isinstance(answer, str):
            raise CelError(answer)
        return answer

    @staticmethod
    def _evaluate(expression: str, device: SliceDevice, spend: Callable[[int], None]) -> bool:
        compiled = selector(expression)
        if compiled.error:
            raise CelError(f"CEL compile error: {compiled.error}")
        try:
            return compiled.matches(device.id[0], device.device, spend)
        except CelError as failure:
            raise CelError(f"CEL runtime error: {failure}") from None
