"""The devices that a hollow driver offers, as its users describe them.

A file has a YAML document for each driver. Objects of Kubernetes may stand next to them: the device
classes, for example. Groups of equal devices are written once. A device with partitions is offered
as a whole and in parts; all draw on its counters, as those of a GPU in MIG mode do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.meta import ObjectMeta

from ..api.rules.device_rules import MOST_ADVANCED_DEVICES, MOST_COUNTER_SETS, MOST_DEVICES
from ..api.rules.validation import problems
from ..api.types.defaults import defaulted
from ..api.types.resources import BY_KIND
from ..api.types.schema import unknown_and_mistyped
from ..objects.structs import Document

SLICES = BY_KIND["resource.k8s.io/v1", "ResourceSlice"]
MOST_OF_GROUP = 10_000


class InventoryError(ValueError):
    """A file of devices that cannot be used; the message names it."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Devices of the same form. With a `count`, they are called <name>-0, <name>-1 and so on.

    A plain value of an attribute or capacity stands for the object that Kubernetes has there.
    `counters` are the amounts that make up the device or partition.
    """

    name: str
    count: int | None = None
    attributes: dict[str, str | int | bool | dict[str, Any]] = {}
    capacity: dict[str, str | int | dict[str, Any]] = {}
    counters: dict[str, str | int] = {}

    def names(self, prefix: str = "") -> list[str]:
        base = f"{prefix}{self.name}"
        return [base] if self.count is None else [f"{base}-{i}" for i in range(self.count)]


class Partition(_Part, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Equal parts of a device, called <device>-<name>-<number>."""


