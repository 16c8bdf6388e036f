"""The allocation that is written for the devices that the allocator chose."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.devices import AllocationResult, DeviceClass, ResourceClaim
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.plugins.dynamic_resources.allocation_result import allocation_result
from berth.actors.scheduling.plugins.dynamic_resources.allocator import allocate
from berth.actors.scheduling.plugins.dynamic_resources.inventory import Inventory
from berth.actors.scheduling.plugins.dynamic_resources.requests import (
    AllocationError,
    claim_requests,
)
from berth.actors.scheduling.plugins.steps import Steps
from tests.kit.devices import claim, device_class, node, request, resource_slice
from tests.kit.documents import Document

N = msgspec.convert(node("n", {"zone": "a"}), Node)


def written_for(document: Document, *objects: Document, briefly: bool = False) -> AllocationResult:
    objects_ = ClusterObjects()
    classes: dict[str, DeviceClass] = {}
    for other in (device_class(), *objects):
        item = decode(other)
        assert item is not None
        objects_.put(item)
        if isinstance(item, DeviceClass):
            classes[item.metadata.name] = item
    inventory = Inventory(objects_)
    inventory.refresh()
    claim_ = msgspec.convert(document, ResourceClaim)
    requests = claim_requests(claim_, classes.get)
    devices = allocate([requests], inventory.pools(N), inventory, Steps(1000)).devices
    assert devices is not None
    return allocation_result(claim_, devices[0], "n", briefly=briefly)


def first(name: str, *subs: Document) -> Document:
    sub_requests = [{"name": sub["name"], **sub["exactly"]} for sub in subs]
    return {"name": name, "firstAvailable": sub_requests}


def test_the_fields_of_a_result() -> None:
    toleration = {"key": "k", "operator": "Exists"}
    device = {"name": "d", "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    (plain,) = written_for(claim("c"), resource_slice("n", "d")).devices.results
    expected = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "d"}
    assert msgspec.to_builtins(plain) == expected
    admin = request(adminAccess=True, tolerations=[toleration])
    (full,) = written_for(claim("c", admin), resource_slice("n", device)).devices.results
    assert full.admin_access is True
    assert [it.key for it in full.tolerations] == ["k"]
    assert full.binding_conditions == ("ready",)
    assert full.binding_failure_conditions == ("broken",)
    without = claim("c", request(adminAccess=False))
    assert written_for(without, resource_slice("n", "d")).devices.results == (plain,)


def test_shares_have_ids_of_their_own() -> None:
    shared: Document = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "4"}, "cores": {"value": "2"}},
    }
    sizes: Any = {"capacity": {"requests": {"memory": "1", "cores": "1"}}}
    two = claim("c", request("x", **sizes), request("y", **sizes))
    x, y = written_for(two, resource_slice("n", shared)).devices.results
    assert x.device == y.device == "d"
    assert x.consumed_capacity == {"memory": "1", "cores": "1"}
    assert x.share_id
    assert x.share_id != y.share_id
    (own,) = written_for(claim("c"), resource_slice("n", "d")).devices.results
    assert (own.share_id, own.consumed_capacity) == (None, {})


def config(value: str, *requests: str) -> Document:
    opaque = {"driver": "d", "parameters": {"is": value}}
    return {"opaque": opaque, **({"requests": [*requests]} if requests else {})}


def written(allocation: AllocationResult) -> list[tuple[Any, ...]]:
    return [
        (it.source, it.opaque.parameters["is"] if it.opaque else None, *it.requests)
        for it in allocation.devices.config
    ]


def test_the_configuration_of_classes_comes_first_and_once() -> None:
    classes = [
        device_class("one", config=[config("1"), config("2")]),
        device_class("two", config=[config("3")]),
    ]
    devices = resource_slice("n", "a", "b", "c")
    requests = [request("r", of="two"), request("s", of="one"), request("t", of="two")]
    subject = claim("c", *requests, config=[config("4"), config("5", "t", "s"), config("6", "u")])
    assert written(written_for(subject, devices, *classes)) == [
        ("FromClass", "3", "r", "t"),
        *(("FromClass", "1", "s"), ("FromClass", "2", "s")),
        ("FromClaim", "4"),
        # Once for each request that it names.
        *(("FromClaim", "5", "t", "s"), ("FromClaim", "5", "t", "s")),
    ]


def test_the_configuration_of_the_chosen_sub_request() -> None:
    classes = [device_class(name, config=[config(name)]) for name in ("one", "two")]
    subject = claim(
        "c",
        first("r", request("many", 9, of="one"), request("few", of="two")),
        config=[config("1", "r"), config("2", "r/many"), config("3", "r/few"), config("4", "few")],
    )
    expected = [("FromClass", "two", "r/few"), ("FromClaim", "1", "r"), ("FromClaim", "3", "r/few")]
    assert written(written_for(subject, resource_slice("n", "a"), *classes)) == expected


REQUESTS = [request("r0"), request("r1"), request("r2")]
SUBS = [request("s0"), request("s1", of="two")]
# Rows of TestAllocator of Kubernetes 1.37, in allocator_testing.go of the module
# k8s.io/dynamic-resource-allocation; the last four are not upstream's.
BRIEFLY: dict[str, tuple[Document, Document, list[tuple[Any, ...]]]] = {
    "with-class-device-config": (
        device_class(config=[config("class")]),
        claim("c", REQUESTS[0]),
        [("FromClass", "class")],
    ),
    "with-claim-config-for-two-requests": (
        device_class(),
        claim("c", *REQUESTS, config=[config("claim", "r0", "r1")]),
        [("FromClaim", "claim", "r0", "r1")],
    ),
    "claim-with-device-config": (
        device_class(),
        claim("c", REQUESTS[0], config=[config("claim", "r0")]),
        [("FromClaim", "claim")],
    ),
    "prioritized-list-subrequests-with-claim-config": (
        device_class("two"),
        claim(
            "c",
            first("r0", request("s0", 9), SUBS[1]),
            config=[config("foo", "r0/s0"), config("bar", "r0/s1")],
        ),
        [("FromClaim", "bar")],
    ),
    "prioritized-list-subrequests-with-class-config": (
        device_class("two", config=[config("bar")]),
        claim("c", first("r0", request("s0", 9), SUBS[1])),
        [("FromClass", "bar")],
    ),
    "claim-config-scoped-to-subrequests-of-one-request": (
        device_class("two"),
        claim("c", first("r0", *SUBS), REQUESTS[1], config=[config("scoped", "r0/s0", "r0/s1")]),
        [("FromClaim", "scoped", "r0/s0", "r0/s1")],
    ),
    "for all by the names of requests and sub-requests": (
        device_class("two"),
        claim("c", first("r0", *SUBS), REQUESTS[1], config=[config("all", "r0/s0", "r1")]),
        [("FromClaim", "all")],
    ),
    "for all, and for another request beside them": (
        device_class("two"),
        claim("c", *REQUESTS[:2], config=[config("all", "r0", "r1", "gone")]),
        [("FromClaim", "all")],
    ),
    "of a class for some requests": (
        device_class("two", config=[config("two")]),
        claim("c", REQUESTS[0], request("r1", of="two"), request("r2", of="two")),
        [("FromClass", "two", "r1", "r2")],
    ),
    "for a sub-request that is not chosen": (
        device_class("two"),
        claim("c", first("r0", *SUBS), config=[config("other", "r0/s1")]),
        [],
    ),
}


@pytest.mark.parametrize("name", BRIEFLY)
def test_a_configuration_is_there_once_and_names_what_it_is_for(name: str) -> None:
    classes, subject, expected = BRIEFLY[name]
    result = written_for(subject, resource_slice("n", "a", "b", "c"), classes, briefly=True)
    assert written(result) == expected


def zones(*names: str, key: str = "zone") -> Document:
    need = {"key": key, "operator": "In", "values": [*names]}
    return {"nodeSelectorTerms": [{"matchExpressions": [need]}]}


THIS = {
    "nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    ]
}


def test_the_nodes_where_the_devices_can_be_used() -> None:
    def nodes(*slices: Document) -> Any:
        subject = claim("c", request(count=len(slices)))
        selector = written_for(subject, *slices).node_selector
        return None if selector is None else msgspec.json.decode(msgspec.json.encode(selector))

    def slice_of(name: str, device: Document | str = "d", **spec: Any) -> Document:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        return resource_slice("n", device, name=name, **{"nodeName": None, "pool": pool, **spec})

    local, everywhere = slice_of("l", nodeName="n"), slice_of("e", allNodes=True)
    in_a = slice_of("a", nodeSelector=zones("a", "b"))
    assert nodes(local) == THIS
    assert nodes(everywhere) is None
    assert nodes(everywhere, local) == THIS
    assert nodes(in_a, everywhere) == zones("a", "b")
    assert nodes(in_a, local) == THIS
    # The same requirement stands once, other ones together in one term.
    assert nodes(in_a, slice_of("b", nodeSelector=zones("b", "a"))) == zones("a", "b")
    (term,) = nodes(in_a, slice_of("b", nodeSelector=zones("a")))["nodeSelectorTerms"]
    assert [it["values"] for it in term["matchExpressions"]] == [["a", "b"], ["a"]]
    # A device that binds to its node, or has a node of its own.
    assert nodes(slice_of("x", {"name": "d", "bindsToNode": True}, allNodes=True)) == THIS
    per_device = {"perDeviceNodeSelection": True}
    assert nodes(slice_of("x", {"name": "d", "nodeName": "n"}, **per_device)) == THIS
    assert nodes(slice_of("x", {"name": "d", "allNodes": True}, **per_device)) is None
    chosen = {"name": "d", "nodeSelector": zones("a")}
    assert nodes(slice_of("x", chosen, **per_device)) == zones("a")


def test_a_node_selector_of_several_terms() -> None:
    terms = {"nodeSelectorTerms": [*zones("a")["nodeSelectorTerms"] * 2]}
    expected = (
        "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms"
    )
    with pytest.raises(AllocationError, match=expected):
        written_for(claim("c"), resource_slice("n", "d", nodeName=None, nodeSelector=terms))
