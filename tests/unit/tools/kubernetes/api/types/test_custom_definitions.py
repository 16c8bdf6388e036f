"""Definitions of custom kinds: their names and conditions, what they serve, and their end."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

import msgspec
import pytest

from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.store import DEFINITIONS, Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.custom_kinds import (
    GROUP,
    SHIRTS,
    define,
    definition,
    kind_of,
    schema_of,
    shirt,
    version_of,
)
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

NAME = f"shirts.{GROUP}"


@pytest.fixture
def store() -> Store:
    store = fresh_store()
    Api(store).seed()
    return store


def asked(store: Store, path: str, method: str = "GET", accept: str = "") -> Document:
    headers = {"host": "localhost", "accept": accept}
    path, _, query = path.partition("?")
    pairs = dict(pair.split("=", 1) for pair in query.split("&") if pair)
    answer = Server(store).answer(HttpRequest(method, path, pairs, headers, b""))
    assert isinstance(answer, Response)
    document: Document = msgspec.json.decode(answer.body)
    return document


def conditions(store: Store, name: str = NAME) -> dict[str, tuple[str, str]]:
    status = store.get(DEFINITIONS, "", name)["status"]
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def test_a_definition_is_established_at_once(store: Store) -> None:
    define(store, definition())
    assert conditions(store) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    stored = store.get(DEFINITIONS, "", NAME)
    assert stored["spec"]["conversion"] == {"strategy": "None"}
    names = {"plural": "shirts", "singular": "shirt", "kind": "Shirt", "listKind": "ShirtList"}
    assert stored["status"]["acceptedNames"] == stored["spec"]["names"] == names
    assert stored["status"]["storedVersions"] == ["v1"]


def test_names_belong_to_one_definition_of_a_group(store: Store) -> None:
    define(store, definition(names={"shortNames": ["sh"]}))
    define(store, definition(plural="shorts", kind="Short", names={"shortNames": ["sh"]}))
    other = f"shorts.{GROUP}"
    assert conditions(store, other) == {
        "NamesAccepted": ("False", "ShortNamesConflict"),
        "Established": ("False", "NotAccepted"),
    }
    assert store.catalog.named(f"{GROUP}/v1", "Short") is None
    Api(store).delete(DEFINITIONS, "", NAME, DeleteOptions())
    assert conditions(store, other)["Established"] == ("True", "InitialNamesAccepted")
    assert kind_of(store, kind="Short").short == ("sh",)


def test_discovery_tells_names_versions_and_subresources(store: Store) -> None:
    subresources = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
    }
    plain = schema_of({})
    define(
        store,
        definition(
            version_of(plain, subresources=subresources),
            version_of(plain, "v2alpha1"),
            version_of(plain, "v10", served=False),
            names={"categories": ["all"], "shortNames": ["sh"]},
        ),
    )
    group = asked(store, f"/apis/{GROUP}")
    assert [each["version"] for each in group["versions"]] == ["v1", "v2alpha1"]
    listed = asked(store, f"/apis/{GROUP}/v1")["resources"]
    assert [each["name"] for each in listed] == ["shirts", "shirts/status", "shirts/scale"]
    assert (listed[0]["shortNames"], listed[0]["categories"]) == (["sh"], ["all"])
    assert asked(store, f"/apis/{GROUP}/v10/shirts")["code"] == 404
    assert asked(store, f"/apis/{GROUP}/v2alpha1/shirts")["kind"] == "ShirtList"


def test_the_schema_is_published(store: Store) -> None:
    text = {"type": "string", "description": "Any colour."}
    define(store, definition(version_of(schema_of({"properties": {"colour": text}}))))
    document = asked(store, f"/openapi/v3/apis/{GROUP}/v1")
    schema = document["components"]["schemas"]["com.example.shop.v1.Shirt"]
    assert schema["properties"]["spec"]["properties"]["colour"] == text
    assert schema["properties"]["metadata"]["allOf"][0]["$ref"].endswith("ObjectMeta")
    patch = document["paths"][f"/apis/{GROUP}/v1/namespaces/{{namespace}}/shirts/{{name}}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]


def test_the_document_of_version_2_says_what_kubectl_can_read(store: Store) -> None:
    text = {"type": "string", "description": "Any colour."}
    spec = {
        "properties": {
            "colour": text,
            "size": {"type": "integer", "nullable": True},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "required": ["colour", "size"],
        "anyOf": [{"required": ["colour"]}],
    }
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    define(store, definition(version_of(schema_of(spec)), version_of(anything, "v2")))
    document = asked(store, "/openapi/v2")
    schema = document["definitions"]["com.example.shop.v1.Shirt"]
    assert schema["properties"]["spec"] == {
        "type": "object",
        "properties": {
            "colour": text,
            "size": {},
            "free": {"x-kubernetes-preserve-unknown-fields": True},
        },
        "required": ["colour"],
    }
    meta = schema["properties"]["metadata"]["$ref"].removeprefix("#/definitions/")
    assert "ownerReferences" in document["definitions"][meta]["properties"]
    assert "properties" not in document["definitions"]["com.example.shop.v2.Shirt"]
    pod = document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]
    assert pod["spec"] == {"$ref": "#/definitions/io.k8s.api.core.v1.PodSpec"}
    Api(store).delete(DEFINITIONS, "", NAME, DeleteOptions())
    assert "com.example.shop.v1.Shirt" not in asked(store, "/openapi/v2")["definitions"]


def test_a_condition_without_a_type_does_not_hinder_other_definitions(store: Store) -> None:
    define(store, definition())
    status = store.get(DEFINITIONS, "", NAME)["status"]
    odd = {**status, "conditions": [{"message": "updated"}]}
    Api(store).patch(DEFINITIONS, "", NAME, {"status": odd}, MERGE, "status")
    define(store, definition(plural="shorts", kind="Short"))
    Api(store).delete(DEFINITIONS, "", NAME, DeleteOptions())


def test_the_storage_version_hash_is_of_the_stored_version(store: Store) -> None:
    define(store, definition(version_of(schema_of({})), version_of(schema_of({}), "v2")))
    (first,) = (
        each["storageVersionHash"]
        for each in asked(store, f"/apis/{GROUP}/v2")["resources"]
        if each["name"] == "shirts"
    )
    hashed = sha256(f"{GROUP}/v1/Shirt".encode()).digest()[:8]
    assert first == b64encode(hashed).decode()


def test_columns_and_selectors_are_those_of_the_version(store: Store) -> None:
    define(
        store,
        definition(
            version_of(
                schema_of({"properties": {"colour": {"type": "string"}, "n": {"type": "integer"}}}),
                additionalPrinterColumns=[
                    {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
                    {"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1},
                ],
                selectableFields=[{"jsonPath": ".spec.colour"}],
            )
        ),
    )
    for name, colour in (("a", "red"), ("b", "blue")):
        Api(store).create(kind_of(store), "default", shirt(name, colour=colour))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    shown = asked(store, f"{SHIRTS}?fieldSelector=spec.colour=blue", accept=accept)
    assert [column["name"] for column in shown["columnDefinitions"]] == ["Name", "Colour", "N"]
    assert [row["cells"] for row in shown["rows"]] == [["b", "blue", None]]
    assert "not supported" in asked(store, f"{SHIRTS}?fieldSelector=spec.n=1")["message"]


def test_a_definition_ends_with_its_objects(store: Store) -> None:
    define(store, definition())
    kind, api = kind_of(store), Api(store)
    api.create(kind, "default", shirt("a", metadata={"finalizers": ["a.example.com/b"]}))
    api.create(kind, "default", shirt("b"))
    api.delete(DEFINITIONS, "", NAME, DeleteOptions())
    assert conditions(store)["Terminating"] == ("True", "InstanceDeletionInProgress")
    assert [stored.document["metadata"]["name"] for stored in store.list(kind)] == ["a"]
    with pytest.raises(RefusedError, match="custom resource definition is terminating"):
        api.create(kind, "default", shirt("c"))
    left = store.get(kind, "default", "a")
    metadata = {**left["metadata"], "finalizers": []}
    api.update(kind, "default", "a", {**left, "metadata": metadata}, "")
    assert store.find(DEFINITIONS, "", NAME) is None
    gone = Server(store).answer(HttpRequest("GET", SHIRTS, {}, {"host": "localhost"}, b""))
    assert isinstance(gone, Response)
    assert gone.status == 404


def test_a_dry_run_serves_nothing(store: Store) -> None:
    define(store.fork(), definition())
    assert store.catalog.added == ()
    define(store, definition())
    fork = store.fork()
    Api(fork).delete(DEFINITIONS, "", NAME, DeleteOptions())
    assert kind_of(store).plural == "shirts"


def test_objects_follow_a_new_schema(store: Store) -> None:
    number = {"type": "integer"}
    define(store, definition(version_of(schema_of({"properties": {"n": number}}))))
    Api(store).create(kind_of(store), "default", shirt(n=1))
    watched = kind_of(store)
    stored = store.get(DEFINITIONS, "", NAME)
    fields = {"n": number, "m": {**number, "default": 2}}
    spec = {**stored["spec"], "versions": [version_of(schema_of({"properties": fields}))]}
    Api(store).update(DEFINITIONS, "", NAME, {**stored, "spec": spec}, "")
    assert store.get(kind_of(store), "default", "blue")["spec"] == {"n": 1, "m": 2}
    assert store.get(watched, "default", "blue")["spec"]["m"] == 2
    assert store.get(DEFINITIONS, "", NAME)["metadata"]["generation"] == 2


def test_a_namespace_ends_with_its_custom_objects(store: Store) -> None:
    define(store, definition())
    kind, api = kind_of(store), Api(store)
    namespaces = store.catalog.named("v1", "Namespace")
    assert namespaces is not None
    api.create(namespaces, "", {"metadata": {"name": "lab"}})
    api.create(kind, "lab", shirt())
    api.delete(namespaces, "", "lab", DeleteOptions())
    list(api.end_contents("lab"))
    assert (store.find(namespaces, "", "lab"), [*store.list(kind)]) == (None, [])


def test_formats_and_finalizers_are_warned_of(store: Store) -> None:
    api = Api(store)
    text = {"type": "string", "format": "unheard-of"}
    api.create(DEFINITIONS, "", definition(version_of(schema_of({"properties": {"a": text}}))))
    assert api.warnings == ['unrecognized format "unheard-of"']
    api = Api(store)
    api.create(kind_of(store), "default", shirt(metadata={"finalizers": ["mine", "a.io/b"]}))
    (warning,) = api.warnings
    assert warning == (
        'metadata.finalizers: "mine": prefer a domain-qualified finalizer name to avoid '
        "accidental conflicts with other finalizer writers"
    )


def test_a_watch_reads_to_the_end_of_a_kind(store: Store) -> None:
    define(store, definition())
    kind, api = kind_of(store), Api(store)
    revision = api.create(kind, "default", shirt()).revision
    api.delete(DEFINITIONS, "", NAME, DeleteOptions())
    assert [event.type for event in store.since(kind, revision)] == ["DELETED"]
    assert store.catalog.at(*kind.place) is None
