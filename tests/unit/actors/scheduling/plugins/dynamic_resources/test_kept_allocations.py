"""What is kept from pod to pod stays bounded, and each namespace keeps its part."""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.scheduling.plugins.dynamic_resources import kept_allocations
from berth.actors.scheduling.plugins.dynamic_resources.extended import ClassesByResource
from berth.actors.scheduling.plugins.dynamic_resources.inventory import Inventory
from berth.actors.scheduling.plugins.dynamic_resources.kept_allocations import KeptAllocations
from berth.actors.scheduling.plugins.dynamic_resources.node_allocations import (
    NodeAllocations,
    PodRequests,
)
from berth.actors.scheduling.plugins.steps import NO_LIMIT
from berth.plugin import DeviceClass, Pod, ResourceClaim
from tests.kit.devices import claim, cluster, device_class, node, pod, request, resource_slice

SNAPSHOT = cluster(
    node(), device_class(), resource_slice("n", *(f"d{number}" for number in range(100)))
)
INVENTORY = Inventory(SNAPSHOT.objects)
INVENTORY.refresh()


def allocations(namespace: str = "a", devices: int = 1) -> NodeAllocations:
    document = pod({})
    document["metadata"]["namespace"] = namespace
    requests = PodRequests(
        msgspec.convert(document, Pod),
        (msgspec.convert(claim("c", request(count=devices)), ResourceClaim),),
        {},
        None,
    )
    kept = NodeAllocations(
        requests,
        INVENTORY,
        lambda name: SNAPSHOT.objects.get(DeviceClass, name),
        ClassesByResource(),
        SNAPSHOT,
        100,
    )
    kept.refresh(SNAPSHOT.all(), requests, NO_LIMIT)
    return kept


def test_the_shape_used_longest_ago_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_allocations, "MOST_SHAPES", 2)
    kept = KeptAllocations()
    kept.add(b"1", allocations())
    kept.add(b"2", allocations())
    assert kept.get(b"1")
    kept.add(b"3", allocations())
    assert [kept.get(shape) is not None for shape in (b"1", b"2", b"3")] == [True, False, True]


def test_a_namespace_with_many_shapes_drops_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_allocations, "MOST_SHAPES", 4)
    kept = KeptAllocations()
    kept.add(b"innocent", allocations("b"))
    for number in range(10):
        kept.add(b"%d" % number, allocations("a"))
    assert kept.get(b"innocent")
    assert kept.get(b"6") is None
    assert kept.get(b"7")


def test_the_largest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    small = allocations()
    large = allocations("b", devices=32)
    assert large.size > small.size
    monkeypatch.setattr(kept_allocations, "MOST_BYTES", small.size + large.size)
    kept = KeptAllocations()
    kept.add(b"1", small)
    kept.add(b"2", large)
    assert kept.get(b"1")
    assert kept.get(b"2")
    kept.add(b"3", allocations("c"))
    assert [kept.get(shape) is not None for shape in (b"1", b"2", b"3")] == [True, False, True]


def test_what_grew_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptAllocations()
    kept.add(b"1", allocations())
    kept.add(b"2", allocations())
    monkeypatch.setattr(kept_allocations, "MOST_BYTES", 0)
    for _ in range(kept_allocations.PODS_BETWEEN):
        assert kept.get(b"2")
    assert kept.get(b"1") is None