class Group(_Part, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    taints: list[dict[str, Any]] = []
    allow_multiple_allocations: bool | None = None
    partitions: list[Partition] = []


class Inventory(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The devices of one driver on each of the `nodes` with these names and labels; on every node
    if there are neither names nor labels.

    Devices on the `network` exist once, and can be used on all these nodes; their pool is `pool`.
    """

    driver: str
    nodes: list[str] = []
    node_selector: dict[str, str] = {}
    network: bool = False
    pool: str = "network"
    devices: list[Group]

    def is_for(self, node: Node) -> bool:
        if self.nodes and node.metadata.name not in self.nodes:
            return False
        return self.node_selector.items() <= node.metadata.labels.items()


class Pool(msgspec.Struct, frozen=True):
    """The slices of a driver's pool: their specs, without generation and size of the pool.

    `node` is the node that the devices are attached to, None for devices on the network.
    """

    driver: str
    name: str
    node: Node | None
    specs: list[Document]


def is_object(document: Any) -> bool:
    return isinstance(document, dict) and "kind" in document


def checked_inventory(document: Any, where: str) -> Inventory:
    """Checks an inventory by the rules for the slices that it gives a node."""
    try:
        parsed = msgspec.convert(document, Inventory)
    except msgspec.ValidationError as problem:
        raise InventoryError(f"{where}: {problem}") from None
    groups = [*parsed.devices, *(part for group in parsed.devices for part in group.partitions)]
    for group in groups:
        if group.count is not None and not 0 <= group.count <= MOST_OF_GROUP:
            raise InventoryError(
                f"{where}, {group.name}: count: expected 0 to {MOST_OF_GROUP}, got {group.count}"
            )
    for group in parsed.devices:
        for part in group.partitions:
            _check_counters(group, part, where)
    node = Node(metadata=ObjectMeta(name="node"))
    pool = "node" if not parsed.network else parsed.pool
    for spec in _specs(parsed.driver, pool, None if parsed.network else node, [parsed]):
        numbered = with_pool(spec, pool, 1, 1)
        slice_ = {**numbered, "metadata": {"name": "slice"}}
        mistyped = unknown_and_mistyped("ResourceSlice", slice_)
        wrong = [*filter(None, [mistyped.mistyped]), *mistyped.unknown]
        wrong = wrong or problems("ResourceSlice", defaulted(SLICES, slice_))
        if wrong:
            raise InventoryError(f"{where}: {wrong[0]}")
    return parsed


def _check_counters(group: Group, part: Partition, where: str) -> None:
    """Raises InventoryError unless the part has counters, and the device has them all."""
    place = f"{where}, {group.name}, partition {part.name}: counters"
    if not part.counters:
        raise InventoryError(f"{place}: expected the amounts that the part takes of its device")
    for counter in part.counters:
        if counter not in group.counters:
            raise InventoryError(f"{place}: {group.name} has no counter {counter!r}")


def with_pool(spec: Document, pool: str, generation: int, count: int) -> Document:
    """Returns a slice without metadata, one of the `count` slices of its pool."""
    numbers = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return {
        "apiVersion": SLICES.api_version,
        "kind": SLICES.kind,
        "spec": {**spec, "pool": numbers},
    }


def pools(inventories: Iterable[Inventory], nodes: Iterable[Node]) -> list[Pool]:
    """Returns the pools of these nodes; joins the inventories of a driver for a node."""
    offered: dict[tuple[str, str], tuple[Node | None, list[Inventory]]] = {}
    listed = list(nodes)
    for inventory in inventories:
        if inventory.network:
            offered[inventory.driver, inventory.pool] = (None, [inventory])
            continue
        for node in filter(inventory.is_for, listed):
            place = inventory.driver, node.metadata.name
            offered.setdefault(place, (node, []))[1].append(inventory)
    return [
        Pool(driver, pool, node, _specs(driver, pool, node, joined))
        for (driver, pool), (node, joined) in offered.items()
    ]


def _specs(
    driver: str, pool: str, node: Node | None, inventories: list[Inventory]
) -> list[Document]:
    """Returns the slices of a pool, each as large as allowed."""
    place = {"nodeName": node.metadata.name} if node is not None else _node_fields(inventories[0])
    devices: list[Document] = []
    counters: list[Document] = []
    for group in (group for inventory in inventories for group in inventory.devices):
        for number, name in enumerate(group.names()):
            parts, counter_set = _device(group, name, number)
            devices += parts
            counters += counter_set
    advanced = any("taints" in device or "consumesCounters" in device for device in devices)
    most = MOST_ADVANCED_DEVICES if advanced else MOST_DEVICES
    base: Document = {"driver": driver, "pool": {"name": pool}, **place}
    slices = [{**base, "sharedCounters": chunk} for chunk in _batches(counters, MOST_COUNTER_SETS)]
    slices += [{**base, "devices": chunk} for chunk in _batches(devices, most)]
    return slices or [{**base, "devices": []}]


def _node_fields(inventory: Inventory) -> Document:
    """Returns the fields that say which nodes can use the devices of a network."""
    terms: list[Document] = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in inventory.node_selector.items()
    ]
    if not terms and not inventory.nodes:
        return {"allNodes": True}
    if inventory.nodes:
        named = {"key": "kubernetes.io/hostname", "operator": "In", "values": inventory.nodes}
        terms.append(named)
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}


def _batches(items: list[Document], most: int) -> list[list[Document]]:
    return [items[start : start + most] for start in range(0, len(items), most)]


def _device(group: Group, name: str, number: int) -> tuple[list[Document], list[Document]]:
    """Returns a device with its partitions, and the counters that they share, if any."""
    whole = _device_of(group, name, {"index": number})
    if group.taints:
        whole["taints"] = group.taints
    if group.allow_multiple_allocations is not None:
        whole["allowMultipleAllocations"] = group.allow_multiple_allocations
    if not group.counters:
        return [whole], []
    whole["consumesCounters"] = _counter_consumption(name, group.counters)
    offered = [whole]
    for partition in group.partitions:
        for part_number, part in enumerate(partition.names(f"{name}-")):
            own = _device_of(partition, part, {"index": part_number, "parent": name})
            own["attributes"] = _values(group.attributes) | own["attributes"]
            own["consumesCounters"] = _counter_consumption(name, partition.counters)
            if group.taints:
                own["taints"] = group.taints
            offered.append(own)
    return offered, [{"name": name, "counters": _amounts(group.counters)}]


def _device_of(part: _Part, name: str, defaults: Mapping[str, str | int]) -> Document:
    """Returns a device; attributes from its description take precedence over the `defaults`."""
    device: Document = {"name": name, "attributes": _values({**defaults, **part.attributes})}
    if part.capacity:
        device["capacity"] = {
            key: amount if isinstance(amount, dict) else {"value": str(amount)}
            for key, amount in part.capacity.items()
        }
    return device


def _values(attributes: Mapping[str, str | int | bool | dict[str, Any]]) -> Document:
    return {key: _value(value) for key, value in attributes.items()}


def _value(value: str | int | bool | dict[str, Any]) -> Document:
    match value:
        case dict():
            return value
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case _:
            return {"string": value}


def _counter_consumption(counter_set: str, counters: Mapping[str, str | int]) -> list[Document]:
    return [{"counterSet": counter_set, "counters": _amounts(counters)}]


def _amounts(counters: Mapping[str, str | int]) -> Document:
    return {key: {"value": str(amount)} for key, amount in counters.items()}
