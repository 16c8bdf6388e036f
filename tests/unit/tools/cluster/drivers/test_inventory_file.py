"""Files of devices, and the pools of slices that they describe."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.tools.cluster.drivers.inventory_file import (
    read_inventories,
    read_objects,
)
from berth.tools.kubernetes.devices.inventory import (
    InventoryError,
    Pool,
    pools,
)
from berth.tools.testing.demo.command import DEVICES


def node(name: str, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels=labels))


NODES = [node("node-1", zone="a"), node("node-2", zone="b"), node("node-3", zone="a")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "devices.yaml"


def pools_of(file: Path, text: str) -> list[Pool]:
    file.write_text(text)
    return pools(read_inventories(file), NODES)


def test_a_group_is_written_once_for_all_its_devices(file: Path) -> None:
    text = """
driver: gpu.example.com
nodes: [node-2]
devices:
  - name: gpu
    count: 2
    attributes: {model: A, ecc: true, speed: 7, version: {version: 1.2.3}}
    capacity: {memory: 80Gi, slots: {value: 4}}
    taints: [{key: new, effect: NoSchedule}]
  - {name: single}
"""
    (pool,) = pools_of(file, text)
    assert (pool.driver, pool.name) == ("gpu.example.com", "node-2")
    (spec,) = pool.specs
    assert spec["nodeName"] == "node-2"
    first, second, single = spec["devices"]
    assert [device["name"] for device in spec["devices"]] == ["gpu-0", "gpu-1", "single"]
    assert first["attributes"] == {
        "index": {"int": 0},
        "model": {"string": "A"},
        "ecc": {"bool": True},
        "speed": {"int": 7},
        "version": {"version": "1.2.3"},
    }
    assert second["attributes"]["index"] == {"int": 1}
    assert first["capacity"] == {"memory": {"value": "80Gi"}, "slots": {"value": 4}}
    assert first["taints"] == [{"key": "new", "effect": "NoSchedule"}]
    assert "taints" not in single


def test_nodes_are_chosen_by_name_and_label(file: Path) -> None:
    text = "{driver: d.com, nodeSelector: {zone: a}, devices: [{name: x}]}"
    assert [pool.name for pool in pools_of(file, text)] == ["node-1", "node-3"]
    text = "{driver: d.com, nodes: [node-1, node-2], nodeSelector: {zone: a}, devices: []}"
    assert [pool.name for pool in pools_of(file, text)] == ["node-1"]
    text = "{driver: d.com, devices: [{name: x}]}"
    assert len(pools_of(file, text)) == 3


def test_inventories_of_a_driver_for_the_same_node_are_one_pool(file: Path) -> None:
    text = """
{driver: d.com, nodes: [node-1], devices: [{name: x}]}
---
{driver: d.com, devices: [{name: second}]}
"""
    first = pools_of(file, text)[0]
    assert [device["name"] for device in first.specs[0]["devices"]] == ["x", "second"]


def test_devices_on_the_network_exist_once(file: Path) -> None:
    text = "{driver: d.com, network: true, pool: rack, devices: [{name: x}]}"
    (pool,) = pools_of(file, text)
    assert (pool.name, pool.node) == ("rack", None)
    assert pool.specs[0]["allNodes"] is True
    text = "{driver: d.com, network: true, nodeSelector: {zone: a}, nodes: [n9], devices: []}"
    (pool,) = pools_of(file, text)
    ((term,),) = (pool.specs[0]["nodeSelector"]["nodeSelectorTerms"],)
    assert [expression["key"] for expression in term["matchExpressions"]] == [
        "zone",
        "kubernetes.io/hostname",
    ]


def test_a_device_is_offered_whole_and_in_parts(file: Path) -> None:
    text = """
driver: d.com
nodes: [node-1]
devices:
  - name: gpu
    count: 2
    attributes: {model: A}
    counters: {memory: 40Gi}
    partitions: [{name: half, count: 2, capacity: {memory: 20Gi}, counters: {memory: 20Gi}}]
