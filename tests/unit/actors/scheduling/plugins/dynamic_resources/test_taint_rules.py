"""The taints of rules in slices: TestListPatchedResourceSlices of Kubernetes 1.37
(k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker_test.go) as a table, in every
order of its events that keeps the order of the events of one object.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.decision.registry import build_profiles
from berth.actors.scheduling.framework.events import Action, Resource
from berth.actors.scheduling.kube.devices import DeviceTaintRule
from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.plugins.dynamic_resources.features import Features
from berth.actors.scheduling.plugins.dynamic_resources.inventory import Inventory
from berth.actors.scheduling.plugins.dynamic_resources.plugin import DynamicResources
from berth.actors.scheduling.plugins.dynamic_resources.taint_rules import TaintRules
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.wiring.informers import looked_up
from berth.config.feature_gates import with_defaults
from berth.config.load import from_mapping
from berth.config.versions import VERSIONS
from berth.plugin import Node, Pod, ResourceSlice
from tests.kit.devices import (
    DRIVER,
    claim,
    cluster,
    device_class,
    device_taint_rule,
    handle,
    node,
    pod,
    request,
    resource_slice,
    using,
)
from tests.kit.documents import Document
from tests.kit.hints import wakes
from tests.kit.storage import answered, rejected

NODE = Node()
OWN = {"key": "example.com/taint2", "value": "tainted2", "effect": "NoExecute"}


def published(name: str, *devices: str, taints: tuple[Document, ...] = ()) -> ResourceSlice:
    """Returns the slice `s1` of driver1 and pool-1, or `s2` of driver2 and pool-2."""
    number = name[1]
    document = resource_slice(
        "n",
        *({"name": device, "taints": [*taints]} for device in devices),
        name=name,
        driver=f"driver{number}.example.com",
        pool={"name": f"pool-{number}", "generation": 1, "resourceSliceCount": 1},
        allNodes=True,
    )
    return msgspec.convert(document, ResourceSlice)


def rule(**selector: str) -> DeviceTaintRule:
    document = device_taint_rule("rule", "example.com/taint", "tainted", **selector)
    return msgspec.convert(document, DeviceTaintRule)


def pool(number: int) -> DeviceTaintRule:
    return rule(pool=f"pool-{number}")


S1, S2, THREE = ("device-1",), ("device-2",), ("device-0", "device-1", "device-2")
T1, T2 = "device-1: example.com/taint", "device-2: example.com/taint"
BOTH = "device-1: example.com/taint2 example.com/taint"
ONE = rule(driver="driver1.example.com", pool="pool-1", device="device-1")
GONE = object()
Histories = list[list[Any]]
# Each list has the states of an object, one after the other.
TABLE: dict[str, tuple[Histories, dict[str, tuple[str, ...]]]] = {
    "add-slices-no-patches": (
        [[published("s1", *S1)], [published("s2", *S2)]],
        {"s1": S1, "s2": S2},
    ),
    "update-slices-no-patches": (
        [[published("s1"), published("s1", *S1)], [published("s2"), published("s2", *S2)]],
        {"s1": S1, "s2": S2},
    ),
    "delete-slices": (
        [[published("s1", *S1), GONE], [published("s2", *S2), GONE], [published("s3")]],
        {"s3": ()},
    ),
    "patch-all-slices": ([[published("s1", *S1)], [rule()]], {"s1": (T1,)}),
    "update-patch": (
        [[pool(1), pool(2)], [published("s1", *S1)], [published("s2", *S2)]],
        {"s1": S1, "s2": (T2,)},
    ),
    "merge-taints": ([[rule()], [published("s1", *S1, taints=(OWN,))]], {"s1": (BOTH,)}),
    "add-taint-for-driver": (
        [[rule(driver="driver1.example.com")], [published("s1", *S1)], [published("s2", *S2)]],
        {"s1": (T1,), "s2": S2},
    ),
    "add-taint-for-pool": (
        [[pool(1)], [published("s1", *S1)], [published("s2", *S2)]],
        {"s1": (T1,), "s2": S2},
    ),
    "add-taint-for-device": (
        [[rule(device="device-1")], [published("s1", *S1)], [published("s2", *S2)]],
        {"s1": (T1,), "s2": S2},
    ),
    "filter-all-criteria": (
        [[ONE], [published("s1", *S1)], [published("s2", *S2)]],
        {"s1": (T1,), "s2": S2},
    ),
    "update-patched-slice": (
        [
            [rule(device="device-1")],
            [published("s1", *S1), published("s1", *THREE)],
            [published("s2", *THREE), published("s2", *S1)],
        ],
        {"s1": ("device-0", T1, "device-2"), "s2": (T1,)},
    ),
    # Not upstream's: a rule that goes.
    "delete-patch": ([[rule(), GONE], [published("s1", *S1)]], {"s1": S1}),
    "delete-patch-of-pool": ([[pool(1), GONE], [published("s1", *S1)]], {"s1": S1}),
}


def orders(left: Histories) -> Iterator[list[Any]]:
    if not any(left):
        yield []
    for index, states in enumerate(left):
        if states:
            rest = [*left[:index], states[1:], *left[index + 1 :]]
            for later in orders(rest):
                yield [(index, states[0]), *later]


def shown(inventory: Inventory) -> dict[str, tuple[str, ...]]:
    slices: dict[str, list[str]] = {}
    for device in inventory.devices(NODE):
        taints = " ".join(taint.key for taint in device.taints)
        text = f"{device.device.name}: {taints}" if taints else device.device.name
        slices.setdefault(device.slice.metadata.name, []).append(text)
    return {name: tuple(devices) for name, devices in slices.items()}


@pytest.mark.parametrize("name", TABLE)
def test_slices_with_the_taints_of_rules(name: str) -> None:
    histories, expected = TABLE[name]
    with_devices = {name: devices for name, devices in expected.items() if devices}
    for order in orders(histories):
        objects, before = ClusterObjects(), dict[int, Any]()
        inventory, late = Inventory(objects), Inventory(objects)
        for index, state in order:
            if state is GONE:
                objects.remove(before[index])
            else:
                objects.put(state)
                before[index] = state
            inventory.refresh()
        late.refresh()
        assert shown(inventory) == shown(late) == with_devices


def test_a_rule_names_the_nodes_that_see_its_devices() -> None:
    snapshot = cluster(node("a"), node("b"), resource_slice("a", "x"), resource_slice("b", "y"))
    inventory = Inventory(snapshot.objects)
    inventory.refresh()
    seen = inventory.changed.version
    for document, nodes in (
        (device_taint_rule("r", "k", pool="a"), {"a"}),
        (device_taint_rule("r", "k", pool="a", device="other"), {"a"}),
        (device_taint_rule("r", "k", pool="a", device="nor this"), set()),
        (device_taint_rule("r", "k", driver="elsewhere"), set()),
        (device_taint_rule("r", "k", device="y"), {"b"}),
    ):
        snapshot.objects.put(msgspec.convert(document, DeviceTaintRule))
        inventory.refresh()
        assert set(inventory.changed.since(seen) or ()) == nodes
        seen = inventory.changed.version


def test_slices_that_no_rule_selects_stay_as_they_are() -> None:
    rules, slice_ = TaintRules(), published("s1", *S1)
    rules.put("r", pool(2))
    assert rules.merged("s1", slice_) is slice_
    rules.put("r", pool(1))
    tainted = rules.merged("s1", slice_)
    assert tainted is not slice_
    assert rules.put("r", msgspec.structs.replace(pool(1))) == [], "its status changed"
    assert rules.merged("s1", slice_) is tainted


# --------------------------------------------------------------------------------------- the filter


def answer(*rules: Document, taints: bool = True, by_rules: bool = True, **more: Any) -> str:
    """Returns the plugin's message about a node with the device "d"."""
    plugin = DynamicResources({}, handle(DRADeviceTaints=taints, DRADeviceTaintRules=by_rules))
    snapshot = cluster(
        node(), device_class(), claim("c", request(**more)), resource_slice("n", "d"), *rules
    )
    reply = answered(plugin, using(pod({"cpu": 1}), "c"), snapshot)
    return rejected(reply).get("n", "") if isinstance(reply, dict) else reply.message


