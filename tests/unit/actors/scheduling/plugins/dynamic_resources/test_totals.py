"""The devices that nodes have of an extended resource, and those that claims hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from berth.actors.scheduling.kube.devices import (
    DEVICE_CLASS_PREFIX,
    DeviceRequestAllocationResult,
    InFlightAllocation,
)
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.actors.scheduling.model.cluster_objects import UnlistedError
from berth.actors.scheduling.plugins.dynamic_resources.totals import DeviceTotals
from berth.plugin import DeviceClass, ResourceClaim, ResourceSlice, Snapshot
from tests.kit.devices import DRIVER, GPU, allocated, cluster, device_class, node, resource_slice
from tests.kit.documents import Document

GPUS = device_class("gpus", extendedResourceName=GPU)
LARGE = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("8Gi")) >= 0'


def counted(
    snapshot: Snapshot, resource: str = GPU, totals: DeviceTotals | None = None
) -> dict[str, tuple[int, int]]:
    """Returns the devices of each node and how many are allocated, or amounts of the node."""
    nodes = snapshot.all()
    have, used = nodes.columns.allocatable(resource), nodes.columns.requested(resource)
    rows = nodes.rows
    devices, taken = (totals or DeviceTotals()).in_place(
        resource, nodes, have[rows].copy(), used[rows].copy()
    )
    pairs = zip(devices.tolist(), taken.tolist(), strict=True)
    return {name: pair for name, pair in zip(nodes.columns.names, pairs, strict=True) if name}


def count(*objects: Document, resource: str = GPU, **allocatable: int) -> tuple[int, int]:
    """Returns the same for one node, "n"."""
    return counted(cluster(node("n", {"zone": "a"}, **allocatable), *objects), resource)["n"]


def gpu(name: str, memory: str, **parts: Any) -> Document:
    return {"name": name, "capacity": {"memory": {"value": memory}}, **parts}


def test_devices_of_a_class() -> None:
    assert count(GPUS, resource_slice("n", "a")) == (1, 0)
    implicit = f"{DEVICE_CLASS_PREFIX}gpus"
    assert count(device_class("gpus"), resource_slice("n", "a"), resource=implicit) == (1, 0)
    assert count(device_class("gpus"), resource_slice("n", "a")) == (0, 0)
    assert count(GPUS) == (0, 0)


def test_amounts_come_first() -> None:
    assert count(GPUS, resource_slice("n", "a"), gpu=4) == (4, 0)
    assert count(GPUS, resource_slice("n", "a"), gpu=0) == (1, 0)


def test_allocated_devices() -> None:
    devices = resource_slice("n", "a", "b", "c")
    whole, shared = allocated("whole", "n", "a"), allocated("shared", "n", "b", shareID="s")
    assert count(GPUS, devices, whole) == (3, 1)
    assert count(GPUS, devices, shared) == (3, 1)
    assert count(GPUS, devices, whole, shared) == (3, 2)
    assert count(GPUS, devices, allocated("admin", "n", "a", adminAccess=True)) == (3, 0)
    assert count(GPUS, devices, allocated("elsewhere", "other", "a")) == (3, 0)


def test_an_allocation_that_is_not_written_yet() -> None:
    snapshot, totals = cluster(node(), GPUS, resource_slice("n", "a", "b")), DeviceTotals()
    assert counted(snapshot, totals=totals) == {"n": (2, 0)}
    result = DeviceRequestAllocationResult(driver=DRIVER, pool="n", device="b")
    pending = InFlightAllocation(metadata=ObjectMeta(name="uid"), results=(result,))
    snapshot.objects.assume(pending)
    assert counted(snapshot, totals=totals) == {"n": (2, 1)}
    snapshot.objects.restore(pending)
    assert counted(snapshot, totals=totals) == {"n": (2, 0)}


def test_every_selector_of_the_class_must_match() -> None:
    devices = resource_slice("n", gpu("a", "16Gi"), gpu("b", "4Gi"))
    driver = f'device.driver == "{DRIVER}"'
    assert count(device_class("c", driver, extendedResourceName=GPU), devices) == (2, 0)
    assert count(device_class("c", driver, LARGE, extendedResourceName=GPU), devices) == (1, 0)
    unknown = device_class("c", extendedResourceName=GPU)
    unknown["spec"]["selectors"] = [{}]
    assert count(unknown, devices) == (2, 0)


@pytest.mark.parametrize("expression", ["device.driver +", 'device.attributes["x"].no == 1'])
def test_nothing_is_counted_where_a_selector_fails(expression: str) -> None:
    failing = device_class("c", expression, extendedResourceName=GPU)
    assert count(failing, resource_slice("n", "a")) == (0, 0)


def test_devices_for_some_nodes() -> None:
    zone = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    there: Document = {"nodeSelector": {"nodeSelectorTerms": zone}}
    everywhere = resource_slice("all", "a", "b", allNodes=True)
    by_zone = resource_slice("zone", "a", nodeName=None, **there)
    of_each = resource_slice(
        "each",
        {"name": "a", "nodeName": "n"},
        {"name": "b", "nodeName": "m"},
        {"name": "c", **there},
        {"name": "d", "allNodes": True},
        nodeName=None,
        perDeviceNodeSelection=True,
    )
    nodes = (node("n", {"zone": "a"}), node("m", {"zone": "b"}))
    for slices, n, m in [
        ([everywhere], 2, 2),
        ([by_zone], 1, 0),
        ([of_each], 3, 2),
        ([everywhere, by_zone, of_each, resource_slice("m", "a")], 6, 5),
    ]:
        assert counted(cluster(*nodes, GPUS, *slices)) == {"n": (n, 0), "m": (m, 0)}


def test_nothing_is_counted_where_a_node_selector_cannot_be_read() -> None:
    bad = [{"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}]
    unreadable_pools = resource_slice(
        "zone", "a", nodeName=None, nodeSelector={"nodeSelectorTerms": bad}
    )
    assert count(GPUS, unreadable_pools, resource_slice("n", "a")) == (0, 0)


def test_pools_count_in_any_state() -> None:
    incomplete = resource_slice("n", "a", pool={"name": "n", "resourceSliceCount": 2})
    twice = resource_slice("n", "a", "a")
    assert count(GPUS, incomplete) == (1, 0)
    assert count(GPUS, twice) == (2, 0)


@pytest.mark.parametrize("kind", [DeviceClass, ResourceSlice, ResourceClaim])
def test_objects_that_are_not_listed(kind: type) -> None:
    snapshot = cluster(node(), GPUS)
    snapshot.objects.kind_listed(kind, "forbidden")
    with pytest.raises(UnlistedError, match="forbidden"):
        counted(snapshot)


def test_a_resource_without_a_class_needs_no_slices() -> None:
    snapshot = cluster(node(gpu=3))
    snapshot.objects.kind_listed(ResourceSlice, "forbidden")
    assert counted(snapshot) == {"n": (3, 0)}


def test_changes_are_followed() -> None:
    snapshot, totals = cluster(node(), GPUS, resource_slice("n", gpu("a", "4Gi"))), DeviceTotals()
    assert counted(snapshot, totals=totals) == {"n": (1, 0)}
    for document, expected in (
        (device_class("gpus", LARGE, extendedResourceName=GPU), (0, 0)),
        (resource_slice("n", gpu("a", "4Gi"), gpu("b", "16Gi"), gpu("c", "16Gi")), (2, 0)),
        (allocated("held", "n", "a", "b"), (2, 1)),
        (allocated("held", "n", "a"), (2, 0)),
    ):
        item = decode(document)
        assert item is not None
        snapshot.objects.put(item)
        assert counted(snapshot, totals=totals) == {"n": expected}


def test_only_the_nodes_of_a_view_are_counted() -> None:
    snapshot = cluster(
        node("n"), node("m"), GPUS, resource_slice("n", "a"), resource_slice("m", "a", "b")
    )
    view = snapshot.rows(np.array([snapshot.columns.row_of["m"]]))
    nothing = np.zeros(1, dtype=np.int64)
    devices, taken = DeviceTotals().in_place(GPU, view, nothing, nothing)
    assert (devices.tolist(), taken.tolist()) == ([2], [0])
