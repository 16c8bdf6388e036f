"""Device classes and resource slices: for each rule a document that breaks only this rule."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.selectors import matches_of
from berth.tools.kubernetes.api.rules.validation import problems, status_problems
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.cases import documents
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

SLICES = BY_KIND["resource.k8s.io/v1", "ResourceSlice"]
RULES = BY_KIND["resource.k8s.io/v1", "DeviceTaintRule"]
MERGE = "application/merge-patch+json"
NODES = "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`"
ONE_OF_DEVICE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)


def slice_of(*devices: Document, **spec: Any) -> Document:
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    merged = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node-1", **spec}
    if devices:
        merged["devices"] = list(devices)
    return {
        "metadata": {"name": "s"},
        "spec": {field: value for field, value in merged.items() if value is not None},
    }


def device(**fields: Any) -> Document:
    return {"name": "gpu-0", **fields}


def pool(**fields: Any) -> Document:
    return {"name": "p", "generation": 1, "resourceSliceCount": 1, **fields}


def policy(value: str = "10Gi", **fields: Any) -> Document:
    capacity = {"memory": {"value": value, "requestPolicy": fields}}
    return slice_of(device(allowMultipleAllocations=True, capacity=capacity))


def taint(**fields: Any) -> Document:
    return {"key": "broken", "effect": "NoExecute", **fields}


EACH = {"nodeName": None, "perDeviceNodeSelection": True}
DEVICE, POLICY = "spec.devices[0]", "spec.devices[0].capacity[memory].requestPolicy"
BROKEN = [
    *(
        (policy(**fields), f"{POLICY}{text}")
        for fields, text in documents("""
{default: 1Gi, validValues: [1Gi], validRange: {min: 1Gi}} =>
    : Forbidden: exactly one policy can be specified
{validValues: [1Gi]} => .default: Required value: required when validValues is defined
{default: 1Gi, validValues: [1Gi, 11Gi]} =>
    .validValues[1]: Invalid value: "11Gi": option is larger than capacity value: 10Gi
{default: 1Gi, validValues: [2Gi, 1Gi]} =>
    .validValues[1]: Invalid value: "1Gi": values must be sorted in ascending order
{default: 3Gi, validValues: [1Gi, 2Gi]} =>
    .validValues: Invalid value: "3Gi": default value is not valid according to the requestPolicy
{default: 1Gi, validRange: {min: 2Gi}} =>
    .validRange.min: Invalid value: "1Gi": default is less than min: 2Gi
{default: 1Gi, validRange: {min: 1Gi, max: 11Gi}} =>
    .validRange.max: Invalid value: "11Gi": max is larger than capacity value: 10Gi
{default: 1Gi, validRange: {min: 1Gi, step: '0'}} =>
    .validRange.step: Invalid value: "0": must be greater than zero
""")
    ),
    *(
        (slice_of(device(**fields)), f"{DEVICE}{text}")
        for fields, text in documents("""
{name: GPU} => .name: Invalid value: "GPU"
{attributes: {/b: {int: 1}}} => .attributes: Invalid value: "": the domain must not be empty
{attributes: {a: {}}} => .attributes[a]: Invalid value: "": exactly one value must be specified
{attributes: {a: {int: 1, bool: false}}} =>
    .attributes[a]: Invalid value: {"int":1,"bool":false}: exactly one value must
{attributes: {a: {version: '1.2'}}} => .attributes[a].version: Invalid value: "1.2": must be a
    string compatible with semver.org spec 2.0.0
{taints: [{key: a b, effect: NoExecute}]} => .taints[0].key: Invalid value: "a b"
{taints: [{key: broken, effect: ''}]} => .taints[0].effect: Required value
{taints: [{key: broken, effect: Drain}]} => .taints[0].effect: Unsupported value: "Drain": supported
    values: "NoExecute", "NoSchedule", "None"
{consumesCounters: [{counterSet: c}]} => .consumesCounters[0].counters: Required value
{allNodes: true} => : Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set
{bindingFailureConditions: [a.com/failed]} =>
    .bindingConditions: Invalid value: []: bindingConditions are required
{capacity: {memory: {value: '1', requestPolicy: {}}}} =>
    .capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true