"""
    ((counters, offered),) = [pool.specs for pool in pools_of(file, text)]
    assert counters["sharedCounters"] == [
        {"name": name, "counters": {"memory": {"value": "40Gi"}}} for name in ("gpu-0", "gpu-1")
    ]
    assert "devices" not in counters
    devices = {device["name"]: device for device in offered["devices"]}
    assert list(devices)[:3] == ["gpu-0", "gpu-0-half-0", "gpu-0-half-1"]
    whole, half = devices["gpu-1"], devices["gpu-1-half-1"]
    (consumed,) = whole["consumesCounters"]
    assert consumed == {"counterSet": "gpu-1", "counters": {"memory": {"value": "40Gi"}}}
    (consumed,) = half["consumesCounters"]
    assert consumed == {"counterSet": "gpu-1", "counters": {"memory": {"value": "20Gi"}}}
    assert half["attributes"] == {
        "model": {"string": "A"},
        "index": {"int": 1},
        "parent": {"string": "gpu-1"},
    }


@pytest.mark.parametrize(
    ("taints", "sizes"), [("[]", [128, 72]), ("[{key: a, effect: None}]", [64, 64, 64, 8])]
)
def test_a_slice_has_as_many_devices_as_it_may(file: Path, taints: str, sizes: list[int]) -> None:
    text = (
        f"{{driver: d.com, nodes: [node-1], devices: [{{name: x, count: 200, taints: {taints}}}]}}"
    )
    (pool,) = pools_of(file, text)
    numbers = [len(spec["devices"]) for spec in pool.specs]
    assert numbers == (sizes)


BROKEN = [
    ("[]", "document 1: Expected `object`, got `array`"),
    ("devices: []", "missing required field `driver`"),
    (
        "{driver: d.com, devices: [{name: x, cuont: 1}]}",
        "unknown field `cuont`",
    ),
    ("{driver: d.com, devices: [{name: X}]}", 'spec.devices[0].name: Invalid value: "X"'),
    ("{driver: d.com, devices: [{name: x}, {name: x}]}", 'devices[1]: Duplicate value: "x"'),
    ("{driver: d.com, devices: [{name: x, count: -1}]}", "x: count: expected 0 to 10000, got -1"),
    ("{driver: d.com, devices: [{name: x, count: 10001}]}", "count: expected 0 to 10000"),
    ("{driver: '', devices: [{name: x}]}", "spec.driver: Required value"),
    ("{driver: d.com, devices: [{name: x, capacity: {m: lots}}]}", "quantities must match"),
    ("{driver: d.com, devices: [{name: x, taints: [{kee: a}]}]}", 'unknown field "spec.devices'),
    (
        (
            "{driver: d.com, network: true, devices: []}\n---\n"
            "{driver: d.com, network: true, devices: []}"
        ),
        'pool: expected another name than "network", which an earlier document has',
    ),
    ("{", "cannot be read: line 2"),
    (
        (
            "{driver: d.com, devices: [{name: gpu, counters: {m: 8},"
            " partitions: [{name: part, counters: {slices: 1}}]}]}"
        ),
        "gpu, partition part: counters: gpu has no counter 'slices'",
    ),
    (
        "{driver: d.com, devices: [{name: gpu, partitions: [{name: part, counters: {m: 1}}]}]}",
        "gpu, partition part: counters: gpu has no counter 'm'",
    ),
    (
        "{driver: d.com, devices: [{name: gpu, counters: {m: 8}, partitions: [{name: part}]}]}",
        "gpu, partition part: counters: expected the amounts that the part takes",
    ),
]


@pytest.mark.parametrize(("text", "problem"), BROKEN, ids=[text for text, _ in BROKEN])
def test_a_broken_file_is_refused_with_its_name_and_the_field(
    file: Path, text: str, problem: str
) -> None:
    file.write_text(text)
    with pytest.raises(InventoryError) as refused:
        read_inventories(file)
    assert str(refused.value).startswith(str(file))
    assert problem in str(refused.value)


def test_a_missing_file_is_refused(file: Path) -> None:
    with pytest.raises(InventoryError, match="cannot be read: No such file"):
        read_inventories(file)


def test_the_built_in_file_has_devices_and_their_classes() -> None:
    built_in = pools(read_inventories(DEVICES), NODES)
    assert [(pool.driver, pool.name) for pool in built_in] == [
        ("gpu.example.com", "node-1"),
        ("gpu.example.com", "node-2"),
        ("mig.example.com", "node-3"),
        ("fpga.example.com", "rack"),
    ]
    assert {document["kind"] for document, _ in read_objects(DEVICES)} == {"DeviceClass"}
