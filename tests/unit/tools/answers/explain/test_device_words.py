"""`berth explain`'s words about the devices of a pod's claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.wiring.profiles import profiles_of
from berth.config.feature_gates import with_defaults
from berth.config.load import from_mapping
from berth.config.types import API_VERSION, KIND
from berth.tools.answers.explain.decision import Decision, decide
from berth.tools.answers.explain.device_words import DeviceSupply, supply
from berth.tools.answers.explain.plugin_handle import ReadOnlyHandle
from berth.tools.views.commands.explain import explain
from tests.kit.cases import documents
from tests.kit.devices import (
    DRIVER,
    GPU,
    allocated,
    claim,
    cluster,
    device_class,
    node,
    pod,
    request,
    resource_slice,
    using,
)
from tests.kit.documents import Document
from tests.kit.storage import as_pod

Row = tuple[str, str, str]
GPUS = device_class()
NOTHING = "needs 1 device: none on the node"


def device(name: str, **parts: Any) -> Document:
    return {"name": name, **parts}


def at(name: str, numa: int | None) -> Document:
    """Returns a device, with the attribute numa unless it is None."""
    return device(name, attributes={} if numa is None else {"numa": {"int": numa}})


def selecting(expression: str) -> Document:
    return {"selectors": [{"cel": {"expression": expression}}]}


def in_words(
    *objects: Document,
    document: Document | None = None,
    configured: Document | None = None,
    without: str = "",
) -> DeviceSupply:
    """For a pod with the claim `c`, unless another pod is asked about; `without` a feature gate."""
    document = using(pod({}), "c") if document is None else document
    handle = ReadOnlyHandle(with_defaults({without: False} if without else {}))
    profiles = profiles_of(from_mapping(configured), handle)
    filters = profiles["default-scheduler"].filters
    return supply(PodInfo(as_pod(document)), cluster(*objects), filters)


def rows_of(words: DeviceSupply) -> list[tuple[str, str, str, str]]:
    assert not words.short
    return [
        (" ".join(entry.nodes), entry.claim, entry.request, "; ".join(entry.devices))
        for entry in words.provided
    ]


def short(words: DeviceSupply) -> list[Row]:
    """Returns the claim, the request and the problem of the only node, which gives nothing."""
    assert not words.provided
    assert all(entry.nodes == ("n",) for entry in words.short)
    return [(entry.claim, entry.request, entry.why) for entry in words.short]


def why(words: DeviceSupply) -> str:
    """Returns the only problem of the only node."""
    (row,) = short(words)
    return row[2]


def on(*devices: str | Document, **spec: Any) -> tuple[Document, Document, Document]:
    """Returns the class and one node with these devices."""
    return GPUS, node(), resource_slice("n", *devices, **spec)


# ----------------------------------------------------------------------------------- nodes that fit


def test_the_devices_that_each_request_would_get() -> None:
    words = in_words(
        GPUS,
        node("n1"),
        node("n2"),
        resource_slice("n1", "gpu-0", "gpu-1", "gpu-2"),
        resource_slice("n2", "gpu-0", "gpu-1", "gpu-2"),
        claim("c", request("two", 2), request("one")),
    )
    assert rows_of(words) == [
        ("n1", "c", "two", f"{DRIVER}/n1/gpu-0; {DRIVER}/n1/gpu-1"),
        ("n1", "c", "one", f"{DRIVER}/n1/gpu-2"),
        ("n2", "c", "two", f"{DRIVER}/n2/gpu-0; {DRIVER}/n2/gpu-1"),
        ("n2", "c", "one", f"{DRIVER}/n2/gpu-2"),
    ]


def test_nodes_that_give_the_same_devices_share_a_row() -> None:
    network = resource_slice("any", "port", allNodes=True)
    words = in_words(GPUS, node("n2"), node("n1"), network, claim("c"))
    assert rows_of(words) == [("n1 n2", "c", "r", f"{DRIVER}/any/port")]


def test_the_sub_request_that_is_taken_admin_access_and_consumed_capacity() -> None:
    listed = {
        "name": "best",
        "firstAvailable": [
            {**request("big", 2)["exactly"], "name": "big"},
            {**request("small", 1)["exactly"], "name": "small"},
        ],
    }
    shared = device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
    part = request("part", capacity={"requests": {"memory": "10Gi"}})
    assert rows_of(in_words(*on(shared), claim("c", listed))) == [
        ("n", "c", "best/small", f"{DRIVER}/n/gpu-0, 40Gi of memory")
    ]
    assert rows_of(in_words(*on(shared), claim("c", part))) == [
        ("n", "c", "part", f"{DRIVER}/n/gpu-0, 10Gi of memory")
    ]
    watched = in_words(*on("gpu-0"), claim("c", request(adminAccess=True)))
    assert rows_of(watched) == [("n", "c", "r", f"{DRIVER}/n/gpu-0, admin access")]


def test_the_claim_for_extended_resources() -> None:
    gpus = device_class("gpu", extendedResourceName=GPU)
    document = pod({GPU: 1})
    words = in_words(gpus, node(), resource_slice("n", "gpu-0"), document=document)
    resource = f"{GPU} of c"
    assert rows_of(words) == [("n", "extended resources", resource, f"{DRIVER}/n/gpu-0")]
    words = in_words(gpus, node(), document=document)
    assert short(words) == [("extended resources", resource, NOTHING)]
    assert in_words(gpus, node(gpu=1), document=document) == DeviceSupply()


def test_a_claim_for_extended_resources_that_is_left_over() -> None:
    gpus = device_class("gpu", extendedResourceName=GPU)
    left = claim("left")
    left["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{"name": "p", "uid": "p", "controller": True}],
    }
    (entry,) = in_words(gpus, node(), left, document=pod({GPU: 1})).short
    assert (entry.claim, entry.nodes) == ("extended resources", None)
    assert entry.why == "a claim is left over from an earlier attempt, and is deleted first"


def test_a_profile_that_does_not_filter_by_devices() -> None:
    configured = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"filter": {"disabled": [{"name": "DynamicResources"}]}}}],
    }
    assert in_words(*on(), claim("c"), configured=configured) == DeviceSupply()


def test_a_pod_without_claims_has_nothing_to_say() -> None:
    assert in_words(*on("gpu-0"), document=pod({})) == DeviceSupply()


# --------------------------------------------------------------------------- why each device is out


@pytest.mark.parametrize(
    ("devices", "document", "meaning"),
    [
        *(
            (devices, request(**fields), text)
            for devices, fields, text in documents("""
