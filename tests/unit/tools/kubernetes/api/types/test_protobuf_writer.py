"""Objects written as protobuf: what is read back from it is what was written."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.types.protobuf import decoded
from berth.tools.kubernetes.api.types.protobuf_writer import encoded_object
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.types.schema import TYPES
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

PROTOBUF = "application/vnd.kubernetes.protobuf"
CONTAINER: Document = {
    "name": "c",
    "image": "i",
    "ports": [{"containerPort": 80, "protocol": "TCP"}],
    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
    "livenessProbe": {"httpGet": {"port": "http", "path": "/x"}, "periodSeconds": 3},
    "readinessProbe": {"tcpSocket": {"port": 8080}, "initialDelaySeconds": 1},
}


SCHEMA = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": True},
    "properties": {
        "a": {"minimum": -1.5, "maximum": 2, "items": {"additionalProperties": False}},
    },
}


@pytest.mark.parametrize(
    ("api_version", "kind", "parts"),
    [
        (
            "v1",
            "Pod",
            {
                "metadata": {
                    "name": "p",
                    "labels": {"b": "2", "a": "1"},
                    "creationTimestamp": "2026-01-02T03:04:05Z",
                },
                "spec": {"containers": [CONTAINER], "priority": -5, "hostNetwork": True},
            },
        ),
        ("v1", "Secret", {"metadata": {"name": "s"}, "data": {"a": "AAH/"}, "type": "Opaque"}),
        (
            "coordination.k8s.io/v1",
            "Lease",
            {"metadata": {"name": "l"}, "spec": {"renewTime": "2026-01-02T03:04:05.000006Z"}},
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": SCHEMA}}]}},
        ),
        (
            "apps/v1",
            "ControllerRevision",
            {"metadata": {"name": "r"}, "data": {"spec": {"x": [1, "a"]}}, "revision": 3},
        ),
    ],
)
def test_what_is_written_is_read_back(api_version: str, kind: str, parts: Document) -> None:
    document = {"apiVersion": api_version, "kind": kind, **parts}
    shape = TYPES[BY_KIND[api_version, kind].type_name]
    assert decoded(encoded_object(shape, document)) == document


def ask(server: Server, path: str, accept: str) -> Response:
    headers: dict[str, Any] = {"host": "localhost", "accept": accept}
    answer = server.answer(HttpRequest("GET", path, {}, headers, b""))
    assert isinstance(answer, Response)
    return answer


def test_metadata_alone_is_protobuf_for_who_prefers_it() -> None:
    store = fresh_store()
    Api(store, manager="maker").seed()
    server, form = Server(store), ";as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
    path = "/api/v1/namespaces"
    one, several = (
        ask(server, where, f"{PROTOBUF}{form.format(suffix)},application/json{form.format(suffix)}")
        for where, suffix in ((f"{path}/default", ""), (path, "List"))
    )
    assert (one.content_type, several.content_type) == (PROTOBUF, PROTOBUF)
    head = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
    whole = store.stored(BY_KIND["v1", "Namespace"], "", "default").whole
    assert whole["metadata"]["managedFields"]
    assert decoded(one.body) == {**head, "metadata": whole["metadata"]}
    assert several.body.startswith(b"k8s\x00")
    assert b"PartialObjectMetadataList" in several.body
    assert b"kube-node-lease" in several.body


def test_a_client_that_accepts_protobuf_alone_gets_it() -> None:
    store = fresh_store()
    Api(store).seed()
    server = Server(store)
    one = ask(server, "/api/v1/namespaces/default", PROTOBUF)
    assert one.content_type == PROTOBUF
    assert decoded(one.body)["metadata"]["name"] == "default"
    assert ask(server, "/api/v1/namespaces", PROTOBUF).body.startswith(b"k8s\x00")
    both = ask(server, "/api/v1/namespaces/default", f"{PROTOBUF},application/json")
    assert both.content_type == "application/json"
