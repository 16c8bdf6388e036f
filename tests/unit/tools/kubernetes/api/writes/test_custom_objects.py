"""Custom objects: what is stored of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.store import DEFINITIONS, Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.conversion import served_form
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.custom_kinds import GROUP, define, definition, kind_of, schema_of, shirt, version_of
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

TEXT: Document = {"type": "string"}
NUMBER: Document = {"type": "integer"}


def serving(spec: Document, **version: Any) -> Store:
    """Returns a store that serves shirts with this schema of their spec."""
    store = fresh_store()
    Api(store).seed()
    define(store, definition(version_of(schema_of(spec), **version)))
    return store


def created(
    store: Store, document: Document, validation: str = "Warn"
) -> tuple[Document, list[str]]:
    api = Api(store, validation)
    stored = api.create(kind_of(store), "default", document)
    return stored.document, api.warnings


def refused(store: Store, document: Document, validation: str = "Warn") -> str:
    with pytest.raises(RefusedError) as why:
        created(store, document, validation)
    return str(why.value)


def test_defaults_are_filled_in_from_the_outside_inwards() -> None:
    size = {"type": "object", "default": {}, "properties": {"width": {**NUMBER, "default": 4}}}
    store = serving({"properties": {"size": size, "cut": {**TEXT, "default": "wide"}}})
    assert created(store, shirt("a", cut=None, colour="x"))[0]["spec"] == {
        "size": {"width": 4},
        "cut": "wide",
    }
    assert created(store, shirt("b", size={"width": 5}))[0]["spec"]["size"] == {"width": 5}
    assert "spec" not in created(store, shirt("c"))[0]
    store = serving({"properties": {"none": TEXT, "cut": {**TEXT, "default": "wide"}}})
    assert created(store, shirt("a", none=None))[0]["spec"] == {"cut": "wide"}


def test_unknown_fields_are_left_out_warned_of_or_refused() -> None:
    items = {"type": "array", "items": {"type": "object", "properties": {"name": TEXT}}}
    spec = {
        "properties": {
            "parts": items,
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "tags": {"type": "object", "additionalProperties": TEXT},
        }
    }
    store = serving(spec)
    sent = shirt(parts=[{"name": "a", "no": 1}], free={"any": 1}, tags={"k": "v"}, odd=True)
    message = refused(store, sent, "Strict")
    assert message == (
        'Shirt in version "v1" cannot be handled as a Shirt: strict decoding error: '
        'unknown field "spec.odd", unknown field "spec.parts[0].no"'
    )
    stored, warnings = created(store, sent)
    assert warnings == ['unknown field "spec.odd"', 'unknown field "spec.parts[0].no"']
    assert stored["spec"] == {"parts": [{"name": "a"}], "free": {"any": 1}, "tags": {"k": "v"}}


def test_metadata_is_that_of_every_object() -> None:
    store = serving({})
    stored, warnings = created(store, shirt(metadata={"labels": {"a": "b"}, "odd": 1}))
    assert warnings == ['unknown field "metadata.odd"']
    assert "odd" not in stored["metadata"]
    assert stored["metadata"]["generation"] == 1
    assert "json: cannot unmarshal" in refused(store, shirt("b", metadata={"labels": {"a": 1}}))
    assert "metadata.name: Invalid value" in refused(store, shirt("B_"))
    assert "v1.ObjectMeta" in refused(store, {**shirt(), "metadata": "m"})


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (NUMBER, "x", 'Invalid value: "string": spec.f in body must be of type integer: "string"'),
        (TEXT, 1, 'Invalid value: "integer": spec.f in body must be of type string: "integer"'),
        ({**NUMBER, "maximum": 3}, 4, "spec.f in body should be less than or equal to 3"),
        ({**NUMBER, "minimum": 3, "exclusiveMinimum": True}, 3, "should be greater than 3"),
        ({**NUMBER, "multipleOf": 2}, 3, "spec.f in body should be a multiple of 2"),
        ({**TEXT, "maxLength": 2}, "abc", "spec.f: Too long: may not be more than 2 bytes"),
        ({**TEXT, "minLength": 2}, "a", "spec.f in body should be at least 2 chars long"),
        ({**TEXT, "pattern": "^a+$"}, "b", "spec.f in body should match '^a+$'"),
        (
            {**TEXT, "enum": ["a", "b"]},
            "c",
            'spec.f: Unsupported value: "c": supported values: "a", "b"',
        ),
        ({**TEXT, "format": "date"}, "x", 'spec.f in body must be of type date: "x"'),
        ({**TEXT, "format": "ipv4"}, "1.2.3", "must be of type ipv4"),
        (
            {"type": "array", "items": TEXT, "maxItems": 1},
            ["a", "b"],
            "spec.f: Too many: 2: must have at most 1 item",
        ),
        ({"type": "array", "items": NUMBER}, ["a"], "spec.f[0] in body must be of type integer"),
        ({"type": "object", "required": ["g"]}, {}, "spec.f.g: Required value"),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'spec.f in body must be of type integer,string: "boolean"',
        ),
        (
            {**NUMBER, "format": "int32"},
            1 << 40,
            "Checked value must be of type integer with format int32 in spec.f",
        ),
        (
            {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            '"spec.f" must validate one and only one schema (oneOf). Found none valid',
        ),
        (
            {**TEXT, "not": {"enum": ["a"]}},
            "a",
            '"spec.f" must not validate the schema (not)',
        ),
    ],
)
def test_a_schema_refuses_in_kubernetes_words(schema: Document, value: Any, problem: str) -> None:
    assert problem in refused(serving({"properties": {"f": schema}}), shirt(f=value))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number"}, 1),
        (NUMBER, 1.0),
        ({**TEXT, "nullable": True}, None),
        ({**TEXT, "format": "unheard-of"}, "x"),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        ({**TEXT, "format": "date-time"}, "2026-01-02T03:04:05Z"),
        ({**TEXT, "format": "duration"}, "5m30s"),
        ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": 1}),
    ],
)
def test_a_schema_accepts(schema: Document, value: Any) -> None:
    open_ = {"x-kubernetes-preserve-unknown-fields": True} if "anyOf" in schema else {}
    stored, _ = created(serving({"properties": {"f": {**schema, **open_}}}), shirt(f=value))
    assert stored["spec"] == {"f": value}


def test_items_of_maps_and_sets_occur_once() -> None:
    part = {"type": "object", "required": ["name"], "properties": {"name": TEXT, "n": NUMBER}}
    store = serving(
        {
            "properties": {
                "map": {
                    "type": "array",
                    "items": part,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
                "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            }
        }
    )
    twice = shirt(map=[{"name": "a", "n": 1}, {"name": "a", "n": 2}])
    assert 'spec.map[1]: Duplicate value: {"name":"a"}' in refused(store, twice)
    assert 'spec.set[2]: Duplicate value: "x"' in refused(store, shirt(set=["x", "y", "x"]))
    created(store, shirt(map=[{"name": "a"}, {"name": "b"}], set=["x", "y"]))


def test_an_update_may_keep_what_a_new_schema_refuses() -> None:
    store = serving({"properties": {"f": TEXT, "g": TEXT}})
    created(store, shirt(f="long", g="long"))
    stricter = {**TEXT, "maxLength": 2}
    api, name = Api(store), f"shirts.{GROUP}"
    definitions = store.catalog.named("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert definitions is not None
    stored = store.get(definitions, "", name)
    versions = [version_of(schema_of({"properties": {"f": stricter, "g": stricter}}))]
    api.update(
        definitions, "", name, {**stored, "spec": {**stored["spec"], "versions": versions}}, ""
    )
    kind = kind_of(store)
    before = store.get(kind, "default", "blue")
    api.update(kind, "default", "blue", {**before, "spec": {"f": "long", "g": "b"}}, "")
    with pytest.raises(RefusedError, match=r"spec\.g: Too long"):
        api.update(kind, "default", "blue", {**before, "spec": {"f": "long", "g": "longer"}}, "")


def test_status_and_spec_are_written_apart() -> None:
    status = {"type": "object", "properties": {"done": NUMBER}}
    store = fresh_store()
    Api(store).seed()
    schema = schema_of({"properties": {"n": NUMBER}}, fields={"status": status})
    define(store, definition(version_of(schema, subresources={"status": {}})))
    kind, api = kind_of(store), Api(store)
    stored = api.create(kind, "default", shirt(n=1, status={"done": 9})).document
    assert "status" not in stored
    written = api.update(kind, "default", "blue", {**stored, "status": {"done": 1}}, "status")
    after = written.document
    assert (after["status"], after["metadata"]["generation"]) == ({"done": 1}, 1)
    again = {**after, "spec": {"n": 2}, "status": {"done": 5}}
    third = api.update(kind, "default", "blue", again, "").document
    assert (third["status"], third["metadata"]["generation"]) == ({"done": 1}, 2)
    with pytest.raises(
        RefusedError,
        match=r"status\.done: Invalid value: .string.: done in body must be",
    ):
        api.update(kind, "default", "blue", {**third, "status": {"done": "x"}}, "status")


def test_replicas_are_where_the_definition_says() -> None:
    scale = {
        "specReplicasPath": ".spec.size.n",
        "statusReplicasPath": ".status.n",
        "labelSelectorPath": ".status.selector",
    }
    fields = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    store = serving({"properties": {"size": fields}}, subresources={"scale": scale})
    kind, api = kind_of(store), Api(store)
    with pytest.raises(RefusedError, match="should be a non-negative integer"):
        api.create(kind, "default", shirt("a", size={"n": -1}))
    api.create(kind, "default", shirt(size={"n": 3}))
    assert api.scale_of(kind, "default", "blue")["spec"] == {"replicas": 3}
    api.rescale(kind, "default", "blue", {"metadata": {"name": "blue"}, "spec": {"replicas": 5}})
    assert store.get(kind, "default", "blue")["spec"] == {"size": {"n": 5}}


def test_a_version_is_served_of_every_object() -> None:
    old = version_of(schema_of({"properties": {"n": NUMBER, "d": {**NUMBER, "default": 1}}}))
    new = version_of(schema_of({"properties": {"n": NUMBER, "m": {**NUMBER, "default": 7}}}), "v2")
    store = fresh_store()
    Api(store).seed()
    define(store, definition(old, new))
    api, second = Api(store), kind_of(store, "v2")
    stored = api.create(second, "default", shirt(version="v2", n=1, m=5)).document
    assert (stored["apiVersion"], stored["spec"]) == (f"{GROUP}/v1", {"n": 1, "d": 1})
    assert served_form(second, stored)["spec"] == {"n": 1}
    after = {**stored, "apiVersion": f"{GROUP}/v2", "spec": {"n": 2}}
    written = api.update(second, "default", "blue", after, "").document
    assert (written["apiVersion"], written["spec"]) == (f"{GROUP}/v1", {"n": 2, "d": 1})
    before = store.get(DEFINITIONS, "", f"shirts.{GROUP}")
    versions = [{**old, "storage": False}, {**new, "storage": True}]
    changed = {**before, "spec": {**before["spec"], "versions": versions}}
    api.update(DEFINITIONS, "", f"shirts.{GROUP}", changed, "")
    status = store.get(DEFINITIONS, "", f"shirts.{GROUP}")["status"]
    assert status["storedVersions"] == ["v1", "v2"]
    kind = kind_of(store)
    third = api.create(kind, "default", shirt("red", n=3)).document
    assert (third["apiVersion"], third["spec"]) == (f"{GROUP}/v2", {"n": 3, "m": 7})
    assert served_form(kind, third)["spec"] == {"n": 3}