[] => {} => needs 1 device: none on the node
[gpu-0] => {count: 2} => needs 2 devices: 1 on the node
[{name: gpu-0, taints: [{key: broken, effect: NoSchedule}]}, gpu-1] => {count: 2} =>
    needs 2 devices: 2 on the node, 1 tainted broken:NoSchedule (gpu-0), 1 fits
[{name: gpu-0, taints: [{key: a, value: b, effect: NoExecute}]}] => {tolerations: [{key: a,
    operator: Equal, value: c}]} => needs 1 device: 1 on the node, 1 tainted a=b:NoExecute (gpu-0)
[gpu-0] => {capacity: {requests: {memory: 1Gi}}} =>
    needs 1 device: 1 on the node, 1 without capacity memory
[{name: gpu-0, capacity: {memory: {value: 40Gi}}}] => {capacity: {requests: {memory: 80Gi}}} =>
    needs 1 device: 1 on the node, 1 short of capacity memory (gpu-0: 40Gi left of 40Gi, 80Gi
    needed)
[{name: gpu-0, capacity: {memory: {value: 40Gi, requestPolicy: {default: 1Gi, validValues: [1Gi,
  2Gi]}}}}] => {capacity: {requests: {memory: 3Gi}}} =>
    needs 1 device: 1 on the node, 1 whose policy does not allow 3Gi of capacity memory
[gpu-0] => {allocationMode: All, selectors: [{cel: {expression: 'false'}}]} => needs all devices
    that match, and none does: 1 on the node, 1 refused by selector #0 of claim default/c (false)
[{name: gpu-0, taints: [{key: broken, effect: NoSchedule}]}, gpu-1] => {allocationMode: All} =>
    needs all 2 devices that match: 2 on the node, 1 tainted broken:NoSchedule (gpu-0), 1 fits
