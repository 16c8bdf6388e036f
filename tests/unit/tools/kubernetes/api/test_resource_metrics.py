"""The group metrics.k8s.io, which a server has if there are kubelets to ask."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

GROUP = "/apis/metrics.k8s.io/v1beta1"
NOT_ALLOWED = "the server does not allow this method on the requested resource"
SAMPLE = {"timestamp": "2026-01-01T00:00:15Z", "window": "15s"}


class Kubelets:
    """Knows the pods whose names begin with p, and counts the pods of each node in its cpu."""

    def pod_metrics(self, pod: Document, node: Document) -> Document | None:
        name = pod["metadata"]["name"]
        usages = [{"name": "a", "usage": {"cpu": "1500m", "memory": "1Mi"}}]
        usages += [{"name": node["metadata"]["name"], "usage": {"cpu": "500m", "memory": "1Mi"}}]
        return {**SAMPLE, "containers": usages} if name.startswith("p") else None

    def node_metrics(self, node: Document, pods: Iterable[Document]) -> Document | None:
        return {**SAMPLE, "usage": {"cpu": str(len(list(pods))), "memory": "0"}}


@pytest.fixture
def server() -> Server:
    api = Api(fresh_store())
    api.seed()
    for name in ("m1", "m2"):
        api.create(BY_KIND["v1", "Node"], "", {"metadata": {"name": name, "labels": {"n": name}}})
    spec: Document = {"containers": [{"name": "c", "image": "i"}]}
    for name, node in (("p1", "m1"), ("p2", "m1"), ("q", "m1"), ("p3", ""), ("p4", "gone")):
        document = {"metadata": {"name": name, "labels": {"l": name}}}
        document["spec"] = {**spec, **({"nodeName": node} if node else {})}
        api.create(BY_KIND["v1", "Pod"], "default", document)
    return Server(api.store, kubelets=Kubelets())


def call(server: Server, path: str, method: str = "GET", **query: str) -> Document:
    request = HttpRequest(method, path, query, {"host": "localhost"}, b"")
    answer = server.answer(request)
    assert isinstance(answer, Response)
    document: Document = msgspec.json.decode(answer.body)
    return document


def names(listed: Document) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def test_pods_and_nodes(server: Server) -> None:
    pods = call(server, f"{GROUP}/pods")
    assert (pods["kind"], pods["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
    assert names(pods) == ["p1", "p2"]
    assert names(call(server, f"{GROUP}/namespaces/default/pods", labelSelector="l=p2")) == ["p2"]
    assert names(call(server, f"{GROUP}/namespaces/kube-system/pods")) == []
    pod = call(server, f"{GROUP}/namespaces/default/pods/p1")
    assert pod.items() >= SAMPLE.items()
    assert pod["metadata"]["labels"] == {"l": "p1"}
    nodes = call(server, f"{GROUP}/nodes")
    assert [(item["metadata"]["name"], item["usage"]["cpu"]) for item in nodes["items"]] == [
        ("m1", "3"),
        ("m2", "0"),
    ]
    assert names(call(server, f"{GROUP}/nodes", labelSelector="n=m2")) == ["m2"]


def test_pages(server: Server) -> None:
    first = call(server, f"{GROUP}/pods", limit="1")
    assert names(first) == ["p1"]
    rest = call(server, f"{GROUP}/pods", **{"continue": first["metadata"]["continue"]})
    assert names(rest) == ["p2"]


def test_the_table_adds_up_containers(server: Server) -> None:
    accept = {"host": "localhost", "accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    answer = server.answer(HttpRequest("GET", f"{GROUP}/pods", {}, accept, b""))
    assert isinstance(answer, Response)
    rows = msgspec.json.decode(answer.body)["rows"]
    assert rows[0]["cells"] == ["p1", "2", "2Mi", "15s"]


@pytest.mark.parametrize(
    ("path", "method", "query", "code", "message"),
    [
        (
            "/namespaces/default/pods/q",
            "GET",
            {},
            404,
            'podmetrics.metrics.k8s.io "default/q" not found',
        ),
        ("/nodes/x", "GET", {}, 404, 'nodemetrics.metrics.k8s.io "x" not found'),
        ("/pods", "GET", {"watch": "1"}, 405, NOT_ALLOWED),
        ("/nodes", "DELETE", {}, 405, NOT_ALLOWED),
    ],
)
def test_refusals(
    server: Server, path: str, method: str, query: dict[str, str], code: int, message: str
) -> None:
    refused = call(server, GROUP + path, method, **query)
    assert (refused["code"], refused["message"]) == (code, message)


def test_without_kubelets_there_is_no_such_group(server: Server) -> None:
    alone = Server(fresh_store())
    for each, served in ((server, True), (alone, False)):
        groups = [group["name"] for group in call(each, "/apis")["groups"]]
        assert ("metrics.k8s.io" in groups) == served
        for path in (GROUP, f"{GROUP}/nodes"):
            answer = each.answer(HttpRequest("GET", path, {}, {"host": "localhost"}, b""))
            assert isinstance(answer, Response)
            assert (answer.status != 404) == served, path


def test_the_preferred_version_comes_first(server: Server) -> None:
    groups = {group["name"]: group for group in call(server, "/apis")["groups"]}
    versions = [version["version"] for version in groups["autoscaling"]["versions"]]
    assert versions == ["v2", "v1"]
    assert groups["autoscaling"]["preferredVersion"]["version"] == "v2"
    assert groups["resource.k8s.io"]["preferredVersion"]["version"] == "v1"
