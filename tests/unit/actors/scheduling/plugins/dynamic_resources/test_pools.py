"""The pools of devices that a node sees."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.devices import ResourceSlice
from berth.actors.scheduling.plugins.dynamic_resources.pools import (
    NodePools,
    Slice,
    pools_of,
    slices_targeting,
    unreadable_pools,
)
from berth.actors.scheduling.plugins.dynamic_resources.requests import AllocationError
from tests.kit.devices import DRIVER, node, resource_slice
from tests.kit.documents import Document

N = msgspec.convert(node("n", {"zone": "a"}), Node)


def pool(count: int = 1, generation: int = 1, name: str = "p") -> Document:
    pool = {"name": name, "generation": generation, "resourceSliceCount": count}
    return {"pool": pool}


def seen(*documents: Document) -> NodePools:
    slices = [
        Slice(msgspec.convert(document, ResourceSlice), lambda *_: 0) for document in documents
    ]
    try:
        served = slices_targeting(N, slices)
    except AllocationError as problem:
        return unreadable_pools(problem)
    return pools_of(N, served, lambda id_: [s for s in slices if s.pool == id_])


def states(*documents: Document) -> dict[str, str]:
    """Returns by pool its devices, or why it has none."""
    return {
        pool.id[1]: "incomplete"
        if pool.incomplete
        else pool.invalid or " ".join(device.id[2] for device in pool.devices)
        for pool in seen(*documents).pools
    }


def selector(*zones: str, operator: str = "In") -> Document:
    need = {"key": "zone", "operator": operator, "values": [*zones]}
    return {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [need]}]}}


def test_slices_that_serve_the_node() -> None:
    for document, serves in (
        (resource_slice("n", "d", **pool()), True),
        (resource_slice("m", "d", **pool()), False),
        (resource_slice("", "d", allNodes=True, **pool()), True),
        (resource_slice("", "d", **selector("a"), **pool()), True),
        (resource_slice("", "d", **selector("b"), **pool()), False),
        (resource_slice("", "d", nodeName=None, **pool()), False),
    ):
        assert states(document) == ({"p": "d"} if serves else {})


def test_a_selector_that_cannot_be_read() -> None:
    bad = seen(resource_slice("", "d", name="s", **selector("a", operator="Gt"), **pool()))
    assert bad.problem == (
        "gather pool information: failed to perform node selection for slice s: failed to parse "
        "node selector &NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{"
        "MatchExpressions:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:zone,Operator:Gt,"
        "Values:[a],},},MatchFields:[]NodeSelectorRequirement{},},},}: "
        "nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "
        "\"a\": for 'Gt', 'Lt' operators, the value must be an integer"
    )
    assert not bad.pools


def test_only_the_newest_generation_counts() -> None:
    old, new = pool(2, 1), pool(1, 2)
    slices = [
        resource_slice("n", "a", name="1", **old),
        resource_slice("n", "b", name="2", **old),
        resource_slice("n", "c", name="3", **new),
    ]
    assert states(*slices) == states(*reversed(slices)) == {"p": "c"}


def test_slices_of_other_nodes_complete_a_pool() -> None:
    here, there = (resource_slice(name, "d" + name, name=name, **pool(2)) for name in "nm")
    assert states(here) == {"p": "incomplete"}
    assert states(here, there) == {"p": "dn"}
    assert states(there) == {}
    # A newer generation is being published elsewhere: the old devices are not used,
    newer = resource_slice("m", "d", name="m", **pool(2, 2))
    assert states(here, newer) == {}
    # unless the old generation seems complete.
    other = resource_slice("n", "d", name="o", **pool(2))
    assert states(here, other, newer) == {"p": "dn d"}


def test_names_of_devices() -> None:
    two = [resource_slice("n", "d", name=name, **pool(2)) for name in "ab"]
    assert states(*two) == {"p": "slice b, device d: duplicate device name d"}
    elsewhere = resource_slice("m", "d", name="b", **pool(2))
    assert states(two[0], elsewhere) == {"p": "d"}
    assert states(two[0] | {"spec": two[0]["spec"] | pool()}, resource_slice("n", "d")) == {
        "n": "d",
        "p": "d",
    }


def consuming(counter_set: str, counter: str) -> Document:
    consumption = {"counterSet": counter_set, "counters": {counter: {"value": "1"}}}
    return {"name": "d", "consumesCounters": [consumption]}


def counters(name: str, *sets: str, of: str = "n", **more: Any) -> Document:
    shared = [{"name": each, "counters": {"memory": {"value": "2"}}} for each in sets]
    return resource_slice(of, name=name, sharedCounters=shared, **more)


def test_counters() -> None:
    def of(device: Document, *others: Document, count: int = 2) -> str:
        return states(resource_slice("n", device, name="s", **pool(count)), *others)["p"]

    sets = counters("c", "set", **pool(2))
    good, where = consuming("set", "memory"), "slice s, device d: consumesCounters"
    assert of(good, sets) == "d"
    # Counters serve every node.
    assert of(good, counters("c", "set", of="m", **pool(2))) == "d"
    assert of(consuming("no", "memory"), sets) == f"{where}: counter set no not found"
    missing = f"{where}: counter cores not found in counter set set"
    assert of(consuming("set", "cores"), sets) == missing
    assert of(good, counters("c", "set", **pool(1, name="o")), count=1) == (
        f"{where}: counter set set not found"
    )
    twice = "slice {}: sharedCounters: duplicate counter set name set"
    assert of(good, counters("c", "set", "set", **pool(2))) == twice.format("c")
    more = [counters(name, "set", **pool(3)) for name in "ce"]
    assert of(good, *more, count=3) == twice.format("e")
    # What devices of other nodes consume matters too.
    far = resource_slice("m", consuming("no", "memory"), name="m", **pool(3))
    problem = of(good, counters("c", "set", **pool(3)), far, count=3)
    assert problem == "slice m, device d: consumesCounters: counter set no not found"


def test_the_order_of_pools() -> None:
    waits = {"name": "d", "bindingConditions": ["ready"]}
    documents = [
        resource_slice("n", waits, name="1", **pool(name="a")),
        resource_slice("n", "d", name="2", **pool(name="c")),
        resource_slice("n", "d", name="3", driver="a.example.com", **pool(name="d")),
        resource_slice("n", "d", "d", name="4", **pool(name="b")),
    ]
    drivers = [pool.id for pool in seen(*documents).pools]
    first = ("a.example.com", "d")
    assert drivers == [first, (DRIVER, "b"), (DRIVER, "c"), (DRIVER, "a")]
    expected = ["a.example.com/d/d", f"{DRIVER}/c/d", f"{DRIVER}/a/d"]
    assert [str(device) for device, _ in seen(*documents).candidates] == expected
    assert seen(*documents).any_invalid
