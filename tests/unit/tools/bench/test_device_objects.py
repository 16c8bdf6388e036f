"""The driver's slices, and allocations made without the scheduler."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.devices import Device, DeviceClass, ResourceClaim, ResourceSlice
from berth.actors.scheduling.kube.meta import ObjectMeta
from berth.tools.bench import device_objects
from berth.tools.bench.device_objects import FirstFit, resource_slice
from berth.tools.bench.pod_waits import UnsupportedError
from berth.tools.bench.workload_cluster import ClusterError

CLASS = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "driver d"}}]}}
WITH_DRA = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "dra", "operator": "In", "values": ["y"]}]}]
}


def selects(expression: str, driver: str, device: Device) -> bool:
    """Stands for CEL: the expressions are `driver NAME` and `device NAME`."""
    what, _, name = expression.partition(" ")
    return name == {"driver": driver, "device": device.name}[what]


def node(name: str, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def claim(name: str, *requests: dict[str, Any], **devices: Any) -> ResourceClaim:
    listed = [
        {"name": f"r{number}", "exactly": {"deviceClassName": "gpu", **request}}
        for number, request in enumerate(requests or ({},))
    ]
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"devices": {"requests": listed, **devices}}},
        ResourceClaim,
    )


def shared(name: str, *devices: str, driver: str = "d") -> ResourceSlice:
    spec = {
        "driver": driver,
        "pool": {"name": name},
        "nodeSelector": WITH_DRA,
        "devices": [{"name": device} for device in devices],
    }
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def own(node: str, devices: int, driver: str = "d") -> ResourceSlice:
    return msgspec.convert(resource_slice(driver, node, devices), ResourceSlice)


def allocator(
    nodes: list[Node], slices: list[ResourceSlice], claims: list[ResourceClaim] | None = None
) -> FirstFit:
    classes = [msgspec.convert(CLASS, DeviceClass)]
    return FirstFit(nodes, slices, classes, claims or [], selects, Random(1))


def taken(allocator: FirstFit, document: ResourceClaim) -> list[tuple[str, str, str]] | None:
    allocation = allocator.allocate(document)
    if allocation is None:
        return None
    return [(result.request, result.pool, result.device) for result in allocation.devices.results]


def test_the_slice_of_a_driver() -> None:
    resources = own("n1", 2)
    assert (resources.metadata.name, resources.spec.node_name, resources.spec.driver) == (
        "n1",
        "n1",
        "d",
    )
    assert (resources.spec.pool.name, resources.spec.pool.resource_slice_count) == ("n1", 1)
    first, second = resources.spec.devices
    assert (first.name, second.name) == ("instance-0", "instance-1")
    assert second.attributes["dra.example.com/numa"].int_ == 1
    assert second.attributes["driverVersion"].version == "1.2.3"
    assert second.capacity["memory"].value == "1Gi"


def test_every_device_is_given_once_and_then_none() -> None:
    fit = allocator([node("a"), node("b")], [own("a", 2), own("b", 1), own("b", 5, driver="e")])
    devices = [taken(fit, claim(f"c{number}")) for number in range(3)]
    expected = [("r0", "a", "instance-0"), ("r0", "a", "instance-1"), ("r0", "b", "instance-0")]
    assert sorted(device for results in devices for device in results or ()) == expected
    assert taken(fit, claim("late")) is None


def test_the_allocation_of_a_nodes_device_names_the_node() -> None:
    allocation = allocator([node("a")], [own("a", 1)]).allocate(claim("c"))
    assert allocation is not None
    assert allocation.node_selector is not None
    ((term,),) = [allocation.node_selector.node_selector_terms]
    assert [(each.key, each.values) for each in term.match_fields] == [("metadata.name", ("a",))]


def test_devices_that_are_allocated_already_stay_so() -> None:
    slices = [own("a", 2)]
    first = claim("c0")
    allocation = allocator([node("a")], slices).allocate(first)
    assert allocation is not None
    status = msgspec.structs.replace(first.status, allocation=allocation)
    fit = allocator([node("a")], slices, [msgspec.structs.replace(first, status=status)])
    assert taken(fit, claim("c1")) == [("r0", "a", "instance-1")]
    assert taken(fit, claim("c2")) is None


def test_shared_devices_go_to_nodes_that_the_slice_selects() -> None:
    slices = [shared("s", "x", "y"), shared("t", "y")]
    fit = allocator([node("a"), node("b", dra="y")], slices)
    by_name = {"selectors": [{"cel": {"expression": "device y"}}]}
    allocation = fit.allocate(claim("c", by_name))
    assert allocation is not None
    assert allocation.node_selector == slices[0].spec.node_selector
    assert taken(fit, claim("d", by_name)) == [("r0", "t", "y")]
    assert taken(fit, claim("e", by_name)) is None
    assert taken(fit, claim("f")) == [("r0", "s", "x")]
    assert taken(allocator([node("a")], slices), claim("c")) is None


def test_requests_of_a_claim_get_devices_of_one_node() -> None:
    fit = allocator([node("a", dra="y"), node("b")], [own("b", 2), shared("s", "x"), own("a", 1)])
    assert taken(fit, claim("c", {"count": 3})) is None
    document = claim("d", {}, {})
    results = taken(fit, document)
    assert results in (
        [("r0", "a", "instance-0"), ("r1", "s", "x")],
        [("r0", "b", "instance-0"), ("r1", "b", "instance-1")],
    )


@pytest.mark.parametrize(
    "document",
    [
        claim("c", {"allocationMode": "All"}),
        claim("c", {"capacity": {"requests": {"memory": "1"}}}),
        claim("c", {"adminAccess": True}),
        claim("c", {}, constraints=[{"matchAttribute": "a/b"}]),
        msgspec.convert(
            {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": []}]}}},
            ResourceClaim,
        ),
    ],
)
def test_other_claims_are_not_allocated(document: ResourceClaim) -> None:
    with pytest.raises(UnsupportedError, match="allocResourceClaims with a claim such as"):
        allocator([node("a")], [own("a", 1)]).allocate(document)


def test_a_missing_class_is_an_error() -> None:
    with pytest.raises(ClusterError, match="no DeviceClass other"):
        allocator([node("a")], [own("a", 1)]).allocate(claim("c", {"deviceClassName": "other"}))


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("1 +", r"^the selector 1 \+ does not compile: "),
        ("device.attributes['d'].absent == 1", "^the selector .* fails: "),
    ],
)
def test_a_selector_that_cannot_be_asked_is_an_error(expression: str, problem: str) -> None:
    with pytest.raises(ClusterError, match=problem):
        device_objects.selects(expression, "d", Device(name="x"))
