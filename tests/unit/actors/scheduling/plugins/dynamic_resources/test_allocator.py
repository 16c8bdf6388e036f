"""Which devices a node gives to claims. Each case is a fact of the allocator in Kubernetes 1.36."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Node
from berth.actors.scheduling.kube.devices import DeviceClass, ResourceClaim
from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.plugins.dynamic_resources.allocator import allocate
from berth.actors.scheduling.plugins.dynamic_resources.features import EVERY_FEATURE, Features
from berth.actors.scheduling.plugins.dynamic_resources.inventory import Inventory
from berth.actors.scheduling.plugins.dynamic_resources.requests import (
    AllocationError,
    claim_requests,
)
from berth.actors.scheduling.plugins.steps import Steps, TimedOutError
from tests.kit.devices import DRIVER, allocated, claim, device_class, node, request, resource_slice
from tests.kit.documents import Document

CLASS = device_class()
N = msgspec.convert(node("n", {"zone": "a"}), Node)


def find(
    claims: list[Document],
    *objects: Document,
    steps: int = 10**5,
    features: Features = EVERY_FEATURE,
) -> list[str] | str | None:
    """Returns the devices that node n gives, each as "request device"; claims stand one after the
    other, with "|" between them. A string is the problem; None stands for no solution.
    """
    stored = ClusterObjects()
    classes: dict[str, DeviceClass] = {}
    for document in (CLASS, *objects):
        item = decode(document)
        assert item is not None
        stored.put(item)
        if isinstance(item, DeviceClass):
            classes[item.metadata.name] = item
    inventory = Inventory(stored, features)
    inventory.refresh()
    requests = [
        claim_requests(msgspec.convert(claim_document, ResourceClaim), classes.get)
        for claim_document in claims
    ]
    try:
        result = allocate(requests, inventory.pools(N), inventory, Steps(steps))
    except AllocationError as problem:
        return str(problem)
    if result.devices is None:
        if result.unready is not None:
            return result.unready.message("default/c")
        return "invalid resource pools" if result.invalid_pools else None
    words: list[str] = []
    for number, of_claim in enumerate(result.devices):
        words += ["|"] * bool(number)
        for each in of_claim:
            pool, device = each.device.id[1:]
            place = device if pool == "n" else f"{pool}/{device}"
            words.append(f"{each.sub_request.full_name} {place}")
    return words


def every(name: str = "r", **more: Any) -> Document:
    fields = {"deviceClassName": "gpu", "allocationMode": "All", **more}
    return {"name": name, "exactly": fields}


def first(name: str, *subs: Document) -> Document:
    """Returns a request for the first sub-request that is available."""
    sub_requests = [{"name": sub["name"], **sub["exactly"]} for sub in subs]
    return {"name": name, "firstAvailable": sub_requests}


def having(name: str, **values: int | str | bool | None) -> Document:
    """Returns a device with these attributes; None stands for a list."""
    attributes = {
        key: {"ints": [1]}
        if value is None
        else {{bool: "bool", int: "int", str: "string"}[type(value)]: value}
        for key, value in values.items()
    }
    return {"name": name, "attributes": attributes}


def where(expression: str) -> Document:
    return {"selectors": [{"cel": {"expression": expression}}]}


def attribute(name: str, value: object) -> Document:
    return where(f'device.attributes["{DRIVER}"].{name} == {value}')


# ------------------------------------------------------------------------------------ exact counts


def test_the_first_device_in_order_is_taken() -> None:
    slices = [
        resource_slice("n", "a", name="s2", pool={"name": "p", "resourceSliceCount": 2}),
        resource_slice("n", "b", name="s1", pool={"name": "p", "resourceSliceCount": 2}),
        resource_slice("n", "c", pool={"name": "o", "resourceSliceCount": 1}),
    ]
    # By the name of the pool, and then of the slice.
    assert find([claim("c", request(count=3))], *slices) == ["r o/c", "r p/b", "r p/a"]


def test_pools_with_binding_conditions_come_last() -> None:
    late = resource_slice("a", {"name": "d", "bindingConditions": ["ready"]}, nodeName="n")
    empty = resource_slice("b", {"name": "d", "bindingConditions": []}, nodeName="n")
    soon = resource_slice("z", "d", nodeName="n")
    assert find([claim("c", request(count=3))], late, soon, empty) == ["r z/d", "r a/d", "r b/d"]


def test_claims_are_allocated_together() -> None:
    devices = resource_slice("n", having("a", size=2), having("b", size=1))
    any_size, large = request("x"), request("y", **attribute("size", 2))
    assert find([claim("c"), claim("d")], devices) == ["r a", "|", "r b"]
    assert find([claim("c", any_size, large)], devices) == ["x b", "y a"]
    assert find([claim("c", any_size), claim("d", large)], devices) == ["x b", "|", "y a"]
    assert find([claim("c"), claim("d"), claim("e")], devices) is None
    assert find([], devices) == []


def test_devices_that_claims_hold() -> None:
    devices = resource_slice("n", "a", "b")
    held = allocated("held", "n", "a")
    watched = allocated("held", "n", "a", adminAccess=True)
    assert find([claim("c")], devices, held) == ["r b"]
    assert find([claim("c", request(count=2))], devices, held) is None
    assert find([claim("c", request(count=2))], devices, watched) == ["r a", "r b"]
    assert find([claim("c")], devices, allocated("held", "other", "a")) == ["r a"]


def test_a_claim_has_32_devices_at_most() -> None:
    devices = resource_slice("n", *(f"d{number:02}" for number in range(40)))
    devices_of_claim = find([claim("c", request(count=32))], devices)
    assert isinstance(devices_of_claim, list)
    assert len(devices_of_claim) == 32
    limit = "number of requested devices 33 exceeds the claim limit of 32"
    for requests in ([request(count=33)], [request("x", 20), request("y", 13)]):
        assert find([claim("c", *requests)], devices) == f"claim default/c: {limit}"
    sub_requests = first("x", request("all", 31), request("some", 2))
    assert find([claim("c", sub_requests, request("y", 2))], devices) == [
        *("x/some d00", "x/some d01"),
        *("y d02", "y d03"),
    ]


def test_a_sub_request_that_needs_too_many_devices_is_left_out() -> None:
    devices = resource_slice("n", *(f"d{number:02}" for number in range(40)))
    subject = claim("c", first("x", request("s", 20), request("t", 1)), request("y", 20))
    picked = find([subject], devices)
    assert isinstance(picked, list)
    assert picked[:2] == ["x/t d00", "y d01"]
    subject = claim("c", first("x", every("all"), request("two", 2)), request("y", 2))
    assert find([subject], devices) == ["x/two d00", "x/two d01", "y d02", "y d03"]


# ------------------------------------------------------------------------------------- all devices


def test_all_devices() -> None:
    devices = resource_slice("n", "a", "b")
    assert find([claim("c", every())], devices) == ["r a", "r b"]
    assert find([claim("c", every("x"), request("y"))], devices) is None
    assert find([claim("c", every())], devices, allocated("held", "n", "b")) is None
    assert find([claim("c", every())], resource_slice("n")) is None
    assert find([claim("c", every())]) is None
    chosen = claim("c", every("x", **attribute("size", 2)), request("y"))
    sizes = resource_slice("n", having("a", size=1), having("b", size=2))
    assert find([chosen], sizes) == ["x b", "y a"]


def test_all_devices_need_complete_and_valid_pools() -> None:
    claims = [claim("c", every())]
    whole = resource_slice("n", "a")
    part = resource_slice("n", "b", name="s", pool={"name": "p", "resourceSliceCount": 2})
    twice = resource_slice("n", "b", "b", name="s", pool={"name": "p", "resourceSliceCount": 1})
    problem = f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/p is"
    assert find(claims, whole, part) == f"{problem} currently being updated"
    assert find(claims, whole, twice) == f"{problem} currently invalid"
    # Another node's pool does not matter.
    assert find(claims, whole, resource_slice("m", "a", "a")) == ["r a"]


def test_all_devices_as_a_sub_request() -> None:
    sizes = resource_slice("n", having("a", size=1), having("b", size=2), having("c", size=2))
    large = every("large", **attribute("size", 2))
    claims = [claim("c", first("x", large, request("any")))]
    assert find(claims, sizes) == ["x/large b", "x/large c"]
    assert find(claims, sizes, allocated("held", "n", "c")) == ["x/any a"]


# ------------------------------------------------------------------------------------ admin access


def test_admin_access() -> None:
    devices = resource_slice("n", "a", "b")
    held = [allocated("held", "n", "a"), allocated("more", "n", "b")]
    admin, all_admin = request("x", adminAccess=True), every("y", adminAccess=True)
    assert find([claim("c", admin)], devices, *held) == ["x a"]
    assert find([claim("c", all_admin)], devices, *held) == ["y a", "y b"]
    assert find([claim("c", admin), claim("d", admin)], devices) == ["x a", "|", "x a"]
    assert find([claim("c"), claim("d", admin)], devices) == ["r a", "|", "x a"]
    # A device is in a claim once.
    assert find([claim("c", request("x", 2, adminAccess=True))], devices) == ["x a", "x b"]
    assert find([claim("c", admin, all_admin)], devices) is None


# ---------------------------------------------------------------------------- lists of sub_requests


def test_the_first_sub_request_that_is_available() -> None:
    sizes = resource_slice("n", having("a", size=1), having("b", size=2))
    two, large = request("two", 2, **attribute("size", 2)), request("l", **attribute("size", 2))
    falling_back = first("x", two, large, request("any"))
    assert find([claim("c", falling_back)], sizes) == ["x/l b"]
    assert find([claim("c", falling_back)], sizes, allocated("held", "n", "b")) == ["x/any a"]
    assert find([claim("c", first("x", two))], sizes) is None
    # A later request may take an earlier one to its next sub_request.
    assert find([claim("c", falling_back, large)], sizes) == ["x/any a", "l b"]
    assert find([claim("c", falling_back, first("y", large, request("any")))], sizes) == [
        *("x/l b", "y/any a")
    ]


# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("malformed", "problem"),
    [
        (request(of="no"), "could not retrieve device class no: "),
        (request(of=""), "missing device class name (unsupported request type?)"),
        (request(allocationMode="Some"), "unsupported count mode Some"),
        (request(selectors=[{}]), "CEL expression empty (unsupported selector type?)"),
    ],
)
def test_requests_that_cannot_be_understood(malformed: Document, problem: str) -> None:
    error = find([claim("c", malformed)], resource_slice("n", "a"))
    assert isinstance(error, str)
    assert error.startswith("claim default/c, request r")
    assert problem in error


def test_a_constraint_of_an_unknown_type() -> None:
    subject = claim("c", request(), constraints=[{"requests": ["r"]}])
    problem = "claim default/c, constraint #0: empty constraint (unsupported constraint type?)"
    assert find([subject], resource_slice("n", "a")) == problem


@pytest.mark.parametrize("requested", [request, every], ids=["one", "all"])
def test_selectors_that_fail(requested: Any) -> None:
    devices = resource_slice("n", "a")
    wrong, missing = where("noSuchVar"), attribute("no", 1)
    for selectors, problem in (
        (wrong, "claim default/c: selector #0: CEL compile error: "),
        (missing, "claim default/c: selector #0: CEL runtime error: no such key: no"),
    ):
        error = find([claim("c", requested(**selectors))], devices)
        assert isinstance(error, str)
        assert error.startswith(problem)
        assert not error.endswith(")")
    error = find([claim("c", requested())], devices, device_class("gpu", "true", "noSuchVar"))
    assert isinstance(error, str)
    assert error.startswith("class gpu: selector #1: CEL compile error: ")
    # A device of another node, or one that is taken, is not looked at.
    assert find([claim("c", request(**missing))], devices, allocated("held", "n", "a")) is None


def test_selectors_that_fail_name_the_device_in_1_37() -> None:
    """TestEnhanceRuntimeError (k8s.io/dynamic-resource-allocation/cel/errors_test.go) and the texts
    of CELSelectorMatch.
    """
    named = Features(device_in_selector_errors=True)
    devices, missing = resource_slice("n", "a"), attribute("no", 1)
    hint = (
        "no such key: no. consider using CEL optional chaining (.? followed by orValue()) or "
        "guarding the check with has() for optional fields"
    )
    on_device = f"on device {DRIVER}/n/a: CEL runtime error:"
    error = find([claim("c", request(**missing))], devices, features=named)
    assert error == f"claim default/c: selector #0 {on_device} {hint}"
    of_class = missing["selectors"][0]["cel"]["expression"]
    error = find(
        [claim("c", request())], devices, device_class("gpu", "true", of_class), features=named
    )
    assert error == f"class gpu: selector #1 {on_device} {hint}"
    error = find([claim("c", request(**where("1 / 0 == 1")))], devices, features=named)
    assert error == f"claim default/c: selector #0 {on_device} division by zero"
    error = find([claim("c", request(**where("noSuchVar")))], devices, features=named)
    assert isinstance(error, str)
    assert error.startswith("claim default/c: selector #0: CEL compile error: ")


def test_attributes_that_are_lists_are_not_read() -> None:
    subject = claim("c", request(**where("true")))
    error = find([subject], resource_slice("n", having("a", x=None)))
    assert isinstance(error, str)
    assert "unsupported attribute value" in error


def test_a_search_that_takes_too_many_steps() -> None:
    devices = resource_slice("n", *(having(f"d{n:02}", odd=n) for n in range(30)))
    same = [{"distinctAttribute": f"{DRIVER}/no"}]
    with pytest.raises(TimedOutError):
        find([claim("c", request(count=15)), claim("d", constraints=same)], devices, steps=5000)


# -------------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize(
    ("values", "same", "distinct"),
    [
        ((1, 2, 1), ["r a", "r c"], ["r a", "r b"]),
        (("x", "y", "y"), ["r b", "r c"], ["r a", "r b"]),
        ((True, False, False), ["r b", "r c"], ["r a", "r b"]),
        ((1, True, "1"), None, ["r a", "r b"]),
        ((1, 1, 1), ["r a", "r b"], None),
        # Values of a type that cannot be compared: equal to nothing, and different from nothing.
        ((None, None, None), None, None),
    ],
)
def test_constraints(values: Any, same: list[str] | None, distinct: list[str] | None) -> None:
    names = "abc"
    devices = resource_slice(
        "n", *(having(name, x=value) for name, value in zip(names, values, strict=True))
    )
    for kind, expected in (("matchAttribute", same), ("distinctAttribute", distinct)):
        constraints = [{kind: f"{DRIVER}/x", "requests": ["r"]}]
        assert find([claim("c", request(count=2), constraints=constraints)], devices) == expected
        two = [claim("c", request("r"), request("s"), constraints=[{kind: f"{DRIVER}/x"}])]
        assert find(two, devices) == (expected and [expected[0], f"s {expected[1][2:]}"])


def test_devices_without_the_attribute() -> None:
    devices = resource_slice("n", "a", having("b", x=1))
    for kind in ("matchAttribute", "distinctAttribute"):
        constraints = [{kind: f"{DRIVER}/x"}]
        assert find([claim("c", constraints=constraints)], devices) == ["r b"]
        assert find([claim("c", request(count=2), constraints=constraints)], devices) is None
    full = {"name": "c", "attributes": {f"{DRIVER}/x": {"int": 1}, "other/x": {"int": 1}}}
    for name, expected in ((f"{DRIVER}/x", ["r c"]), ("other/x", ["r c"]), ("x", None)):
        constraints = [{"matchAttribute": name}]
        assert find([claim("c", constraints=constraints)], resource_slice("n", full)) == expected


def test_constraints_for_some_requests() -> None:
    devices = resource_slice("n", having("a", x=1), having("b", x=2), having("c", x=2))
    x = f"{DRIVER}/x"
    requests = [request("r"), request("s"), request("t")]
    some = [{"matchAttribute": x, "requests": ["s", "t"]}]
    assert find([claim("c", *requests, constraints=some)], devices) == ["r a", "s b", "t c"]
    last = [{"matchAttribute": x, "requests": ["r", "s"]}]
    assert find([claim("c", *requests, constraints=last)], devices) == ["r b", "s c", "t a"]
    sub_requests = first("r", request("m", 2), request("l", 1))
    for name, expected in (
        ("r", ["r/m b", "r/m c"]),
        ("r/m", ["r/m b", "r/m c"]),
        ("r/l", ["r/m a", "r/m b"]),
    ):
        named = [{"matchAttribute": x, "requests": [name]}]
        assert find([claim("c", sub_requests, constraints=named)], devices) == expected


def test_all_devices_against_a_constraint_is_an_error() -> None:
    devices = resource_slice("n", having("a", x=1), having("b", x=2))
    subject = claim("c", every(), constraints=[{"matchAttribute": f"{DRIVER}/x"}])
    assert find([subject], devices) == (
        f"claim default/c, request r: cannot add device {DRIVER}/n/b because a claim constraint "
        "would not be satisfied"
    )


# ------------------------------------------------------------------------------------------- taints


def test_taints() -> None:
    def tainted(name: str, *effects: str) -> Document:
        taints = [{"key": "k", "value": "v", "effect": effect} for effect in effects]
        return {"name": name, "taints": taints}

    devices = resource_slice("n", tainted("a", "NoSchedule", "NoExecute"), tainted("b", "None"))
    unknown = resource_slice("n", tainted("a", "Later"))
    assert find([claim("c")], devices) == ["r b"]
    assert find([claim("c")], unknown) == ["r a"]
    for toleration, expected in (
        ({"operator": "Exists"}, "r a"),
        ({"key": "k", "operator": "Exists"}, "r a"),
        ({"key": "k", "value": "v"}, "r a"),
        ({"key": "k", "value": "v", "operator": "Equal"}, "r a"),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, "r b"),
        ({"key": "k", "value": "other"}, "r b"),
        ({"key": "k", "operator": "Near"}, "r b"),
    ):
        assert find([claim("c", request(tolerations=[toleration]))], devices) == [expected]
    assert find([claim("c", every())], devices) is None
    assert find([claim("c", request(adminAccess=True))], devices) == ["r b"]


# ----------------------------------------------------------------------------------------- counters


def consuming(name: str, amount: int | str, shared: bool = False, **more: Any) -> Document:
    counters = [{"counterSet": "set", "counters": {"memory": {"value": str(amount)}}}]
    extra = {"allowMultipleAllocations": True} if shared else {}
    return {"name": name, "consumesCounters": counters, **extra, **more}


def counters(total: int, *devices: Document) -> list[Document]:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 2}
    sets = [{"name": "set", "counters": {"memory": {"value": str(total)}}}]
    return [
        resource_slice("n", *devices, pool=pool),
        resource_slice("n", name="sets", pool=pool, sharedCounters=sets),
    ]


def test_counters_are_not_exceeded() -> None:
    parts = counters(4, consuming("a", 4), consuming("b", 2), consuming("c", 2))
    assert find([claim("c")], *parts) == ["r a"]
    assert find([claim("c", request(count=2))], *parts) == ["r b", "r c"]
    assert find([claim("c", request(count=3))], *parts) is None
    assert find([claim("c")], *parts, allocated("held", "n", "b")) == ["r c"]
    assert find([claim("c")], *parts, allocated("held", "n", "a")) is None
    # More is taken than there is: then no device that consumes counters is left, even of 0.
    over = counters(1, consuming("a", 4), consuming("z", 0), {"name": "free"})
    assert find([claim("c", request(count=2))], *over, allocated("held", "n", "a")) is None
    assert find([claim("c")], *over, allocated("held", "n", "a")) == ["r free"]


def test_shared_devices_are_charged_once() -> None:
    memory = {"memory": {"value": "4"}}
    unit = taking("1")
    parts = counters(1, consuming("a", 1, shared=True, capacity=memory))
    share = {"shareID": "s", "consumedCapacity": {"memory": "1"}}
    assert find([claim("c", unit), claim("d", unit)], *parts) == ["r a", "|", "r a"]
    assert find([claim("c", unit)], *parts, allocated("held", "n", "a", **share)) == ["r a"]
    # A share without any capacity is a use too.
    assert find([claim("c", unit)], *parts, allocated("held", "n", "a", shareID="s")) == ["r a"]


def test_shares_of_nothing_are_uses_too() -> None:
    policy = {"default": "0", "validValues": ["0"]}
    capacity = {"memory": {"value": "4", "requestPolicy": policy}}
    parts = counters(1, consuming("a", 1, shared=True, capacity=capacity))
    nothing = {"shareID": "s", "consumedCapacity": {"memory": "0"}}
    assert find([claim("c"), claim("d")], *parts) == ["r a", "|", "r a"]
    assert find([claim("c")], *parts, allocated("held", "n", "a", **nothing)) == ["r a"]


def test_a_shared_device_that_is_given_back_is_charged_no_longer() -> None:
    claims = [claim("c", first("x", request("two", 2), request("one")))]
    assert find(claims, *counters(1, consuming("a", 1, shared=True))) == ["x/one a"]
    capacity = {"memory": {"value": "4"}}
    assert find(claims, *counters(1, consuming("a", 1, shared=True, capacity=capacity))) == [
        "x/one a"
    ]
    assert find(claims, *counters(1, consuming("a", 1))) == ["x/one a"]


@pytest.mark.parametrize("refused", ["taint", "constraint"])
def test_a_device_that_is_refused_consumes_no_counters(refused: str) -> None:
    of = "a" if refused == "constraint" else "b"
    taints = [{"key": "k", "effect": "NoSchedule"}] if refused == "taint" else []
    values = {"a": "b", "b": of, "c": "b"}
    devices = [
        consuming(
            name, 1, attributes={"x": {"string": value}}, taints=taints if name == "b" else []
        )
        for name, value in values.items()
    ]
    requests = [request("first"), request("second")]
    constraint = {"matchAttribute": f"{DRIVER}/x", "requests": []}
    claims = [claim("c", *requests, constraints=[constraint])]
    assert find(claims, *counters(2, *devices)) == ["first a", "second c"]


def test_another_device_of_the_same_counters_as_a_shared_one() -> None:
    capacity = {"memory": {"value": "4"}}
    parts = counters(
        1,
        consuming("a", 1, shared=True, capacity=capacity, attributes={"x": {"int": 1}}),
        consuming("b", 1, shared=True, capacity=capacity, attributes={"x": {"int": 2}}),
    )
    held = allocated("held", "n", "a", shareID="s", consumedCapacity={"memory": "1"})
    assert find([claim("c", request(**attribute("x", 2)))], *parts, held) is None


# ----------------------------------------------------------------------------- consumable capacity


def shared(name: str, memory: str = "4", **policy: Any) -> Document:
    capacity: Document = {"value": memory}
    if policy:
        capacity["requestPolicy"] = policy
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": capacity}}


def taking(amount: str, name: str = "r", count: int = 1) -> Document:
    return request(name, count, capacity={"requests": {"memory": amount}})


def test_shares_of_a_device() -> None:
    devices = resource_slice("n", shared("a"), shared("b"))
    two = [claim("c", taking("2")), claim("d", taking("2")), claim("e", taking("1"))]
    assert find(two, devices) == ["r a", "|", "r a", "|", "r b"]
    # Without an amount, a request takes all.
    assert find([claim("c"), claim("d")], devices) == ["r a", "|", "r b"]
    assert find([claim("c", taking("5"))], devices) is None
    # The devices of one request are different ones.
    assert find([claim("c", taking("1", count=2))], devices) == ["r a", "r b"]
    assert find([claim("c", taking("1", count=3))], devices) is None
    held = allocated("held", "n", "a", shareID="s", consumedCapacity={"memory": "3"})
    assert find([claim("c", taking("1"))], devices, held) == ["r a"]
    assert find([claim("c", taking("2"))], devices, held) == ["r b"]
    # Somebody holds it whole.
    assert find([claim("c", taking("1"))], devices, allocated("held", "n", "a")) == ["r b"]


def test_shares_and_all_devices() -> None:
    devices = resource_slice("n", shared("a"), shared("b", "1"), {"name": "none"})
    all_devices = every(capacity={"requests": {"memory": "2"}})
    assert find([claim("c", all_devices)], devices) == ["r a"]
    held = allocated("held", "n", "a", shareID="s", consumedCapacity={"memory": "3"})
    assert find([claim("c", all_devices)], devices, held) is None


def test_backtracking_gives_shares_back() -> None:
    devices = resource_slice("n", shared("a", "2"), shared("b", "4"))
    requests = [taking("1", "x"), taking("2", "y"), taking("3", "z")]
    assert find([claim("c", *requests)], devices) == ["x b", "y a", "z b"]


def test_amounts_of_devices_that_are_not_shared() -> None:
    own = {"name": "a", "capacity": {"memory": {"value": "4"}}}
    devices = resource_slice("n", own, {"name": "b", "capacity": {"memory": {"value": "8"}}})
    assert find([claim("c", taking("5"))], devices) == ["r b"]
    assert find([claim("c", taking("1")), claim("d", taking("1"))], devices) == ["r a", "|", "r b"]
    unknown = request(capacity={"requests": {"cores": "1"}})
    assert find([claim("c", unknown)], devices) is None


# ------------------------------------------------------------------------------------------- pools


def test_a_pool_that_cannot_be_used() -> None:
    whole = resource_slice("n", "a")
    twice = resource_slice("n", "b", "b", name="s", pool={"name": "p", "resourceSliceCount": 1})
    part = resource_slice("n", "b", name="s", pool={"name": "p", "resourceSliceCount": 2})
    assert find([claim("c")], whole, twice) == ["r a"]
    assert find([claim("c", request(count=2))], whole, twice) == "invalid resource pools"
    assert find([claim("c")], whole, part) == ["r a"]
    assert find([claim("c", request(count=2))], whole, part) is None


def test_a_device_for_some_nodes() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
    per_device = resource_slice(
        "p",
        {"name": "a", "nodeName": "m"},
        {"name": "b", "nodeSelector": {"nodeSelectorTerms": terms}},
        {"name": "c"},
        {"name": "d", "nodeName": "n"},
        {"name": "e", "allNodes": True},
        nodeName=None,
        perDeviceNodeSelection=True,
    )
    assert find([claim("c", every())], per_device) == ["r p/d", "r p/e"]
    assert find([claim("c", request(count=2))], per_device) == ["r p/d", "r p/e"]


# ---------------------------------------------------------------------------------------- counters


def partitioned(node: str, count: int, *devices: Document, memory: str = "") -> Document:
    """Returns a slice of the pool p on a node, with devices or with counters."""
    counters = {"name": "set", "counters": {"memory": {"value": memory}}}
    spec = {"sharedCounters": [counters], "devices": None} if memory else {}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": count}
    return resource_slice(node, *devices, name=f"{node}-{bool(memory)}", pool=pool, **spec)


@pytest.mark.parametrize("own", [False, True], ids=["1.36", "1.37"])
def test_counters_of_pools_and_shared_devices(own: bool) -> None:
    """Rows of TestAllocator of 1.37: devices-consume-counter-set-in-different-nodes,
    all-devices-with-consumed-counters, shared-device-counter-cross-cycle.
    """
    features = Features(counters_of_own_nodes=own)
    subject = [claim("c")]
    elsewhere = (
        partitioned("m", 3, memory="8Gi"),
        partitioned("m", 3, consuming("1", "6Gi")),
        partitioned("n", 3, consuming("2", "6Gi"), consuming("3", "2Gi")),
    )
    taken = allocated("held", "p", "1")
    assert find(subject, *elsewhere, taken, features=features) == ["r p/3"]
    assert find(subject, *elsewhere, features=features) == ["r p/2"]
    counted = partitioned("n", 2, memory="8Gi")
    device = partitioned("n", 2, consuming("1", "4Gi"))
    assert find([claim("c", every())], counted, device, features=features) == ["r p/1"]
    capacity = {"memory": {"value": "1"}}
    slices = (
        partitioned("n", 2, memory="1"),
        partitioned("n", 2, *(consuming(name, 1, True, capacity=capacity) for name in "12")),
    )
    share = allocated(
        "held", "p", "1", shareID="8f0a5f6e-0c5e-4d8b-9a4e-000000000000",
        consumedCapacity={"memory": "1"},
    )  # fmt: skip
    asked = request(capacity={"requests": {"memory": "1"}})
    assert find([claim("c", asked)], *slices, share, features=features) is None
    assert find([claim("c", asked)], *slices, features=features) == ["r p/1"]


def test_a_pool_of_another_node_is_not_told_in_1_37() -> None:
    """Its counters concern the nodes that their slice names."""
    broken = partitioned("m", 3, memory="8Gi")
    subject = [claim("c", every())]
    own = Features(counters_of_own_nodes=True)
    assert find(subject, broken, resource_slice("n", "a"), features=own) == ["r a"]
    assert find(subject, broken, resource_slice("n", "a")) == (
        "claim default/c, request r: asks for all devices, but resource pool gpu.example.com/p is "
        "currently being updated"
    )
