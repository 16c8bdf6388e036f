"""Resource claims: for each rule a document that breaks only this rule, and how claims change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.cases import documents
from tests.kit.documents import Document

CLAIMS = BY_KIND["resource.k8s.io/v1", "ResourceClaim"]
TEMPLATES = BY_KIND["resource.k8s.io/v1", "ResourceClaimTemplate"]
NAMESPACES = BY_KIND["v1", "Namespace"]
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
FINALIZER = "resource.kubernetes.io/delete-protection"


def exactly(name: str = "gpu", **fields: Any) -> Document:
    return {"name": name, "exactly": {"deviceClassName": "gpu.example.com", **fields}}


def alternatives(*names: str, **fields: Any) -> Document:
    return {
        "name": "gpu",
        "firstAvailable": [{"name": name, "deviceClassName": name, **fields} for name in names],
    }


def claim(*requests: Document, **devices: Any) -> Document:
    listed = list(requests) if requests else [exactly()]
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": listed, **devices}}}


def result(device: str = "gpu-0", **fields: Any) -> Document:
    return {
        "request": "gpu",
        "driver": "gpu.example.com",
        "pool": "node-1",
        "device": device,
        **fields,
    }


def allocation(*results: Document) -> Document:
    return {"devices": {"results": list(results) if results else [result()]}}


def pod(number: int) -> Document:
    return {"resource": "pods", "name": f"p{number}", "uid": f"uid-{number}"}


def refusal(api: Api, document: Document) -> str:
    with pytest.raises(RefusedError) as refused:
        api.create(CLAIMS, "default", document)
    assert refused.value.code == 422
    return str(refused.value).removeprefix('ResourceClaim.resource.k8s.io "c" is invalid: ')


def set_status(api: Api, patch: Document, how: str = MERGE) -> Document:
    return api.patch(CLAIMS, "default", "c", patch, how, "status").document


def refused_status(api: Api, status: Document) -> str:
    with pytest.raises(RefusedError) as refused:
        set_status(api, {"status": status})
    assert refused.value.code == 422
    return str(refused.value).removeprefix('ResourceClaim.resource.k8s.io "c" is invalid: ')


def test_requests_are_for_one_device_by_default(api: Api) -> None:
    tolerations = [{"key": "broken"}, {"operator": "Exists"}]
    created = api.create(
        CLAIMS,
        "default",
        claim(
            exactly(tolerations=tolerations),
            exactly("all", allocationMode="All"),
            {**alternatives("big", "small"), "name": "some"},
        ),
    ).document
    first, everything, some = created["spec"]["devices"]["requests"]
    assert first["exactly"]["allocationMode"] == "ExactCount"
    assert first["exactly"]["count"] == 1
    assert [item["operator"] for item in first["exactly"]["tolerations"]] == ["Equal", "Exists"]
    assert "count" not in everything["exactly"]
    assert [(item["allocationMode"], item["count"]) for item in some["firstAvailable"]] == [
        ("ExactCount", 1)
    ] * 2
    assert created["status"] == {}


def test_templates_have_the_same_defaults_and_rules(api: Api) -> None:
    spec = claim()["spec"]
    created = api.create(TEMPLATES, "default", {"metadata": {"name": "t"}, "spec": {"spec": spec}})
    (request,) = created.document["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 1
    broken = claim(exactly("UP"))["spec"]
    with pytest.raises(
        RefusedError, match=r"spec\.spec\.devices\.requests\[0\]\.name: Invalid value"
    ):
        api.create(TEMPLATES, "default", {"metadata": {"name": "u"}, "spec": {"spec": broken}})
    changed = {"spec": {"spec": claim(exactly(count=2))["spec"]}}
    with pytest.raises(RefusedError, match=r"spec: Invalid value: .*: field is immutable"):
        api.patch(TEMPLATES, "default", "t", changed, MERGE, "")


REQUEST = "spec.devices.requests[0]"
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]"
COSTLY = "".join(f"{TEN}.all({name}, " for name in "abcdefgh") + "device.driver == 'd'" + ")" * 8
BROKEN = [
    *(
        (claim(exactly(**fields)), f"{REQUEST}.exactly{text}")
        for fields, text in documents("""
{deviceClassName: ''} => .deviceClassName: Required value
{deviceClassName: no/class} => .deviceClassName: Invalid value: "no/class"
{allocationMode: Some} =>
    .allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"
{allocationMode: All, count: 2} =>
    .count: Invalid value: 2: must not be specified when allocationMode is 'All'
{count: -1} => .count: Invalid value: -1: must be greater than zero
{selectors: [{}]} => .selectors[0].cel: Required value
{selectors: [{cel: {expression: '''text'''}}]} =>
    .selectors[0].cel.expression: Invalid value: "'text'": must evaluate to bool
{tolerations: [{operator: Exists, value: x}]} =>
    .tolerations[0].value: Invalid value: "x": must be empty for operator `Exists`
{tolerations: [{operator: Exists, effect: PreferNoSchedule}]} =>
    .tolerations[0].effect: Unsupported value
