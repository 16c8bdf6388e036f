"""Tests of the inventory: what it notes as changed, and that its memory stays bounded."""

from __future__ import annotations

import gc
from weakref import ref

import msgspec
import pytest

from berth.actors.scheduling.plugins.dynamic_resources import device_answers
from berth.actors.scheduling.plugins.dynamic_resources.allocator import allocate
from berth.actors.scheduling.plugins.dynamic_resources.consumed_capacity import CapacityAmount
from berth.actors.scheduling.plugins.dynamic_resources.inventory import Inventory
from berth.actors.scheduling.plugins.dynamic_resources.plugin import DynamicResources
from berth.actors.scheduling.plugins.dynamic_resources.pools import NodePools
from berth.actors.scheduling.plugins.dynamic_resources.requests import claim_requests
from berth.actors.scheduling.plugins.dynamic_resources.slices import EVERY_NODE
from berth.actors.scheduling.plugins.steps import Steps, TimedOutError
from berth.plugin import CycleState, Pod, PodInfo, ResourceClaim, ResourceSlice
from tests.kit.devices import (
    DRIVER,
    allocated,
    claim,
    cluster,
    device_class,
    handle,
    node,
    pod,
    resource_slice,
    using,
)
from tests.kit.documents import Document


def kept() -> int:
    gc.collect()
    return sum(isinstance(item, NodePools) for item in gc.get_objects())


def test_nodes_that_are_gone() -> None:
    """One inventory serves a cluster whose nodes all have new names in each round."""
    before = kept()
    anywhere = {"name": "d", "allNodes": True}
    each = resource_slice("n", anywhere, nodeName=None, perDeviceNodeSelection=True)
    first = cluster(device_class(), claim("c"), each, node("n"))
    plugin = DynamicResources({}, handle())
    info = PodInfo(msgspec.convert(using(pod({}), "c"), Pod))
    for round_ in range(10):
        nodes = [node(f"n-{round_}-{number}") for number in range(100)]
        snapshot = cluster(*nodes)
        snapshot.objects = first.objects
        state = CycleState()
        plugin.pre_filter(state, info, snapshot)
        plugin.filter(state, info, snapshot.all())
    assert kept() - before < 600


class _Amounts(dict[str, CapacityAmount]):
    """An answer to which the test can refer weakly."""


def test_devices_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[ref[_Amounts]] = []

    def amounts(*_: object) -> _Amounts:
        answer = _Amounts()
        answers.append(ref(answer))
        return answer

    monkeypatch.setattr(device_answers, "MOST_CONSUMED", 10)
    monkeypatch.setattr(device_answers, "consumed_capacity", amounts)
    snapshot = cluster(device_class(), node("n"))
    inventory = Inventory(snapshot.objects)
    requests = claim_requests(msgspec.convert(claim("c"), ResourceClaim), lambda name: None)
    (sub_request,) = requests.requests[0].sub_requests
    sub_request.problem = ""
    on = snapshot.all().node(0)
    assert on is not None
    for number in range(50):
        device = {"name": "d", "attributes": {"heat": {"int": number}}}
        snapshot.objects.put(msgspec.convert(resource_slice("n", device), ResourceSlice))
        inventory.refresh()
        assert allocate([requests], inventory.pools(on), inventory, Steps(100)).devices
    assert len(answers) == 50
    assert sum(answer() is not None for answer in answers) <= 10


def test_selectors_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_answers, "MOST_MATCHES", 12)
    devices: list[str | Document] = [
        {"name": f"d{number}", "attributes": {"a": {"int": number}}} for number in range(5)
    ]
    snapshot = cluster(node("n"), resource_slice("n", *devices))
    inventory = Inventory(snapshot.objects)
    inventory.refresh()
    on = snapshot.all().node(0)
    assert on is not None

    def is_kept(number: int) -> bool:
        """Evaluates a selector for all devices; true if all results are kept."""
        expression = f"device.attributes['{DRIVER}'].a == {number}"
        try:
            for device in inventory.devices(on):
                inventory.matches(expression, device, Steps(-1))
        except TimedOutError:
            for device in inventory.devices(on):
                inventory.matches(expression, device)
            return False
        return True

    assert [is_kept(number) for number in (0, 0, 1, 0, 2, 2, 1, 0)] == [
        *(False, True, False, True, False, True, True, False)
    ]


def test_a_claim_concerns_the_nodes_that_see_its_pool_at_present() -> None:
    snapshot = cluster(node("n"), claim("c"))
    inventory = Inventory(snapshot.objects)
    inventory.refresh()

    def changed_by(document: Document, kind: type[ResourceClaim | ResourceSlice]) -> set[str]:
        version = inventory.changed.version
        snapshot.objects.put(msgspec.convert(document, kind))
        inventory.refresh()
        return inventory.changed.since(version) or set()

    holds, free = allocated("c", "pool", "d"), claim("c")
    assert changed_by(holds, ResourceClaim) == set()
    for document, seen_by in (
        (resource_slice("a", "d", name="s"), {"a"}),
        (resource_slice("b", "d", name="s"), {"b"}),
        (resource_slice("b", "d", name="s", allNodes=True), {EVERY_NODE}),
    ):
        document["spec"]["pool"]["name"] = "pool"
        assert changed_by(document, ResourceSlice) >= seen_by
        assert changed_by(free, ResourceClaim) == seen_by
        assert changed_by(holds, ResourceClaim) == seen_by
        assert changed_by(holds, ResourceClaim) == set()
