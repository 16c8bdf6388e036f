"""The pages that every client asks for before any object, and the forms of answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.stores import fresh_store

HOST = "localhost:6443"
JSON, YAML = "application/json", "application/yaml"
MAPS = "/api/v1/namespaces/default/configmaps"
AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
def server() -> Server:
    store = fresh_store()
    Api(store).seed()
    return Server(store)


def page(
    server: Server, path: str, accept: str = "", method: str = "GET", **query: str
) -> Response:
    headers = {"host": HOST, **({"accept": accept} if accept else {})}
    answer = server.answer(HttpRequest(method, path, query, headers, b""))
    assert isinstance(answer, Response)
    return answer


def read(answer: Response) -> Any:
    return msgspec.json.decode(answer.body)


@pytest.mark.parametrize("name", ["healthz", "livez", "readyz"])
def test_the_checks_of_health_can_be_seen_one_by_one(server: Server, name: str) -> None:
    assert page(server, f"/{name}").body == b"ok"
    lines = page(server, f"/{name}", verbose="").body.decode().splitlines()
    assert lines[0] == "[+]ping ok"
    assert lines[-1] == f"{name} check passed"
    assert (
        "[+]etcd excluded: ok" in page(server, f"/{name}", verbose="", exclude="etcd").body.decode()
    )
    unknown = page(server, f"/{name}", verbose="", exclude="x").body.decode()
    assert 'warn: some health checks cannot be excluded: no matches for "x"' in unknown
    assert page(server, f"/{name}/ping").body == b"ok"
    assert page(server, f"/{name}/none").status == 404


@pytest.mark.parametrize("version", ["@v1.0", ".v1.0"])
def test_openapi_version_2_is_protobuf_for_who_asks_for_it(server: Server, version: str) -> None:
    accept = f"application/com.github.proto-openapi.spec.v2{version}+protobuf"
    answer = page(server, "/openapi/v2", accept)
    assert answer.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert answer.body.startswith(b"\n\x032.0")
    assert read(page(server, "/openapi/v2"))["swagger"] == "2.0"


def test_the_root_names_the_pages(server: Server) -> None:
    paths = read(page(server, "/"))["paths"]
    for path in ("/api/v1", "/apis/apps/v1", "/readyz/ping", "/metrics", "/openid/v1/jwks"):
        assert path in paths
    assert paths == sorted(paths)


def test_numbers_of_objects_are_metrics(server: Server) -> None:
    text = page(server, "/metrics").body.decode()
    assert 'apiserver_resource_objects{group="",resource="namespaces"} 4' in text.splitlines()


def test_the_issuer_of_tokens_says_where_its_keys_are(server: Server) -> None:
    told = read(page(server, "/.well-known/openid-configuration"))
    assert told["jwks_uri"] == f"https://{HOST}/openid/v1/jwks"
    assert read(page(server, "/openid/v1/jwks")) == {"keys": []}


def test_one_document_holds_all_groups_for_clients_that_accept_it(server: Server) -> None:
    answer = page(server, "/apis", f"{AGGREGATED},{JSON}")
    assert answer.content_type == AGGREGATED
    groups = {group["metadata"]["name"]: group for group in read(answer)["items"]}
    assert list(groups)[:2] != sorted(groups)[:2]  # by priority
    (version,) = groups["apps"]["versions"]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    deployments = next(r for r in version["resources"] if r["resource"] == "deployments")
    own = {"group": "", "version": "", "kind": "Deployment"}
    assert deployments == {
        "resource": "deployments",
        "responseKind": own,
        "scope": "Namespaced",
        "singularResource": "deployment",
        "verbs": [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        "shortNames": ["deploy"],
        "categories": ["all"],
        "subresources": [
            {
                "subresource": "scale",
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                "verbs": ["get", "patch", "update"],
            },
            {
                "subresource": "status",
                "responseKind": own,
                "verbs": ["get", "patch", "update"],
            },
        ],
    }
    assert [group["metadata"] for group in read(page(server, "/api", AGGREGATED))["items"]] == [{}]


def test_other_clients_get_the_versions_of_groups(server: Server) -> None:
    assert read(page(server, "/apis"))["kind"] == "APIGroupList"
    (address,) = read(page(server, "/api"))["serverAddressByClientCIDRs"]
    assert address["serverAddress"] == HOST
    assert read(page(server, "/apis/apps/v1"))["kind"] == "APIResourceList"


@pytest.mark.parametrize("path", ["/api/v1", "/apis/apps", "/apis/apps/v1", "/version"])
def test_pages_may_end_with_a_slash(server: Server, path: str) -> None:
    assert page(server, f"{path}/") == page(server, path)  # pykube asks so


def test_what_is_no_path_of_the_api_is_no_status(server: Server) -> None:
    for path in ("/nowhere", "/apis/none.example.com/v1/things"):
        answer = page(server, path)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert read(page(server, "/apis/apps/v9"))["reason"] == "NotFound"


def test_answers_and_refusals_come_in_yaml_if_asked_for(server: Server) -> None:
    answer = page(server, f"{MAPS}/kube-root-ca.crt", YAML)
    assert answer.content_type == YAML
    assert yaml.safe_load(answer.body)["data"] == {"ca.crt": ""}
    refused = yaml.safe_load(page(server, f"{MAPS}/none", YAML).body)
    assert (refused["kind"], refused["code"]) == ("Status", 404)
    assert yaml.safe_load(page(server, MAPS, YAML).body)["kind"] == "ConfigMapList"


def test_answers_end_as_those_of_go(server: Server) -> None:
    for path in (MAPS, f"{MAPS}/kube-root-ca.crt", f"{MAPS}/none", "/version"):
        assert page(server, path).body.endswith(b"}\n"), path
    refused = read(page(server, f"{MAPS}/none"))
    assert refused["details"] == {"name": "none", "kind": "configmaps"}


def test_metadata_alone_can_be_asked_for(server: Server) -> None:
    accept = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    part = read(page(server, f"{MAPS}/kube-root-ca.crt", accept))
    assert (part["kind"], part["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert part.keys() == {"kind", "apiVersion", "metadata"}
    listed = read(page(server, MAPS, accept.replace("Metadata", "MetadataList")))
    assert listed["items"] == [part]
    refused = read(page(server, MAPS, accept))
    assert refused["message"] == (
        "you requested PartialObjectMetadata, but the requested object is a list "
        "(*core.ConfigMapList)"
    )
    listed_one = page(server, f"{MAPS}/kube-root-ca.crt", accept.replace("data;", "dataList;"))
    assert (listed_one.status, read(listed_one)["reason"]) == (406, "NotAcceptable")


def test_a_client_that_accepts_nothing_that_there_is_changes_nothing(server: Server) -> None:
    before = server._store.revision
    refused = page(server, f"{MAPS}/kube-root-ca.crt", "application/cbor", "DELETE")
    assert (refused.status, server._store.revision) == (406, before)
    assert read(refused)["details"] == {}
