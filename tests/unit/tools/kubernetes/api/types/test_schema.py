"""The schema: unknown and mistyped fields in the words of Kubernetes' decoder, merge keys, and
OpenAPI documents.
"""

from __future__ import annotations

from typing import Any

import pytest

from berth.config.versions import VERSIONS
from berth.tools.kubernetes.api.types import openapi, schema
from berth.tools.kubernetes.api.types.catalog import Catalog
from berth.tools.kubernetes.api.types.releases import release_of
from berth.tools.kubernetes.api.types.resources import KINDS
from berth.tools.kubernetes.api.types.schema import Shape
from tests.kit.cases import documents
from tests.kit.documents import thing

NEWEST = release_of(VERSIONS[max(VERSIONS)])


def pod(**spec: Any) -> dict[str, Any]:
    return thing(
        "Pod",
        "a",
        labels={"app": "x"},
        creationTimestamp=None,
        spec={"containers": [{"name": "c", "image": "i"}], **spec},
    )


def test_every_kind_that_is_served_has_a_type() -> None:
    for kind in KINDS:
        fields = schema.TYPES[kind.type_name].fields or {}
        assert fields["metadata"].shape is schema.TYPES["ObjectMeta"], kind.kind
        group = kind.group or "core"
        assert schema.TYPES[kind.type_name].api_version == f"{group}/{kind.version}"
        assert ("status" in fields) >= kind.status, kind.kind


def test_a_plain_document_has_nothing_unknown() -> None:
    document = pod(
        nodeSelector={"disk": "ssd"},
        priority=5,
        hostNetwork=False,
        overhead={"cpu": 1, "memory": "1Mi"},
        tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 3}],
        affinity=None,
    )
    document["metadata"]["managedFields"] = [
        {"fieldsV1": {"f:spec": {"anything": [1]}}, "time": "2026-01-02T03:04:05Z"}
    ]
    assert schema.unknown_and_mistyped("Pod", document) == schema.Findings([], "", nulls=True)


def test_nulls_in_lists_and_maps_are_zeros() -> None:
    document = pod(
        nodeSelector={"disk": None},
        overhead={"cpu": None},
        tolerations=[None],
        schedulerName=None,
        volumes=[{"name": "v", "configMap": {"name": None, "items": None}}],
    )
    kept = schema.pruned(schema.TYPES["Pod"], document)["spec"]
    assert kept == {
        "containers": [{"name": "c", "image": "i"}],
        "nodeSelector": {"disk": ""},
        "overhead": {"cpu": "0"},
        "tolerations": [{}],
        "volumes": [{"name": "v", "configMap": {}}],
    }
    secret = {"data": {"a": None}, "stringData": {"b": None}}
    zeros = {"data": {"a": ""}, "stringData": {"b": ""}}
    assert schema.pruned(schema.TYPES["Secret"], secret) == zeros


def test_unknown_fields_are_named_with_their_path() -> None:
    document = pod(
        containers=[{"name": "c", "imagee": "i"}], tolerations=[{}, {"key": "k", "x": 1}]
    )
    document["sepc"] = {}
    assert schema.unknown_and_mistyped("Pod", document).unknown == [
        'unknown field "spec.containers[0].imagee"',
        'unknown field "spec.tolerations[1].x"',
        'unknown field "sepc"',
    ]
    assert schema.strict_message("Pod", ['unknown field "sepc"']) == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown '
        'field "sepc"'
    )


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    documents("""
Deployment => {spec: {replicas: '3'}} =>
    json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32
Pod => {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: x}, creationTimestamp: null},
    spec: {containers: [{name: c, env: [{name: A, value: 1}]}]}} => json: cannot unmarshal number
    into Go struct field EnvVar.spec.containers.env.value of type string
Pod => {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: x}, creationTimestamp: null},
    spec: {containers: {}}} => json: cannot unmarshal object into Go struct field
    PodSpec.spec.containers of type []v1.Container
Pod => {metadata: {labels: {a: true}}} =>
    json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string
Pod => {metadata: {labels: []}} => json: cannot unmarshal array into Go struct field
    ObjectMeta.metadata.labels of type map[string]string
Pod => {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: x}, creationTimestamp: null},
    spec: {containers: [{name: c, image: i}], priority: 2147483648}} => json: cannot unmarshal
    number 2147483648 into Go struct field PodSpec.spec.priority of type int32
Pod => {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: x}, creationTimestamp: null},
  spec: {containers: [{name: c, image: i}], priority: 1.5}} =>
    json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32
Pod => {spec: x} => json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec
Pod => {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: x}, creationTimestamp: null},
  spec: {containers: [{name: c, image: i}], overhead: {cpu: 1x}}} =>
    quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
Lease => {spec: {renewTime: noon}} =>
    parsing time "noon" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "noon" as "2006"
Secret => {data: {a: '%'}} => illegal base64 data at input byte 0
"""),
)
def test_wrong_types_are_refused(kind: str, document: dict[str, Any], message: str) -> None:
    answer = schema.unknown_and_mistyped(kind, document)
    assert answer[:2] == ([], f'{kind} in version "v1" cannot be handled as a {kind}: {message}')


