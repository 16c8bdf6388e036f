"""The slices of the cluster by pool and by node, and the pools that each node can use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from berth.plugin import ResourceSlice

from ...kube.core import Node
from ...kube.devices import Device
from ...model.cluster_objects import ObjectName
from .features import Features
from .pools import (
    NodePools,
    PoolID,
    Slice,
    SliceDevice,
    devices_for,
    pools_of,
    slices_targeting,
    unreadable_pools,
)
from .requests import AllocationError

EVERY_NODE = ""
# The nodes of which something may be kept though they are gone.
MOST_GONE = 256


class Slices:
    """`content_of` numbers what selectors and policies see of a driver's device."""

    def __init__(self, content_of: Callable[[str, Device], int], features: Features) -> None:
        self._content_of = content_of
        self._features = features
        self._by_name: dict[str, Slice] = {}
        self._pools: dict[PoolID, dict[str, Slice]] = {}
        self._local: dict[str, dict[str, Slice]] = {}  # by node
        self._shared: dict[str, Slice] = {}
        self._node_pools: dict[str, tuple[Node, NodePools]] = {}
        # By the names of the slices, for nodes without slices of their own.
        self._alike: dict[tuple[str, ...], NodePools] = {}
        self._nodes_by_pool: dict[PoolID, set[str]] = {}  # as _nodes_of returns them

    def names(self) -> list[ObjectName]:
        return [("", name) for name in self._by_name]

    def within(self, driver: str | None, pool: str | None) -> Iterator[str]:
        """Yields the names of the slices of a driver and pool, None for any."""
        for (of_driver, of_pool), slices in self._pools.items():
            if driver in (None, of_driver) and pool in (None, of_pool):
                yield from slices

    def put(self, name: str, new: ResourceSlice | None) -> Iterator[tuple[PoolID, set[str]]]:
        """Takes the slice of this name, None if it is gone. Yields each pool that changes, with the
        nodes that see it or have seen it.
        """
        old = self._by_name.pop(name, None)
        if old is not None:
            if new is old.object:
                self._by_name[name] = old
                return
            yield old.pool, self._forget(old.pool)
            slices = self._pools[old.pool]
            del slices[name]
            if not slices:
                del self._pools[old.pool]
            if old.local:
                del self._local[str(old.object.spec.node_name)][name]
            self._shared.pop(name, None)
        if new is not None:
            slice_ = self._by_name[name] = Slice(new, self._content_of, self._features)
            self._pools.setdefault(slice_.pool, {})[name] = slice_
            if slice_.local:
                self._local.setdefault(str(new.spec.node_name), {})[name] = slice_
            else:
                self._shared[name] = slice_
            yield slice_.pool, self._forget(slice_.pool)

    def _forget(self, pool: PoolID) -> set[str]:
        """Forgets what was read of a pool. Returns the nodes that see it."""
        self._alike.clear()
        self._nodes_by_pool.pop(pool, None)
        nodes = self._nodes_of(pool)
        for name in nodes:
            if name == EVERY_NODE:
                self._node_pools.clear()
            else:
                self._node_pools.pop(name, None)
        return nodes

    def seeing(self, pool: PoolID) -> Collection[str]:
        """Returns the nodes that see a pool, or EVERY_NODE if a slice serves more than one."""
        nodes = self._nodes_by_pool.get(pool)
        if nodes is None and pool in self._pools:
            nodes = self._nodes_by_pool[pool] = self._nodes_of(pool)
        return nodes or ()

    def _nodes_of(self, pool: PoolID) -> set[str]:
        slices = self._pools.get(pool, {}).values()
        if any(not slice_.local for slice_ in slices):
            return {EVERY_NODE}
        return {str(slice_.object.spec.node_name) for slice_ in slices}

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
        partitionable = self._features.partitionable_devices
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