""")
        ),
        (
            [at("gpu-0", 0), at("gpu-1", 1), at("gpu-2", 2)],
            request(count=2, **selecting(f'device.attributes["{DRIVER}"].numa  ==\n 1')),
            (
                "needs 2 devices: 3 on the node, 2 refused by selector #0 of claim default/c "
                f'(device.attributes["{DRIVER}"].numa == 1), 1 fits'
            ),
        ),
    ],
)
def test_why_the_devices_of_a_node_do_not_suffice(
    devices: list[str | Document], document: Document, meaning: str
) -> None:
    assert short(in_words(*on(*devices), claim("c", document))) == [("c", "r", meaning)]


@pytest.mark.parametrize(
    ("gate", "parts", "meaning"),
    [
        (
            "DRADeviceBindingConditions",
            {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]},
            "1 with binding conditions, which a feature gate turns off",
        ),
        (
            "DRAPartitionableDevices",
            {
                "consumesCounters": [
                    {"counterSet": "gpu-0", "counters": {"memory": {"value": "1Gi"}}}
                ]
            },
            "1 with counters, which a feature gate turns off",
        ),
    ],
)
def test_devices_that_need_a_feature_gate(gate: str, parts: Document, meaning: str) -> None:
    words = in_words(*on(device("gpu-0", **parts)), claim("c"), without=gate)
    assert why(words) == f"needs 1 device: 1 on the node, {meaning}"


def test_capacity_counts_only_with_its_feature_gate() -> None:
    full = device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi"}})
    share = {"shareID": "s", "consumedCapacity": {"memory": "4Gi"}}
    objects = (*on(full), allocated("d", "n", "gpu-0", **share), claim("c", request(count=2)))
    assert "short of capacity memory" in why(in_words(*objects))
    words = in_words(*objects, without="DRAConsumableCapacity")
    assert why(words) == "needs 2 devices: 1 on the node"


def test_a_selector_of_the_class() -> None:
    picky = device_class("gpu", "true", 'device.driver == "other.example.com"')
    words = in_words(picky, node(), resource_slice("n", "gpu-0"), claim("c"))
    assert why(words) == (
        "needs 1 device: 1 on the node, 1 refused by selector #1 of class gpu "
        '(device.driver == "other.example.com")'
    )


def test_devices_that_other_claims_hold() -> None:
    words = in_words(
        *on("gpu-0", "gpu-1", "gpu-2"),
        allocated("one", "n", "gpu-0"),
        allocated("two", "n", "gpu-1", "gpu-2"),
        allocated("watching", "n", "gpu-2", adminAccess=True),
        claim("c"),
    )
    assert why(words) == (
        "needs 1 device: 3 on the node, 3 taken (by claim default/one, by claim default/two)"
    )


def test_capacity_that_other_claims_consume() -> None:
    shared = device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
    share = {"shareID": "s", "consumedCapacity": {"memory": "36Gi"}}
    document = request(capacity={"requests": {"memory": "5Gi"}})
    words = in_words(*on(shared), allocated("other", "n", "gpu-0", **share), claim("c", document))
    assert why(words) == (
        "needs 1 device: 1 on the node, 1 short of capacity memory "
        "(gpu-0: 4Gi left of 40Gi, 5Gi needed)"
    )


def test_devices_for_other_nodes() -> None:
    some = resource_slice("n", device("gpu-0", nodeName="n"), device("gpu-1", nodeName="m"))
    del some["spec"]["nodeName"]
    some["spec"]["perDeviceNodeSelection"] = True
    assert why(in_words(GPUS, node(), some, claim("c", request(count=2)))) == (
        "needs 2 devices: 2 on the node, 1 for other nodes only, 1 fits"
    )


def test_each_sub_request_has_its_reasons() -> None:
    listed = {
        "name": "best",
        "firstAvailable": [
            {**request("big", 2)["exactly"], "name": "big"},
            {**request("odd", 1, **selecting("false"))["exactly"], "name": "odd"},
        ],
    }
    assert short(in_words(*on("gpu-0"), claim("c", listed))) == [
        (
            "c",
            "best",
            (
                "big needs 2 devices: 1 on the node; odd needs 1 device: 1 on the node, "
                "1 refused by selector #0 of claim default/c (false)"
            ),
        )
    ]


def test_every_request_that_cannot_be_met_alone_is_listed() -> None:
    entry, two = claim("c", request("a"), request("b", 2)), claim("d", request("x", 3))
    document = using(pod({}), "c", "d")
    assert short(in_words(*on("gpu-0"), entry, two, document=document)) == [
        ("c", "b", "needs 2 devices: 1 on the node"),
        ("d", "x", "needs 3 devices: 1 on the node"),
    ]


# ----------------------------------------------------------------------------------------- counters


def partition(name: str, amount: str, **parts: Any) -> Document:
    consumed_capacity = [{"counterSet": "gpu-0", "counters": {"memory": {"value": amount}}}]
    return device(name, consumesCounters=consumed_capacity, **parts)


def partitions(*devices: Document, counters: str = "memory") -> tuple[Document, ...]:
    """Returns the class, one node, and a pool of partitions with 40Gi of memory."""
    pool: Document = {"pool": {"name": "n", "generation": 1, "resourceSliceCount": 2}}
    sets = [{"name": "gpu-0", "counters": {counters: {"value": "40Gi"}}}]
    return (
        GPUS,
        node(),
        resource_slice("n", *devices, **pool),
        resource_slice("n", name="n-counters", sharedCounters=sets, **pool),
    )


def test_a_counter_that_other_claims_use_up() -> None:
    some = partitions(partition("whole", "40Gi"), partition("half", "20Gi"))
    words = in_words(*some, allocated("other", "n", "half"), claim("c"))
    assert why(words) == (
        "needs 1 device: 2 on the node, 1 short of counters (counter memory of set gpu-0 in pool "
        f"{DRIVER}/n: 20Gi left, 40Gi needed), 1 taken (by claim default/other)"
    )


def test_a_counter_that_suffices_for_fewer_devices() -> None:
    some = partitions(*(partition(name, "30Gi") for name in ("a", "b", "c")))
    assert why(in_words(*some, claim("c", request(count=2)))) == (
        "needs 2 devices: 3 on the node; 2 of them exceed counter memory of set gpu-0 in pool "
        f"{DRIVER}/n: 40Gi left, at least 60Gi needed"
    )


def test_requests_that_exceed_a_counter_together() -> None:
    some = partitions(*(partition(name, "30Gi") for name in ("a", "b", "c")))
    assert short(in_words(*some, claim("c", request("x"), request("y")))) == [
        (
            "c",
            "x, y",
            (
                "each can be met, but not together: they exceed counter memory of set gpu-0 in "
                f"pool {DRIVER}/n: 40Gi left, at least 60Gi needed"
            ),
        )
    ]


# -------------------------------------------------------------------------------------- constraints

SAME, OTHER = ({f"{kind}Attribute": f"{DRIVER}/numa"} for kind in ("match", "distinct"))


@pytest.mark.parametrize(
    ("devices", "number", "constraints", "meaning"),
    [
        (
            [at("gpu-0", 0), at("gpu-1", 1), at("gpu-2", None)],
            2,
            [SAME],
            (
                f"constraint #0 matchAttribute {DRIVER}/numa: no 2 devices that fit have the same "
                "value (0: gpu-0, 1: gpu-1, without it: gpu-2)"
            ),
        ),
        (
            [at("gpu-0", 0), at("gpu-1", 0)],
            2,
            [OTHER],
            (
                f"constraint #0 distinctAttribute {DRIVER}/numa: no 2 devices that fit have "
                "different values (0: gpu-0, gpu-1)"
            ),
        ),
        (
            [at("gpu-0", None)],
            1,
            [SAME],
            (
                f"constraint #0 matchAttribute {DRIVER}/numa: no device that fits has the "
                "attribute (without it: gpu-0)"
            ),
        ),
        (
            [at("gpu-0", 0), at("gpu-1", 0), at("gpu-2", 1)],
            2,
            [SAME, OTHER],
            (
                f"constraint #0 matchAttribute {DRIVER}/numa (0: gpu-0, gpu-1, 1: gpu-2) and "
                f"constraint #1 distinctAttribute {DRIVER}/numa (0: gpu-0, gpu-1, 1: gpu-2) "
                "cannot be met at once"
            ),
        ),
    ],
)
def test_a_constraint_on_one_request(
    devices: list[Document], number: int, constraints: list[Document], meaning: str
) -> None:
    document = claim("c", request(count=number), constraints=constraints)
    assert short(in_words(*on(*devices), document)) == [("c", "r", meaning)]


def test_only_the_constraint_that_cannot_be_met_is_named() -> None:
    devices = [
        device(f"gpu-{i}", attributes={"numa": {"int": i}, "model": {"string": "a"}})
        for i in range(2)
    ]
    constraints = [{"matchAttribute": f"{DRIVER}/model"}, SAME]
    words = in_words(*on(*devices), claim("c", request(count=2), constraints=constraints))
    assert why(words).startswith(f"constraint #1 matchAttribute {DRIVER}/numa: no 2 devices")


def test_devices_with_the_same_value_that_exceed_a_counter() -> None:
    numa = {"attributes": {"numa": {"int": 0}}}
    some = partitions(
        partition("a", "30Gi", **numa),
        partition("b", "30Gi", **numa),
        partition("c", "10Gi", attributes={"numa": {"int": 1}}),
    )
    assert why(in_words(*some, claim("c", request(count=2), constraints=[SAME]))) == (
        f"constraint #0 matchAttribute {DRIVER}/numa: no 2 devices with the same value can be "
        "taken together (0: a, b, 1: c)"
    )


def test_a_constraint_on_several_requests() -> None:
    document = claim(
        "c",
        request("free"),
        request("a", **selecting(f'device.attributes["{DRIVER}"].numa == 0')),
        request("b", **selecting(f'device.attributes["{DRIVER}"].numa == 1')),
        constraints=[{**SAME, "requests": ["a", "b"]}],
    )
    assert short(in_words(*on(*(at(f"gpu-{i}", i) for i in range(3))), document)) == [
        (
            "c",
            "a, b",
            (
                f"each can be met, but not together: constraint #0 matchAttribute {DRIVER}/numa: "
                "no 2 devices that fit have the same value "
                "(request a has 0: gpu-0; request b has 1: gpu-1)"
            ),
        )
    ]


def test_devices_with_the_same_value_that_suit_one_request_alone() -> None:
    document = claim(
        "c",
        request("a", **selecting(f'device.attributes["{DRIVER}"].numa == 0')),
        request("b", **selecting(f'device.attributes["{DRIVER}"].numa == 1')),
        constraints=[SAME],
    )
    devices = on(at("gpu-0", 0), at("gpu-1", 1), at("gpu-2", 1))
    assert why(in_words(*devices, document)).endswith(
        "no 2 devices with the same value suit the requests together "
        "(request a has 0: gpu-0; request b has 1: gpu-1, gpu-2)"
    )


# --------------------------------------------------------------------- requests that exclude others


def test_requests_that_need_more_devices_than_fit() -> None:
    first = selecting(f'device.attributes["{DRIVER}"].numa == 0')
    document = claim("c", request("a", **first), request("b", **first), request("other"))
    assert short(in_words(*on(at("gpu-0", 0), at("gpu-1", 1), at("gpu-2", 1)), document)) == [
        ("c", "a, b", "each can be met, but not together: they need 2 devices, and 1 fits: gpu-0")
    ]


def test_claims_that_need_the_same_device() -> None:
    document = using(pod({}), "c", "d")
    assert short(in_words(*on("gpu-0"), claim("c"), claim("d"), document=document)) == [
        (
            "",
            "default/c: r, default/d: r",
            "each can be met, but not together: they need 2 devices, and 1 fits: gpu-0",
        )
    ]


def test_requests_that_exceed_the_capacity_of_a_shared_device() -> None:
    shared = device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
    parts = (request(name, capacity={"requests": {"memory": "30Gi"}}) for name in ("a", "b"))
    assert why(in_words(*on(shared), claim("c", *parts))) == (
        "each can be met, but not together: they exceed capacity memory of gpu-0: 40Gi left, "
        "60Gi needed"
    )


# ------------------------------------------------------------------------------------ hostile input


def test_an_incomplete_pool() -> None:
    pool = {"name": "n", "generation": 3, "resourceSliceCount": 2}
    assert short(in_words(*on("gpu-0", pool=pool), claim("c"))) == [
        ("", "", f"pool {DRIVER}/n is incomplete: 1 of 2 slices of generation 3 published"),
        ("c", "r", NOTHING),
    ]


@pytest.mark.parametrize(
    ("counters", "of", "missing"),
    [
        ("cores", "gpu-0", "counter memory not found in counter set gpu-0"),
        ("memory", "gpu-1", "counter set gpu-1 not found"),
    ],
)
def test_a_counter_that_does_not_exist(counters: str, of: str, missing: str) -> None:
    odd = partition("gpu-0", "1Gi")
    odd["consumesCounters"][0]["counterSet"] = of
    some = partitions(odd, counters=counters)
    assert short(in_words(*some, claim("c")))[0] == (
        "",
        "",
        (f"pool {DRIVER}/n is invalid: slice n-gpus, device gpu-0: consumesCounters: {missing}"),
    )


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ('device.attributes["none.example.com"].numa == 1', "no such key"),
        ("device.nothing(", "CEL compile error"),
    ],
)
def test_a_selector_that_fails_names_slice_and_device(expression: str, problem: str) -> None:
    words = in_words(*on("gpu-0"), claim("c", request(**selecting(expression))))
    ((of, which, text),) = short(words)
    assert (of, which) == ("", "all requests")
    assert text.startswith("claim default/c: selector #0: ")
    assert problem in text
    assert text.endswith(f"(slice n-gpus, device {DRIVER}/n/gpu-0)")


def test_a_slice_with_an_invalid_node_selector() -> None:
    requirement = {"key": "a", "operator": "Near", "values": ["b"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    odd = resource_slice("n", "gpu-0", nodeSelector=terms)
    del odd["spec"]["nodeName"]
    text = why(in_words(GPUS, node(), odd, claim("c")))
    assert "failed to perform node selection for slice n-gpus" in text


# ---------------------------------------------------------------- claims that are allocated, or not


def usable_on(name: str) -> Document:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def test_a_claim_that_is_allocated_for_one_node() -> None:
    shared = allocated("c", "n1", "gpu-0")
    shared["status"]["allocation"]["nodeSelector"] = usable_on("n1")
    words = in_words(GPUS, node("n1"), node("n2"), shared)
    (entry,), (other,) = words.provided, words.short
    assert (entry.nodes, entry.devices) == (("n1",), (f"{DRIVER}/n1/gpu-0, already allocated",))
    assert (other.nodes, other.claim) == (("n2",), "c")
    assert other.why == "is allocated already, and can only be used on node n1"


def conditions(*words: tuple[str, str]) -> Callable[[Document], None]:
    def put(document: Document) -> None:
        listed = [{"type": of, "status": "True", "message": text} for of, text in words]
        document["status"]["devices"] = [
            {"driver": DRIVER, "pool": "n", "device": "gpu-0", "conditions": listed}
        ]

    return put


@pytest.mark.parametrize(
    ("change", "meaning"),
    [
        (
            conditions(("Failed", "no fabric")),
            'device binding failed: claim=c, reason=, message="no fabric"',
        ),
        (
            conditions(("Seen", "")),
            (
                "its devices are not prepared in time: condition Attached of "
                f"{DRIVER}/n/gpu-0 is not met"
            ),
        ),
    ],
)
def test_devices_that_cannot_be_prepared(change: Callable[[Document], None], meaning: str) -> None:
    waiting = allocated(
        "c",
        "n",
        "gpu-0",
        bindingConditions=["Seen", "Attached"],
        bindingFailureConditions=["Failed"],
    )
    waiting["status"]["allocation"]["allocationTimestamp"] = "2024-01-01T00:00:00Z"
    change(waiting)
    (entry,) = in_words(*on("gpu-0"), waiting).short
    assert (entry.claim, entry.why, entry.nodes) == ("c", meaning, None)


def from_template() -> Document:
    document = pod({})
    entry = {"name": "gpus", "resourceClaimTemplateName": "template"}
    document["spec"]["resourceClaims"] = [entry]
    return document


@pytest.mark.parametrize(
    ("objects", "document", "name", "meaning"),
    [
        ([], using(pod({}), "c"), "c", 'could not find ResourceClaim "default/c"'),
        (
            [],
            from_template(),
            "gpus",
            (
                'pod "default/p": ResourceClaim not created yet: the resource claim controller '
                "has to make it from template template"
            ),
        ),
        (
            [claim("c", request(of="none"))],
            using(pod({}), "c"),
            "c",
            "request r: device class none does not exist",
        ),
    ],
)
def test_a_claim_for_which_no_node_can_be_tried(
    objects: list[Document], document: Document, name: str, meaning: str
) -> None:
    (entry,) = in_words(*on("gpu-0"), *objects, claim("fine"), document=document).short
    assert (entry.claim, entry.why, entry.nodes) == (name, meaning, None)


def test_only_the_claims_that_are_not_usable_are_named() -> None:
    words = in_words(*on("gpu-0"), claim("d"), document=using(pod({}), "c", "d", "e"))
    assert [entry.claim for entry in words.short] == ["c", "e"]


def test_no_allocation_is_shown_and_scored_that_filter_has_not_made() -> None:
    """Filter alone asks the allocator. Both nodes have the device of the first sub-request."""
    sub = {"name": "s", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    slices = resource_slice("n1", "gpu-0"), resource_slice("n2", "gpu-0")
    listed = claim("c", {"name": "r", "firstAvailable": [sub]})
    snapshot = cluster(GPUS, node("n1"), node("n2"), *slices, listed)
    for point, nodes, score in (("postFilter", ["n1", "n2"], 200), ("filter", None, 0)):
        plugins = {point: {"disabled": [{"name": "DynamicResources"}]}}
        document = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"plugins": plugins}]}
        profiles = profiles_of(from_mapping(document), ReadOnlyHandle(with_defaults({})))
        info = PodInfo(as_pod(using(pod({}), "c")))
        decision = decide(profiles["default-scheduler"], info, snapshot)
        assert isinstance(decision, Decision)
        given = decision.allocations
        assert (None if given is None else sorted(given)) == nodes
        assert decision.score["DynamicResources"] == {"n1": score, "n2": score}


# -------------------------------------------------------------------------------------- the command


def shown(tmp_path: Path, *objects: Document) -> str:
    path = tmp_path / "cluster.yaml"
    document = using(pod({}), "c")
    document["spec"]["containers"][0] |= {"image": "i"}
    del document["metadata"]["uid"]
    path.write_text(yaml.safe_dump_all([*objects, document]))
    result = CliRunner().invoke(explain, ["-f", str(path), "--pod", "p"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_shows_devices_and_shortages(tmp_path: Path) -> None:
    document = claim("c", request(**selecting(f'device.attributes["{DRIVER}"].numa == 1')))
    slices = resource_slice("n1", at("gpu-0", 1)), resource_slice("n2", at("gpu-0", 0))
    printed = shown(tmp_path, GPUS, node("n1"), node("n2"), *slices, document)
    assert "devices that the nodes would give" in printed
    assert f"{DRIVER}/n1/gpu-0" in printed
    assert "devices that are short" in printed
    assert f'(device.attributes["{DRIVER}"].numa == 1)' in printed
    assert "default/p goes to n1" in printed


def test_an_attempt_that_fails_shows_the_nodes_that_are_fine_too(tmp_path: Path) -> None:
    document = claim("c", request(**selecting(f'device.attributes["{DRIVER}"].numa == 1')))
    slices = resource_slice("n1", at("gpu-0", 1)), resource_slice("n2", "gpu-0")
    printed = shown(tmp_path, GPUS, node("n1"), node("n2"), *slices, document)
    assert "default/p stays pending, as the attempt fails: " in printed
    assert f"(slice n2-gpus, device {DRIVER}/n2/gpu-0)" in printed
    assert f"{DRIVER}/n1/gpu-0" in printed


def test_long_tables_are_cut(tmp_path: Path) -> None:
    nodes = [f"n{i:02}" for i in range(45)]
    slices = [resource_slice(name, "gpu-0") for name in nodes]
    printed = shown(tmp_path, GPUS, *map(node, nodes), *slices, claim("c"))
    assert "and 5 more rows" in printed


def test_a_selector_cannot_forge_lines(tmp_path: Path) -> None:
    forged = "\x1b[1A\x1b[2Kp goes to n1\x85"
    document = claim("c", request(**selecting(f"'{forged}' == '[red]'")))
    printed = shown(tmp_path, GPUS, node("n1"), resource_slice("n1", "gpu-0"), document)
    assert r"\x1b[1A\x1b[2Kp goes to n1 ' == '[red]'" in printed
    assert not set(printed) & {"\x1b", "\x85", "\r"}