def test_ports_may_be_numbers_or_names() -> None:
    service: dict[str, Any] = {
        "spec": {"ports": [{"port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 8080}]}
    }
    assert schema.unknown_and_mistyped("Service", service) == schema.Findings([], "")
    service = {"spec": {"ports": [{"port": 80, "targetPort": [1]}]}}
    assert "of type int32" in schema.unknown_and_mistyped("Service", service).mistyped


def test_the_two_types_named_resource_claim_are_kept_apart() -> None:
    claims = pod(
        containers=[
            {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu", "request": "r"}]}}
        ]
    )
    assert schema.unknown_and_mistyped("Pod", claims) == schema.Findings([], "", nulls=True)
    assert schema.unknown_and_mistyped(
        "ResourceClaim", {"spec": {"devices": {"requests": []}}}
    ) == schema.Findings([], "")


def test_duplicate_fields_are_found_in_the_text() -> None:
    text = (
        b'{"a":1,"spec":{"containers":[{"x":1},{"image":'
        b'"i","image":"j"}],"nodeName":"a","nodeName":"b"},"a":2}'
    )
    assert schema.duplicate_fields(text) == [
        'duplicate field "a"',
        'duplicate field "spec.nodeName"',
        'duplicate field "spec.containers[1].image"',
    ]
    assert schema.duplicate_fields(b'{"a":{"a":{"a":1}}}') == []


@pytest.mark.parametrize(
    ("owner", "field", "key"),
    [
        ("PodSpec", "containers", "name"),
        ("PodSpec", "tolerations", None),
        ("PodSpec", "topologySpreadConstraints", "topologyKey"),
        ("Container", "ports", "containerPort"),
        ("ServiceSpec", "ports", "port"),
        ("ObjectMeta", "ownerReferences", "uid"),
        ("ObjectMeta", "finalizers", "*"),
        ("NodeSpec", "taints", None),
        ("ResourceClaimStatus", "reservedFor", "uid"),
    ],
)
def test_merge_keys(owner: str, field: str, key: str | None) -> None:
    shape = (schema.TYPES[owner].fields or {})[field]
    assert shape.merge_key == key


def test_merge_keys_are_fields_of_the_merged_items() -> None:
    for name, shape in schema.TYPES.items():
        for field in (shape.fields or {}).values():
            if field.merge_key not in (None, "*"):
                assert field.shape.item is not None
                assert field.merge_key in (field.shape.item.fields or {}), name


def test_every_field_except_kind_and_api_version_has_a_unique_number() -> None:
    for name, shape in schema.TYPES.items():
        fields = shape.fields or {}
        unnumbered = {field for field, of in fields.items() if not of.numbers}
        assert unnumbered in (set(), {"apiVersion", "kind"}), name
        numbers = [of.numbers for of in fields.values() if of.numbers]
        assert len(set(numbers)) == len(numbers), name
        around = {own[:i] for own in numbers for i in range(1, len(own))}
        assert around.isdisjoint(numbers), name


@pytest.mark.parametrize(
    ("owner", "field", "keeps_zero", "numbers"),
    [
        ("ObjectMeta", "labels", False, (11,)),
        ("DeploymentSpec", "replicas", True, (1,)),
        ("Container", "name", True, (1,)),
        ("Volume", "emptyDir", False, (2, 2)),
        ("Pod", "kind", False, ()),
    ],
)
def test_numbers_and_zeros(
    owner: str, field: str, keeps_zero: bool, numbers: tuple[int, ...]
) -> None:
    schema_of_field = (schema.TYPES[owner].fields or {})[field]
    assert (schema_of_field.keeps_zero, schema_of_field.numbers) == (keeps_zero, numbers)


@pytest.mark.parametrize(
    "text", ["[core/v1]\nA b:Missing\n", "[core/v1]\nA b:string\nA c:string\n"]
)
def test_a_schema_with_an_undefined_or_duplicate_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        assert schema.compiled(text)["A"].fields


def test_canonical_forms_compare_as_kubernetes_does() -> None:
    shape = schema.TYPES["PodSpec"]
    sparse = pod(nodeSelector={}, hostNetwork=False, tolerations=None, overhead={"cpu": "1"})[
        "spec"
    ]
    same = pod(overhead={"cpu": "1000m"})["spec"]
    assert schema.canonical(shape, sparse) == schema.canonical(shape, same)
    assert schema.canonical(shape, sparse) != schema.canonical(shape, {**same, "nodeName": "n"})


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"automountServiceAccountToken": False}, {}, False),
        ({"hostPID": False, "priority": None}, {}, True),
        ({"terminationGracePeriodSeconds": 0}, {}, False),
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, {"volumes": [{"name": "v"}]}, False),
        ({"volumes": [], "nodeSelector": {}}, {}, True),
        ({"containers": [{"name": "c", "resources": {}}]}, {"containers": [{"name": "c"}]}, True),
    ],
)
def test_a_zero_is_a_value_where_kubernetes_has_a_pointer(
    left: dict[str, Any], right: dict[str, Any], same: bool
) -> None:
    assert schema.same("PodSpec", left, right) is same


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(below) for below in value.values()))
    return (
        set().union(*(references(below) for below in value)) if isinstance(value, list) else set()
    )


