"""The pools of devices that a node can use, from the ResourceSlices that the drivers publish.

A pool may be spread over slices. It is incomplete while its driver has not published all slices of
a generation, and invalid if they contradict each other. Mirrors GatherPools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ...kube.core import Node, NodeSelector
from ...kube.devices import NO_EXECUTE, NO_SCHEDULE, Device, DeviceTaint, ResourceSlice
from ...kube.node_selector import in_go, node_selector_matches, selector_error
from ...kube.quantity import nano_value
from .features import EVERY_FEATURE, Features
from .requests import AllocationError

_ENCODER = msgspec.msgpack.Encoder(enc_hook=dict)
PoolID = tuple[str, str]  # driver, pool
DeviceID = tuple[str, str, str]  # driver, pool, device
CounterID = tuple[str, str]  # counter set, counter


class SliceDevice:
    """A device of a slice. `content` is a number that is equal for devices in which selectors and
    policies see no difference. `counters` are the amounts that it consumes of its pool's counters,
    in billionths.
    """

    __slots__ = ("content", "counters", "device", "id", "shared", "slice", "taints")

    def __init__(
        self, slice_: ResourceSlice, device: Device, content: int, features: Features
    ) -> None:
        self.slice = slice_
        self.device = device
        self.content = content
        self.id: DeviceID = (slice_.spec.driver, slice_.spec.pool.name, device.name)
        self.shared = features.consumable_capacity and bool(device.allow_multiple_allocations)
        self.taints: tuple[DeviceTaint, ...] = tuple(
            taint
            for taint in device.taints
            if features.device_taints and taint.effect in (NO_SCHEDULE, NO_EXECUTE)
        )
        self.counters: tuple[tuple[CounterID, int], ...] = tuple(
            ((consumption.counter_set, name), nano_value(counter.value))
            for consumption in device.consumes_counters
            for name, counter in consumption.counters.items()
        )

    def __str__(self) -> str:
        return "/".join(self.id)


class Slice:
    """A ResourceSlice with its devices. A `local` slice serves one node only."""

    __slots__ = ("devices", "everywhere", "local", "object", "pool", "selection", "uniform")

    def __init__(
        self,
        slice_: ResourceSlice,
        number: Callable[[str, Device], int],
        features: Features = EVERY_FEATURE,
    ) -> None:
        spec = slice_.spec
        self.object = slice_
        self.pool: PoolID = (spec.driver, spec.pool.name)
        # Before 1.37, slices with counters serve every node.
        self.everywhere = bool(spec.shared_counters) and not features.counters_of_own_nodes
        self.local = bool(spec.node_name) and not self.everywhere
        # A node uses all slices with the same selection, or none of them.
        by_selector = not (spec.node_name or spec.all_nodes or self.everywhere)
        self.selection = (
            _ENCODER.encode(spec.node_selector)
            if by_selector and spec.node_selector is not None
            else b""
        )
        # All nodes that the slice serves see the same devices.
        self.uniform = not self.local and not spec.per_device_node_selection
        self.devices = tuple(
            SliceDevice(slice_, device, number(spec.driver, device), features)
            for device in spec.devices
        )


class Pool:
    """A pool as a node sees it.

    `devices` are the devices of the slices that serve the node, in the order in which they are
    tried. `not_targeting_node` has the ids of the devices among them that serve other nodes only.
    `all_devices` are the devices of all slices, for the counters. `incomplete` and `invalid` say
    why the pool cannot be used; then it has no devices.
    """

    __slots__ = (
        "all_devices",
        "binds_later",
        "counter_sets",
        "devices",
        "generation",
        "id",
        "incomplete",
        "invalid",
        "not_targeting_node",
    )

    def __init__(self, pool: PoolID, generation: int) -> None:
        self.id = pool
        self.generation = generation
        self.incomplete = ""
        self.invalid = ""
        self.devices: tuple[SliceDevice, ...] = ()
        self.all_devices: tuple[SliceDevice, ...] = ()
        self.not_targeting_node: frozenset[DeviceID] = frozenset()
        self.counter_sets: dict[CounterID, int] = {}
        self.binds_later = False

    @property
    def usable(self) -> bool:
        return not self.incomplete and not self.invalid

    def __str__(self) -> str:
        return "/".join(self.id)


class NodePools:
    """The pools of a node in the order in which they are searched, and the candidates from all
    usable pools.

    `problem` is set if the slices cannot be read for this node.
    """

    def __init__(self, pools: Sequence[Pool] = (), problem: str = "") -> None:
        self.pools = tuple(pools)
        self.problem = problem
        self.candidates = tuple(
            (device, pool) for pool in pools if pool.usable for device in pool.devices
        )
        self.any_invalid = any(pool.invalid for pool in pools)


def slices_targeting(
    node: Node, slices: Iterable[Slice], *, partitionable: bool = True
) -> list[Slice]:
    """Returns the slices that serve a node. Unless devices are `partitionable`, slices with
    counters or with devices for different nodes do not count. Raises AllocationError.
    """
    serving = []
    selections: dict[bytes, bool] = {}  # many slices share a node selector
    for slice_ in slices:
        if not partitionable and _is_partitioned(slice_):
            continue
        serves = selections.get(slice_.selection) if slice_.selection else None
        if serves is None:
            serves = slice_.everywhere or _serves(slice_.object, node)
            if slice_.selection:
                selections[slice_.selection] = serves
        if serves:
            serving.append(slice_)
    return serving


def pools_of(
    node: Node,
    slices: Iterable[Slice],
    of_pool: Callable[[PoolID], list[Slice]],
    *,
    partitionable: bool = True,
) -> NodePools:
    """Returns the pools of a node, from the slices that serve it. `of_pool` returns all slices of a
    pool, of every generation and for every node.
    """
    by_pool: dict[PoolID, list[Slice]] = {}
    try:
        for slice_ in slices:
            _add(by_pool, slice_)
        pools = [
            pool
            for id_, newest in by_pool.items()
            if (pool := _pool(node, id_, newest, of_pool(id_), partitionable=partitionable))
        ]
    except AllocationError as problem:
        return unreadable_pools(problem)
    pools.sort(key=lambda pool: (pool.binds_later, pool.id))
    return NodePools(pools)


def unreadable_pools(problem: AllocationError) -> NodePools:
    """Returns the pools of a node for which the slices cannot be read."""
    return NodePools(problem=f"gather pool information: {problem}")


def devices_for(slice_: Slice, node: Node) -> Sequence[SliceDevice]:
    """Returns the devices of a slice that a node can use. Raises AllocationError."""
    if slice_.object.spec.per_device_node_selection:
        return [
            device
            for device in slice_.devices
            if _device_serves(device.device, slice_.object, node)
        ]
    serves = bool(slice_.object.spec.shared_counters) or _serves(slice_.object, node)
    return slice_.devices if serves else ()


def _is_partitioned(slice_: Slice) -> bool:
    spec = slice_.object.spec
    return spec.per_device_node_selection is not None or bool(spec.shared_counters)


def _serves(slice_: ResourceSlice, node: Node) -> bool:
    spec = slice_.spec
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        purpose = f"failed to perform node selection for slice {slice_.metadata.name}"
        return _matches(node, spec.node_name, spec.all_nodes, spec.node_selector, purpose)
    if spec.per_device_node_selection:
        return any(_device_serves(device, slice_, node) for device in spec.devices)
    return False


def _device_serves(device: Device, slice_: ResourceSlice, node: Node) -> bool:
    purpose = (
        f"failed to perform node selection for device {device.name} in slice {slice_.metadata.name}"
    )
    return _matches(node, device.node_name, device.all_nodes, device.node_selector, purpose)


def _matches(
    node: Node,
    name: str | None,
    all_nodes: bool | None,
    selector: NodeSelector | None,
    purpose: str,
) -> bool:
    if name:
        return name == node.metadata.name
    if all_nodes:
        return True
    if selector is None:
        return False
    if problem := selector_error(selector):
        shown = in_go(selector)
        raise AllocationError(f"{purpose}: failed to parse node selector {shown}: {problem}")
    return node_selector_matches(selector.node_selector_terms, node)


def _add(by_pool: dict[PoolID, list[Slice]], slice_: Slice) -> None:
    """Adds a slice to its pool. Only the newest generation of a pool counts."""
    newest = by_pool.get(slice_.pool)
    generation = slice_.object.spec.pool.generation
    if newest is None or generation > newest[0].object.spec.pool.generation:
        by_pool[slice_.pool] = [slice_]
    elif generation == newest[0].object.spec.pool.generation:
        newest.append(slice_)


def _pool(
    node: Node, id_: PoolID, slices: list[Slice], every: list[Slice], *, partitionable: bool
) -> Pool | None:
    """Returns the pool as the node sees it, or None if a newer generation is being published."""
    spec = slices[0].object.spec.pool
    pool = Pool(id_, spec.generation)
    others: list[Slice] = []
    if len(slices) != spec.resource_slice_count:
        if any(s.object.spec.pool.generation > spec.generation for s in every):
            return None
        same = [s for s in every if s.object.spec.pool.generation == spec.generation]
        if len(same) != spec.resource_slice_count:
            number, of = len(same), spec.resource_slice_count
            pool.incomplete = f"{number} of {of} slices of generation {spec.generation} published"
            return pool
        names = {s.object.metadata.name for s in slices}
        others = [s for s in same if s.object.metadata.name not in names]
    slices.sort(key=lambda s: s.object.metadata.name)
    with_devices = [s for s in slices if not s.object.spec.shared_counters]
    with_counters = [s for s in (*slices, *others) if s.object.spec.shared_counters]
    pool.invalid = _repeated_device(with_devices)
    if partitionable:
        pool.invalid = (
            pool.invalid
            or _read_counters(pool, with_counters)
            or _wrong_consumption(pool, slices)
            or _wrong_consumption(pool, others)
        )
    if pool.invalid:
        return pool
    pool.devices = tuple(device for s in with_devices for device in s.devices)
    pool.all_devices = (*pool.devices, *(device for s in others for device in s.devices))
    pool.not_targeting_node = frozenset(
        device.id
        for s in with_devices
        if s.object.spec.per_device_node_selection
        for device in s.devices
        if not _device_serves(device.device, s.object, node)
    )
    pool.binds_later = any(d.device.binding_conditions is not None for d in pool.devices)
    return pool


def _repeated_device(slices: Iterable[Slice]) -> str:
    seen = set()
    for slice_ in slices:
        for device in slice_.devices:
            if device.id in seen:
                return f"{_place(device)}: duplicate device name {device.device.name}"
            seen.add(device.id)
    return ""


def _read_counters(pool: Pool, slices: Iterable[Slice]) -> str:
    """Notes the counters of a pool. Returns the problem that makes it invalid, or ""."""
    seen = set()
    for slice_ in slices:
        for counters in slice_.object.spec.shared_counters:
            if counters.name in seen:
                where = f"slice {slice_.object.metadata.name}: sharedCounters"
                return f"{where}: duplicate counter set name {counters.name}"
            seen.add(counters.name)
            for name, counter in counters.counters.items():
                pool.counter_sets[counters.name, name] = nano_value(counter.value)
    return ""


def _wrong_consumption(pool: Pool, slices: Iterable[Slice]) -> str:
    """Returns the problem of a device that consumes a counter that the pool does not have."""
    sets = {name for name, _ in pool.counter_sets}
    for slice_ in slices:
        for device in slice_.devices:
            for consumption in device.device.consumes_counters:
                where, name = f"{_place(device)}: consumesCounters", consumption.counter_set
                if name not in sets:
                    return f"{where}: counter set {name} not found"
                for counter in consumption.counters:
                    if (name, counter) not in pool.counter_sets:
                        return f"{where}: counter {counter} not found in counter set {name}"
    return ""


def _place(device: SliceDevice) -> str:
    return f"slice {device.slice.metadata.name}, device {device.device.name}"