""")
    ),
    *(
        (slice_of(**fields), text)
        for fields, text in documents("""
{driver: ''} => spec.driver: Required value
{pool: {name: '', generation: 1, resourceSliceCount: 1}} => spec.pool.name: Required value
{pool: {name: a//b, generation: 1, resourceSliceCount: 1}} => spec.pool.name: Invalid value: ""
{pool: {name: p, generation: 1, resourceSliceCount: 0}} =>
    spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero
{pool: {name: p, generation: -1, resourceSliceCount: 1}} =>
    spec.pool.generation: Invalid value: -1: must be greater than or equal to zero
{nodeName: null} => spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`,
    `perDeviceNodeSelection` is required
{allNodes: true} => spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`,
    `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set
{allNodes: false} => spec.allNodes: Invalid value: false: must be either unset or set to true
{sharedCounters: [{name: c, counters: {a: {value: '1'}}}], devices: [{name: gpu-0}]} =>
    spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed
{devices: [{name: gpu-0}, {name: gpu-0}]} => spec.devices[1]: Duplicate value: "gpu-0"
{perDeviceNodeSelection: true, devices: [{name: gpu-0}], nodeName: null} =>
    spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is
    required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec
{sharedCounters: [{name: c}]} => spec.sharedCounters[0].counters: Required value
""")
    ),
    (slice_of(driver="x" * 64), "spec.driver: Too long: may not be more than 63 bytes"),
    (
        slice_of(device(attributes={"a": {"string": "x" * 65}})),
        f"{DEVICE}.attributes[a].string: Too long: may not be more than 64 bytes",
    ),
    (
        slice_of(
            nodeName=None,
            nodeSelector={
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
                * 2
            },
        ),
        "spec.nodeSelector.nodeSelectorTerms: Invalid value: ",
    ),
    (
        slice_of(*({"name": f"d{i}"} for i in range(129))),
        "spec.devices: Too many: 129: must have at most 128 items",
    ),
    (
        slice_of(*({"name": f"d{i}", "taints": [taint()]} for i in range(65))),
        "spec.devices: Too many: 65: must have at most 64 items",
    ),
    (
        slice_of(device(capacity={f"a{i}": {"value": "1"} for i in range(33)})),
        (
            f"{DEVICE}: Invalid value: 33: "
            "the total number of attributes and capacities must not exceed 32"
        ),
    ),
    (
        slice_of(device(taints=[taint()] * 17)),
        f"{DEVICE}.taints: Too many: 17: must have at most 16 items",
    ),
    (
        slice_of(device(allNodes=True, nodeName="n"), **EACH),
        f'{DEVICE}: Invalid value: "{{`nodeName`, `allNodes`}}": {ONE_OF_DEVICE}',
    ),
    (
        policy(default="2Gi", validRange={"min": "1Gi", "step": "3Gi"}),
        (
            f'{POLICY}.validRange.step: Invalid value: "2Gi": '
            "value is not a multiple of a given step (3Gi) from (1Gi)"
        ),
    ),
]


@pytest.mark.parametrize(("document", "problem"), BROKEN, ids=[text for _, text in BROKEN])
def test_a_slice_that_breaks_one_rule_is_refused(document: Document, problem: str) -> None:
    (refusal,) = problems("ResourceSlice", document)
    assert refusal.startswith(problem), refusal


def test_a_slice_with_every_field_is_valid() -> None:
    attributes = {
        "model": {"string": "a"},
        "gpu.example.com/version": {"version": "1.2.3-rc.1+build"},
        "index": {"int": 0},
        "ecc": {"bool": False},
    }
    counters = {"counterSet": "slices", "counters": {"memory": {"value": "10Gi"}}}
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "9Gi", "step": "2Gi"}}
    document = slice_of(
        device(
            attributes=attributes,
            capacity={"memory": {"value": "10Gi", "requestPolicy": policy}},
            consumesCounters=[counters],
            taints=[taint(value="x"), taint(effect="None")],
            bindingConditions=["a.com/ready"],
            bindingFailureConditions=["a.com/failed"],
            allowMultipleAllocations=True,
        )
    )
    assert problems("ResourceSlice", document) == []
    assert problems("ResourceSlice", slice_of(device(allNodes=True), **EACH)) == []
    shared = [{"name": "slices", "counters": {"memory": {"value": "40Gi"}}}]
    assert problems("ResourceSlice", slice_of(sharedCounters=shared, devices=None)) == []


def test_a_slice_stays_with_its_driver_pool_and_node() -> None:
    before = slice_of(device())
    for change, path in (
        ({"driver": "other.com"}, "spec.driver"),
        ({"nodeName": "node-2"}, "spec.nodeName"),
        ({"pool": pool(name="other")}, "spec.pool.name"),
    ):
        (problem,) = problems("ResourceSlice", slice_of(device(), **change), before)
        assert problem.startswith(f"{path}: Invalid value: ")
        assert problem.endswith("field is immutable")


def test_a_taint_gets_the_time_at_which_it_appears() -> None:
    api = Api(fresh_store())
    stored = api.create(SLICES, "", slice_of(device(taints=[taint()]))).document
    (first_taint,) = stored["spec"]["devices"][0]["taints"]
    assert first_taint["timeAdded"]
    kept = [taint(timeAdded="2020-01-01T00:00:00Z")]
    patch = {"spec": {"devices": [device(taints=kept)]}}
    patched = api.patch(SLICES, "", "s", patch, MERGE, "").document
    assert patched["spec"]["devices"][0]["taints"] == kept


def test_slices_are_selected_by_node_and_driver() -> None:
    document = slice_of(device())
    for fields, selected in (
        ("spec.nodeName=node-1", True),
        ("spec.nodeName=node-2", False),
        ("spec.driver=gpu.example.com,spec.nodeName=node-1", True),
        ("spec.driver!=gpu.example.com", False),
    ):
        matches = matches_of(SLICES, "", fields)
        assert matches is not None
        assert matches(document) == selected
    with pytest.raises(RefusedError, match=r"field label not supported: spec\.pool"):
        matches_of(SLICES, "", "spec.pool=x")


def test_a_class_names_an_extended_resource_of_its_own_domain() -> None:
    def of_class(**spec: Any) -> list[str]:
        return problems("DeviceClass", {"metadata": {"name": "gpu.example.com"}, "spec": spec})

    selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    assert of_class(selectors=selectors, extendedResourceName="example.com/gpu") == []
    for name in ("cpu", "kubernetes.io/gpu", "requests.example.com/gpu", "a/b/c"):
        assert of_class(extendedResourceName=name) == [
            (
                f'spec.extendedResourceName: Invalid value: "{name}": '
                "must be a valid extended resource name"
            )
        ]
    assert of_class(selectors=[{}]) == ["spec.selectors[0].cel: Required value"]
    assert of_class(config=[{}]) == ["spec.config[0].opaque: Required value"]


def test_a_selector_that_an_update_does_not_change_is_not_compiled_again() -> None:
    def device_class(expression: str, name: str = "example.com/a") -> Document:
        selectors = [{"cel": {"expression": expression}}]
        spec = {"selectors": selectors, "extendedResourceName": name}
        return {"metadata": {"name": "gpu.example.com"}, "spec": spec}

    broken = device_class("no cel")
    (problem,) = problems("DeviceClass", broken)
    assert problem.startswith('spec.selectors[0].cel.expression: Invalid value: "no cel"')
    assert problems("DeviceClass", device_class("no cel", "example.com/b"), broken) == []
    assert problems("DeviceClass", device_class("no more cel"), broken)


# -------------------------------------------------------------------------------------- taint rules

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
)


def taint_rule(effect: str = "NoExecute", **selector: str) -> Document:
    selectors = {"driver": "gpu.example.com", "pool": "p", "device": "d", **selector}
    spec = {"deviceSelector": selectors, "taint": {"key": "k", "value": "v", "effect": effect}}
    return {"metadata": {"name": "good"}, "spec": spec}


@pytest.mark.parametrize(
    ("document", "begins"),
    [
        (taint_rule(), None),
        ({**taint_rule(), "metadata": {"generateName": "pvc-"}}, None),
        ({**taint_rule(), "metadata": {}}, "metadata.name: Required value: name or generateName"),
        (
            {**taint_rule(), "metadata": {"name": "!@#"}},
            f'metadata.name: Invalid value: "!@#": {SUBDOMAIN}',
        ),
        (
            taint_rule(driver="!@#"),
            f'spec.deviceSelector.driver: Invalid value: "!@#": {SUBDOMAIN}',
        ),
        (taint_rule(pool="!@#"), f'spec.deviceSelector.pool: Invalid value: "!@#": {SUBDOMAIN}'),
        (
            taint_rule(device="!@#"),
            'spec.deviceSelector.device: Invalid value: "!@#": a lowercase RFC 1123 label must',
        ),
        (taint_rule(""), "spec.taint.effect: Required value"),
        (
            taint_rule("some-other-effect"),
            'spec.taint.effect: Unsupported value: "some-other-effect": supported values: "NoExec',
        ),
    ],
)
def test_a_taint_rule(document: Document, begins: str | None) -> None:
    """TestValidateDeviceTaint (pkg/apis/resource/validation/validation_devicetaintrule_test.go)."""
    found = problems("DeviceTaintRule", document)
    assert len(found) == (begins is not None)
    assert not found or found[0].startswith(begins or "")


def test_an_update_of_a_taint_rule() -> None:
    """TestValidateDeviceTaintUpdate of the same file."""
    good, odd = taint_rule(), taint_rule("some-other-effect")
    assert problems("DeviceTaintRule", good, good) == []
    assert problems("DeviceTaintRule", {**odd, "metadata": {"name": "good"}}, odd) == []
    (problem,) = problems("DeviceTaintRule", odd, good)
    assert problem.startswith("spec.taint.effect: Unsupported value")


def test_the_time_of_a_taint_follows_its_effect() -> None:
    """TestStrategyUpdate (pkg/registry/resource/devicetaintrule/strategy_test.go)."""
    api, early, late = Api(fresh_store()), "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"
    document = taint_rule("NoSchedule")
    document["spec"]["taint"]["timeAdded"] = early
    stored = api.create(RULES, "", {**document, "status": {"conditions": []}}).document
    assert "status" not in stored or not stored["status"]
    api.store.outside.wall = partial(datetime.fromisoformat, late)

    def patched(**taint: str) -> tuple[str, int]:
        after = api.patch(RULES, "", "good", {"spec": {"taint": taint}}, MERGE, "").document
        return after["spec"]["taint"]["timeAdded"], after["metadata"]["generation"]

    assert patched(value="other") == (early, 2)
    assert patched(effect="NoExecute") == (late, 3)
    assert patched(effect="None", timeAdded=early) == (early, 4)
    assert patched() == (early, 4)


def test_conditions_of_a_taint_rule() -> None:
    def condition(type_: str) -> Document:
        when = "2024-01-01T00:00:00Z"
        return {"type": type_, "status": "True", "reason": "r", "lastTransitionTime": when}

    def of_status(*conditions: Document) -> list[str]:
        after = {**taint_rule(), "status": {"conditions": [*conditions]}}
        return status_problems("DeviceTaintRule", after, taint_rule())

    eight = [condition(f"c{number}") for number in range(8)]
    assert of_status(*eight) == []
    assert of_status(*eight, condition("c8")) == [
        "status.conditions: Too many: 9: must have at most 8 items"
    ]
    assert of_status(condition("a"), condition("a")) == [
        'status.conditions[1]: Duplicate value: "a"'
    ]
    (missing,) = of_status({**condition("a"), "reason": ""})
    assert missing.startswith("status.conditions[0].reason: Required value")
