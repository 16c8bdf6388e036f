"""What mutating policies make of objects, and when their failures refuse a write."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.access.users import ADMINISTRATOR
from berth.tools.kubernetes.api.policies.policy_writes import (
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
)
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.caller import Caller
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document, pod
from tests.kit.stores import fresh_store

MAPS, PODS = BY_KIND["v1", "ConfigMap"], BY_KIND["v1", "Pod"]
WHO = "policy '{}' with binding 'b-{}' denied request: "


def apply(expression: str) -> Document:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> Document:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


class Cluster:
    def __init__(self) -> None:
        self.api = Api(fresh_store(), caller=Caller(ADMINISTRATOR, "update"))
        self.api.seed()

    def add(self, name: str, *mutations: Document, **spec: Any) -> None:
        """Adds a policy with a binding."""
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps", "pods", "pods/status"],
        }
        binding = spec.pop("binding", {})
        document = {
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "mutations": list(mutations),
                "reinvocationPolicy": "Never",
                **spec,
            },
        }
        self.api.create(MUTATING_POLICIES, "", document)
        bound = {"policyName": name, **binding}
        self.api.create(MUTATING_BINDINGS, "", {"metadata": {"name": f"b-{name}"}, "spec": bound})

    def map(self, name: str = "m", **data: str) -> Document:
        document = {"metadata": {"name": name}, **({"data": data} if data else {})}
        stored: Document = self.api.create(MAPS, "default", document).document
        return stored

    def update(self, **data: str) -> Document:
        document = {"metadata": {"name": "m"}, "data": data}
        return self.api.update(MAPS, "default", "m", document, "").document

    def refusal(self) -> RefusedError:
        with pytest.raises(RefusedError) as refused:
            self.map()
        return refused.value


def test_policies_change_an_object_in_the_order_of_their_names_and_mutations() -> None:
    cluster = Cluster()
    cluster.add("b", patch("[JSONPatch{op: 'add', path: '/data/c', value: object.data.b + '3'}]"))
    cluster.add(
        "a",
        apply("Object{data: {'a': '1'}}"),
        apply("Object{data: {'b': variables.a + '2'}}"),
        variables=[{"name": "a", "expression": "object.data.a"}],
    )
    assert cluster.map(x="y")["data"] == {"x": "y", "a": "1", "b": "12", "c": "123"}


def test_a_policy_changes_updates_and_statuses_too() -> None:
    cluster = Cluster()
    cluster.map()
    created = cluster.api.create(PODS, "default", pod("p")).document
    cluster.add(
        "a",
        apply("Object{data: {'a': '1'}}"),
        matchConditions=[
            {"name": "maps", "expression": "request.resource.resource == 'configmaps'"}
        ],
    )
    cluster.add(
        "s",
        apply("Object{status: Object.status{message: 'told'}}"),
        matchConditions=[{"name": "status", "expression": "has(request.subResource)"}],
    )
    updated = cluster.api.update(MAPS, "default", "m", {"metadata": {"name": "m"}}, "")
    assert updated.document["data"] == {"a": "1"}
    after = cluster.api.update(PODS, "default", "p", created, "status").document
    assert after["status"]["message"] == "told"
    assert after["spec"] == created["spec"]


def test_containers_are_merged_by_name_and_get_their_defaults() -> None:
    cluster = Cluster()
    cluster.add(
        "a",
        apply(
            "Object{spec: Object.spec{containers: object.spec.containers.map(c, "
            "Object.spec.containers{name: c.name, env: [Object.spec.containers.env{name: 'A', "
            "value: 'b'}]}), initContainers: [Object.spec.initContainers{name: 'i', image: 'x'}]}}"
        ),
    )
    spec = cluster.api.create(PODS, "default", pod("p")).document["spec"]
    assert [each["name"] for each in spec["containers"]] == ["c"]
    assert spec["containers"][0]["env"] == [{"name": "A", "value": "b"}]
    assert spec["containers"][0]["image"]
    assert spec["initContainers"][0]["imagePullPolicy"] == "Always"
    # The plugins before the policies run again: an account's token is in the new container too.
    assert spec["initContainers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    ("policy", "changes"), [("Never", {"n": "1", "z": "1"}), ("IfNeeded", {"n": "2", "z": "1"})]
)
def test_a_policy_is_asked_again_after_a_later_change_if_it_wants_it(
    policy: str, changes: dict[str, str]
) -> None:
    cluster = Cluster()
    count = "string(int(object.?data.?n.orValue('0')) + 1)"
    cluster.add("a", apply(f"Object{{data: {{'n': {count}}}}}"), reinvocationPolicy=policy)
    cluster.add("b", apply("Object{data: {'z': '1'}}"))
    assert cluster.map()["data"] == changes


def test_parameters_reach_the_expressions() -> None:
    cluster = Cluster()
    cluster.api.create(MAPS, "default", {"metadata": {"name": "params"}, "data": {"k": "v"}})
    cluster.add(
        "a",
        apply("Object{data: params.data}"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={"paramRef": {"name": "params", "parameterNotFoundAction": "Deny"}},
    )
    assert cluster.map()["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("mutation", "why"),
    [
        (
            apply("Object{data: object.data}"),
            "expression 'Object{data: object.data}' resulted in error: no such key: data",
        ),
        (
            apply("Object{spec: Object.spec{}}"),
            (
                "error applying patch: failed to convert patch object to typed object: .spec: "
                "field not declared in schema"
            ),
        ),
        (
            apply("Object{metadata: Object.meta{}}"),
            (
                'type mismatch: unexpected type name "Object.meta", expected "Object.metadata", '
                "which matches field name path from root Object type"
            ),
        ),
        (
            apply("Object{metadata: Object.metadata{managedFields: [{'manager': 'a'}]}}"),
            (
                "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, "
                "maps or structs: .metadata.managedFields"
            ),
        ),
        (
            patch("[JSONPatch{op: 'remove', path: '/data/x'}]"),
            "JSON Patch: doc is missing path: /data/x",
        ),
    ],
)
def test_a_failure_refuses_the_write_unless_it_is_ignored(mutation: Document, why: str) -> None:
    cluster = Cluster()
    cluster.add("a", mutation)
    refused = cluster.refusal()
    message = WHO.format("a", "a") + why
    assert (refused.code, refused.reason, str(refused)) == (403, "Invalid", message)
    assert (refused.details or {})["causes"] == [{"message": message}]
    cluster = Cluster()
    cluster.add("a", mutation, apply("Object{data: {'a': '1'}}"), failurePolicy="Ignore")
    assert cluster.map()["data"] == {"a": "1"}


def test_a_test_that_fails_leaves_the_object_alone() -> None:
    cluster = Cluster()
    test = "JSONPatch{op: 'test', path: '/metadata/name', value: 'other'}"
    cluster.add("a", patch(f"[{test}, JSONPatch{{op: 'add', path: '/data', value: {{'a': 'b'}}}}]"))
    assert "data" not in cluster.map()


@pytest.mark.parametrize(
    ("mutation", "field", "why"),
    [
        (
            apply("{'a': 1}"),
            "applyConfiguration",
            "must evaluate to Object but got map(",
        ),
        (apply("Other{}"), "applyConfiguration", "undeclared reference to 'Other'"),
        (patch("Object{}"), "jsonPatch", "must evaluate to list(JSONPatch) but got Object"),
    ],
)
def test_expressions_of_another_type_are_refused(mutation: Document, field: str, why: str) -> None:
    with pytest.raises(RefusedError) as refused:
        Cluster().add("a", mutation)
    assert f"spec.mutations[0].{field}.expression: Invalid value" in str(refused.value)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("operation", "code", "why"),
    [
        ("{op: 'replace', path: '/kind', value: 'Secret'}", 500, "admission made Secret in v1"),
        ("{op: 'remove', path: '/kind'}", 500, "admission made None in v1"),
        ("{op: 'replace', path: '/apiVersion', value: 'v7'}", 500, "ConfigMap in v7"),
        ("{op: 'replace', path: '/metadata', value: 1}", 500, "metadata that is no object: 1"),
        ("{op: 'replace', path: '/metadata/namespace', value: 'x'}", 400, "the namespace of the"),
    ],
)
def test_a_mutation_makes_no_other_object(operation: str, code: int, why: str) -> None:
    cluster = Cluster()
    cluster.map(a="1")
    cluster.add("a", patch(f"[JSONPatch{operation}]"))
    with pytest.raises(RefusedError, match=why) as created:
        cluster.map("n")
    with pytest.raises(RefusedError, match=why) as updated:
        cluster.update(a="2")
    assert created.value.code == updated.value.code == code
    stored = cluster.api.store.get(MAPS, "default", "m")
    assert (stored["kind"], stored["data"]) == ("ConfigMap", {"a": "1"})


def test_a_mutation_renames_a_new_object_alone() -> None:
    cluster = Cluster()
    cluster.map(a="1")
    cluster.add("a", patch("[JSONPatch{op: 'replace', path: '/metadata/name', value: 'o'}]"))
    assert cluster.map("n")["metadata"]["name"] == "o"
    with pytest.raises(RefusedError, match=r'name: Invalid value: "o": field is immutable'):
        cluster.update(a="2")


def test_an_object_keeps_its_namespace() -> None:
    cluster = Cluster()
    cluster.add("a", patch("[JSONPatch{op: 'remove', path: '/metadata/namespace'}]"))
    assert cluster.map()["metadata"]["namespace"] == "default"