def test_pods_stay_off_devices_that_rules_taint() -> None:
    refused = "cannot allocate all claims"
    named = {"driver": DRIVER, "pool": "n", "device": "d"}
    assert answer() == ""
    assert answer(device_taint_rule("r", "k")) == refused
    assert answer(device_taint_rule("r", "k", **named)) == refused
    assert answer(device_taint_rule("r", "k", **{**named, "device": "e"})) == ""
    assert answer(device_taint_rule("r", "k", effect="None")) == ""
    tolerations = [{"key": "k", "operator": "Exists"}]
    assert answer(device_taint_rule("r", "k"), tolerations=tolerations) == ""
    assert answer(device_taint_rule("r", "k"), by_rules=False) == ""
    assert Features().device_taint_rules


def test_a_plugin_learns_of_rules_between_attempts() -> None:
    plugin = DynamicResources({}, handle(DRADeviceTaintRules=True))
    snapshot = cluster(node(), device_class(), claim("c"), resource_slice("n", "d"))
    document = using(pod({"cpu": 1}), "c")
    added = msgspec.convert(device_taint_rule("r", "k"), DeviceTaintRule)
    answers = []
    for _ in range(2):
        answers.append(answered(plugin, document, snapshot))
        snapshot.objects.put(added)
        answers.append(answered(plugin, document, snapshot))
        snapshot.objects.remove(added)
    assert [bool(rejected(each)) for each in answers if isinstance(each, dict)] == [False, True] * 2


# ---------------------------------------------------------------------------- what is followed


def test_the_kind_is_followed_with_the_gate_in_the_version_of_kubernetes() -> None:
    def followed(version: int, **settings: bool) -> list[str]:
        no_api = handle()
        no_api.feature_gates = with_defaults(settings, VERSIONS[version])
        profiles = build_profiles(from_mapping(None), IN_TREE, no_api)
        paths = [kind.path for kind in looked_up(profiles.values())]
        return [path for path in paths if path.endswith("/devicetaintrules")]

    assert followed(36) == []
    rules = "/apis/resource.k8s.io/{}/devicetaintrules"
    assert followed(36, DRADeviceTaintRules=True) == [rules.format("v1beta2")]
    assert followed(37) == [rules.format("v1")]
    assert followed(37, DRADeviceTaintRules=False) == []


def test_a_rule_wakes_pods_unless_only_its_status_changed() -> None:
    event, waiting = Resource.DEVICE_TAINT_RULE, msgspec.convert(pod({}), Pod)
    profiles = build_profiles(from_mapping(None), IN_TREE, handle(DRADeviceTaintRules=True))
    woken = partial(wakes, profiles["default-scheduler"], "DynamicResources")
    same = msgspec.structs.replace(rule())
    assert woken((event, Action.ADD), waiting, None, rule())
    assert woken((event, Action.DELETE), waiting, rule(), None)
    assert woken((event, Action.UPDATE_OTHER), waiting, rule(), pool(1))
    assert not woken((event, Action.UPDATE_OTHER), waiting, rule(), same)
    without = build_profiles(from_mapping(None), IN_TREE, handle())["default-scheduler"]
    assert not wakes(without, "DynamicResources", (event, Action.ADD), waiting, None, rule())