""")
    ),
    *(
        (claim(**fields), text)
        for fields, text in documents("""
{constraints: [{requests: [other], matchAttribute: a.com/b}]} =>
    spec.devices.constraints[0].requests[0]: Invalid value: "other": must be the name of a request
    in
{constraints: [{}]} => spec.devices.constraints[0]: Required value: exactly one of
{constraints: [{matchAttribute: plain}]} => spec.devices.constraints[0].matchAttribute: Invalid
    value: "plain": a fully qualified name must be
{constraints: [{distinctAttribute: a.com/9}]} =>
    spec.devices.constraints[0].distinctAttribute: Invalid value: "9": a valid C identifier must
{config: [{}]} => spec.devices.config[0].opaque: Required value
{config: [{opaque: {driver: a.com, parameters: [1]}}]} => spec.devices.config[0].opaque.parameters:
    Invalid value: "<value omitted>": must be a valid JSON object
""")
    ),
    (claim({"name": "gpu"}), f"{REQUEST}: Required value: exactly one of `exactly` or"),
    (
        claim({**exactly(), **alternatives("a")}),
        (
            f"{REQUEST}: Invalid value: null: exactly one of `exactly` or `firstAvailable` is "
            "required, but multiple fields are set"
        ),
    ),
    (claim(exactly("")), f'{REQUEST}.name: Invalid value: ""'),
    (claim(exactly(), exactly()), 'spec.devices.requests[1]: Duplicate value: "gpu"'),
    (claim(alternatives("a", "a")), f'{REQUEST}.firstAvailable[1]: Duplicate value: "a"'),
    (
        claim(*(exactly(f"r{i}") for i in range(33))),
        "spec.devices.requests: Too many: 33: must have at most 32 items",
    ),
    (
        claim(alternatives(*(f"a{i}" for i in range(9)))),
        f"{REQUEST}.firstAvailable: Too many: 9: must have at most 8 items",
    ),
    (
        claim(exactly(selectors=[{"cel": {"expression": "true"}}] * 33)),
        f"{REQUEST}.exactly.selectors: Too many: 33: must have at most 32 items",
    ),
    (
        claim(exactly(selectors=[{"cel": {"expression": " " * 10241}}])),
        f"{REQUEST}.exactly.selectors[0].cel.expression: Too long: may not be more than 10240",
    ),
    (
        claim(exactly(selectors=[{"cel": {"expression": "device.drive == 'x'"}}])),
        (
            f"{REQUEST}.exactly.selectors[0].cel.expression: "
            "Invalid value: \"device.drive == 'x'\": compilation failed: "
            "ERROR: <input>:1:7: undefined field 'drive'"
        ),
    ),
    (
        claim(exactly(selectors=[{"cel": {"expression": COSTLY}}])),
        (
            f"{REQUEST}.exactly.selectors[0].cel.expression: Forbidden: "
            "too complex, exceeds cost limit"
        ),
    ),
]


@pytest.mark.parametrize(("document", "problem"), BROKEN, ids=[text for _, text in BROKEN])
def test_a_claim_that_breaks_one_rule_is_refused(
    api: Api, document: Document, problem: str
) -> None:
    message = refusal(api, document)
    assert message.startswith(problem), message
    assert not message.startswith("[")


def test_a_claim_with_every_field_is_valid(api: Api) -> None:
    opaque = {"driver": "gpu.example.com", "parameters": {"mode": "fast"}}
    document = claim(
        exactly("one", selectors=[{"cel": {"expression": "true"}}], count=2),
        alternatives("big", "small"),
        constraints=[
            {"matchAttribute": "gpu.example.com/model", "requests": ["one", "gpu/small"]},
            {"distinctAttribute": "gpu.example.com/id"},
        ],
        config=[{"requests": ["gpu"], "opaque": opaque}, {"opaque": opaque}],
    )
    assert api.create(CLAIMS, "default", document)
    assert api.create(CLAIMS, "default", {"metadata": {"name": "empty"}, "spec": {}})


def test_the_spec_is_immutable_and_the_metadata_is_not(api: Api) -> None:
    api.create(CLAIMS, "default", claim())
    changed = {"spec": claim(exactly(count=2))["spec"]}
    with pytest.raises(RefusedError, match=r"spec: Invalid value: .*: field is immutable"):
        api.patch(CLAIMS, "default", "c", changed, MERGE, "")
    api.patch(CLAIMS, "default", "c", {"metadata": {"finalizers": [FINALIZER]}}, MERGE, "")
    # defaults that the client leaves out are no change
    api.update(CLAIMS, "default", "c", claim(), "")


def test_a_claim_is_allocated_shared_and_released(api: Api) -> None:
    api.create(CLAIMS, "default", claim())
    set_status(api, {"status": {"allocation": allocation(), "reservedFor": [pod(1)]}})
    document = set_status(api, {"status": {"reservedFor": [pod(2)]}}, STRATEGIC)
    assert [user["uid"] for user in document["status"]["reservedFor"]] == ["uid-2", "uid-1"]
    gone = {"status": {"reservedFor": [{"uid": "uid-1", "$patch": "delete"}]}}
    document = set_status(api, gone, STRATEGIC)
    assert [user["uid"] for user in document["status"]["reservedFor"]] == ["uid-2"]
    other = allocation(result("gpu-1"))
    assert "status.allocation: Invalid value" in refused_status(api, {"allocation": other})
    document = set_status(api, {"status": {"allocation": None, "reservedFor": None}})
    assert document["status"] == {}
    set_status(api, {"status": {"allocation": other}})


def test_a_status_update_from_an_old_version_conflicts(api: Api) -> None:
    version = api.create(CLAIMS, "default", claim()).document["metadata"]["resourceVersion"]
    set_status(api, {"status": {"allocation": allocation()}})
    body = {"metadata": {"resourceVersion": version}, "status": {"reservedFor": [pod(1)]}}
    with pytest.raises(RefusedError) as refused:
        set_status(api, body)
    assert refused.value.code == 409


STATUS = [
    (
        {"reservedFor": [pod(1)]},
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
    ),
    (
        {"allocation": allocation(), "reservedFor": [pod(i) for i in range(257)]},
        "status.reservedFor: Too many: 257: must have at most 256 items",
    ),
    (
        {"allocation": allocation(), "reservedFor": [pod(1), pod(1)]},
        'status.reservedFor[1]: Duplicate value: "uid-1"',
    ),
    (
        {"allocation": allocation(), "reservedFor": [{"resource": "pods", "uid": "u", "name": ""}]},
        "status.reservedFor[0].name: Required value",
    ),
    (
        {"allocation": allocation(result(request="other"))},
        'status.allocation.devices.results[0].request: Invalid value: "other": must be the name',
    ),
    (
        {"allocation": allocation(*(result(f"d{i}") for i in range(33)))},
        "status.allocation.devices.results: Too many: 33: must have at most 32 items",
    ),
    (
        {"allocation": allocation(result(pool=""))},
        "status.allocation.devices.results[0].pool: Required value",
    ),
    (
        {"allocation": allocation(result(shareID="X"))},
        'status.allocation.devices.results[0].shareID: Invalid value: "X": uid must be in RFC 4122',
    ),
    (
        {"allocation": allocation(result(bindingConditions=["a.com/ready"]))},
        (
            "status.allocation.devices.results[0].bindingFailureConditions: Invalid value: []: "
            "bindingFailureConditions are required to use bindingConditions"
        ),
    ),
    (
        {"allocation": {**allocation(), "nodeSelector": {"nodeSelectorTerms": []}}},
        "status.allocation.nodeSelector.nodeSelectorTerms: Required value",
    ),
    (
        {"allocation": allocation(), "devices": [result("gpu-7")]},
        (
            'status.devices[0]: Invalid value: "gpu.example.com/node-1/gpu-7": '
            "must be an allocated device in the claim"
        ),
    ),
]


@pytest.mark.parametrize(("status", "problem"), STATUS, ids=[text for _, text in STATUS])
def test_a_status_that_breaks_one_rule_is_refused(api: Api, status: Document, problem: str) -> None:
    api.create(CLAIMS, "default", claim())
    status = copy.deepcopy(status)
    for device in status.get("devices", ()):
        del device["request"]
    message = refused_status(api, status)
    assert message.startswith(problem), message


def test_alternatives_are_named_with_their_request(api: Api) -> None:
    api.create(CLAIMS, "default", claim(alternatives("big", "small")))
    wrong = allocation(result(request="gpu/huge"))
    assert "must be the name of a request" in refused_status(api, {"allocation": wrong})
    set_status(api, {"status": {"allocation": allocation(result(request="gpu/small"))}})


def test_nobody_reserves_a_claim_that_is_being_deleted(api: Api) -> None:
    document = claim()
    document["metadata"]["finalizers"] = [FINALIZER]
    api.create(CLAIMS, "default", document)
    set_status(api, {"status": {"allocation": allocation(), "reservedFor": [pod(1)]}})
    api.delete(CLAIMS, "default", "c", DeleteOptions())
    problem = refused_status(api, {"reservedFor": [pod(1), pod(2)]})
    assert problem.startswith("status.reservedFor: Forbidden: new entries may not be added while")
    set_status(api, {"status": {"allocation": None, "reservedFor": None}})
    api.patch(CLAIMS, "default", "c", {"metadata": {"finalizers": []}}, MERGE, "")
    assert api.store.find(CLAIMS, "default", "c") is None


def test_the_status_of_devices_goes_with_their_allocation(api: Api) -> None:
    api.create(CLAIMS, "default", claim())
    device = {field: result()[field] for field in ("driver", "pool", "device")}
    document = set_status(api, {"status": {"allocation": allocation(), "devices": [device]}})
    assert document["status"]["devices"] == [device]
    assert set_status(api, {"status": {"allocation": None}})["status"] == {}


def test_admin_access_needs_a_label_on_the_namespace(api: Api) -> None:
    admin = claim(exactly(adminAccess=True))
    rule = (
        "Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
    )
    assert rule in refusal(api, admin)
    template = {"metadata": {"name": "t"}, "spec": {"spec": admin["spec"]}}
    with pytest.raises(RefusedError, match="admin access to devices requires"):
        api.create(TEMPLATES, "default", template)
    api.create(CLAIMS, "default", claim())
    granted = allocation(result(adminAccess=True))
    assert rule in refused_status(api, {"allocation": granted})
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    api.patch(NAMESPACES, "", "default", labels, MERGE, "")
    set_status(api, {"status": {"allocation": granted}})
    api.create(TEMPLATES, "default", template)
    api.create(CLAIMS, "default", {**admin, "metadata": {"name": "d"}})