def test_openapi_documents_have_no_missing_references() -> None:
    index = openapi.document("/openapi/v3")
    assert index is not None
    assert set(index["paths"]) >= {"api/v1", "apis/apps/v1", "apis/resource.k8s.io/v1"}
    for entry in index["paths"].values():
        document = openapi.document(entry["serverRelativeURL"])
        assert document is not None
        defined = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert references(document) <= defined


def test_openapi_lets_kubectl_leave_validation_to_the_server() -> None:
    for kind in KINDS:
        group = f"apis/{kind.api_version}" if kind.group else "api/v1"
        document = openapi.document(f"/openapi/v3/{group}", Catalog(NEWEST))
        assert document is not None
        group_kind = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        patches = [path["patch"] for path in document["paths"].values() if "patch" in path]
        (parameters,) = {
            tuple(parameter["name"] for parameter in patch["parameters"])
            for patch in patches
            if patch["x-kubernetes-group-version-kind"] == group_kind
        }
        assert set(parameters) == {"dryRun", "fieldManager", "fieldValidation", "force"}
        assert [group_kind] in [
            named.get("x-kubernetes-group-version-kind")
            for named in document["components"]["schemas"].values()
        ]


def test_openapi_has_merge_keys_and_required_fields() -> None:
    document = openapi.document("/openapi/v3/api/v1")
    assert document is not None
    spec = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["containers"] == {
        "type": "array",
        "items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}]},
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "name",
    }


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/apis/nothing/v1", "/api/v1", "/"])
def test_openapi_has_no_other_documents(path: str) -> None:
    assert openapi.document(path) is None


def test_a_kind_without_a_type_is_not_checked() -> None:
    assert "Widget" not in schema.TYPES
    assert schema.unknown_and_mistyped("Widget", {"x": 1}) == schema.Findings([], "")
    assert Shape("string").go == "string"


def test_a_spec_gets_the_same_result_the_second_time() -> None:
    for spec, where in (
        ({"containers": [{"name": "c", "image": None}]}, ""),
        ({"containers": [{"nam": "c"}], "priority": 1}, ""),
        ({"priority": "1"}, "spec.priority"),
        ({"priority": 10**30}, "spec.priority"),
        ({"priority": 1.0}, "spec.priority"),
        ([], "spec"),
    ):
        first, second = (
            schema.unknown_and_mistyped("Pod", {"metadata": {}, "spec": spec}) for _ in range(2)
        )
        assert first == second
        assert first.where == where
    assert schema.unknown_and_mistyped("Pod", {"spec": {"priority": 1, "containers": [None]}}).nulls
    assert schema.unknown_and_mistyped("Pod", {"spec": {"containers": [{"nam": 1}]}}).unknown == [
        'unknown field "spec.containers[0].nam"'
    ]


def test_a_field_of_any_type_has_a_limited_depth() -> None:
    value: Any = 1
    for depth in range(1, 200):
        value = {"a": value} if depth % 2 else [value]
        findings = schema.unknown_and_mistyped(
            "ConfigMap", {"metadata": {"managedFields": [{"fieldsV1": value}]}}
        )
        assert bool(findings.mistyped) == (depth >= schema.MOST_DEPTH), depth
    assert findings.mistyped.endswith(": exceeded max depth")
    assert findings.where == "metadata.managedFields[0].fieldsV1"


def test_a_quantity_of_thousands_of_digits_is_refused() -> None:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1" * 5000}}}]}
    assert "quantities must match" in schema.unknown_and_mistyped("Pod", {"spec": spec}).mistyped


def test_many_duplicate_fields_are_found_in_one_pass() -> None:
    body = b"{" + b",".join(b'"k%d":1,"k%d":2' % (i, i) for i in range(20_000)) + b"}"
    assert len(schema.duplicate_fields(body)) == 20_000


def test_the_replaced_part_of_a_document_has_the_values_that_are_not_the_same() -> None:
    before = pod()
    metadata = {**before["metadata"], "name": "b"}
    after = {**before, "metadata": metadata, "status": {"phase": None}}
    # a null is reported wherever it is
    news = {"metadata": {"name": "b", "creationTimestamp": None}, "status": {"phase": None}}
    assert schema.replaced(after, before) == news


def test_the_replaced_items_of_a_list_stay_in_their_places() -> None:
    first, second = {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}
    before = {"containers": [first, second], "args": ["a", "b"]}
    after = {"containers": [dict(first), {**second, "image": "b:2"}], "args": ["a", "c"]}
    news = {"containers": [{}, {"image": "b:2"}], "args": ["a", "c"]}
    assert schema.replaced(after, before) == news
    longer = {"containers": [first, second, {"name": "c"}]}
    assert schema.replaced(longer, before) == longer
