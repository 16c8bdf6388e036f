"""Two operators of kopf: one of a kind of its own, with status and finalizer, and one of pods."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import kopf
import pytest
from kopf.testing import KopfRunner

from berth.testing import ServedCluster
from tests.kit.documents import Document
from tests.kit.kubectl import until

pytestmark = pytest.mark.full("waits")
GROUP = "sea.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FREE: Document = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SCHEMA: Document = {"type": "object", "properties": {"spec": FREE, "status": FREE}}
BOATS: Document = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"boats.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "singular": "boat"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}
POD: Document = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"watched": "yes"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


class Server:
    """The API server, by its paths."""

    def __init__(self, url: str) -> None:
        self._url = url

    def send(self, method: str, path: str, body: Document | None = None) -> Document:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data, {"Content-Type": kind}, method=method)
        with urlopen(request, timeout=30) as answer:
            document: Document = json.load(answer)
            return document

    def has(self, path: str) -> bool:
        try:
            self.send("GET", path)
        except HTTPError as refusal:
            if refusal.code == 404:
                return False
            raise
        return True


@pytest.fixture
def registry(served: ServedCluster) -> kopf.OperatorRegistry:
    """Returns handlers without any but the one that says where the cluster is."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    def log_in(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=served.url)

    return handlers


def running(registry: kopf.OperatorRegistry, namespace: str) -> KopfRunner:
    settings = kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None
    command = ["run", "--standalone", "--namespace", namespace]
    return KopfRunner(command, registry=registry, settings=settings, timeout=60)


def test_an_operator_of_a_kind_of_its_own(
    served: ServedCluster, registry: kopf.OperatorRegistry, namespace: str
) -> None:
    boats = f"/apis/{GROUP}/v1/namespaces/{namespace}/boats"
    server, told = Server(served.url), list[str]()
    here: Any = {"registry": registry}

    @kopf.on.create(GROUP, "v1", "boats", id="launch", **here)
    def launch(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> str:
        patch.status["state"] = "afloat"
        return f"with {spec['crew']}"

    @kopf.on.field(GROUP, "v1", "boats", field="spec.crew", **here)
    def change(old: Any, new: Any, **_: Any) -> None:
        told.append(f"{old} to {new}")

    @kopf.on.delete(GROUP, "v1", "boats", **here)
    def sink(name: str | None, **_: Any) -> None:
        told.append(f"{name} is gone")

    server.send("POST", CRDS, BOATS)
    named = {"apiVersion": f"{GROUP}/v1", "kind": "Boat", "metadata": {"name": "mary"}}
    with running(registry, namespace) as operator:
        server.send("POST", boats, {**named, "spec": {"crew": 2}})
        until(lambda: "launch" in (server.send("GET", f"{boats}/mary").get("status") or {}))
        made = server.send("GET", f"{boats}/mary")
        assert (made["status"]["state"], made["status"]["launch"]) == ("afloat", "with 2")
        assert made["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
        server.send("PATCH", f"{boats}/mary", {"spec": {"crew": 3}})
        until(lambda: "2 to 3" in told)
        server.send("DELETE", f"{boats}/mary")
        until(lambda: not server.has(f"{boats}/mary"))
    assert told[-1] == "mary is gone"
    assert operator.exit_code == 0


def test_an_operator_of_pods(
    served: ServedCluster, registry: kopf.OperatorRegistry, namespace: str
) -> None:
    pods, server, seen = f"/api/v1/namespaces/{namespace}/pods", Server(served.url), set[str]()
    here: Any = {"registry": registry, "labels": {"watched": "yes"}}

    @kopf.on.event("v1", "pods", **here)
    def note(status: kopf.Status, **_: Any) -> None:
        seen.add(str(status.get("phase")))

    @kopf.timer("v1", "pods", interval=0.2, **here)
    def count(patch: kopf.Patch, annotations: kopf.Annotations, **_: Any) -> None:
        number = int(annotations.get("example.com/count", "0"))
        patch.metadata.annotations["example.com/count"] = str(number + 1)

    def counted() -> int:
        annotations = server.send("GET", f"{pods}/p")["metadata"].get("annotations") or {}
        return int(annotations.get("example.com/count", "0"))

    with running(registry, namespace) as operator:
        server.send("POST", pods, POD)
        until(lambda: counted() >= 3)
        until(lambda: "Running" in seen)
        server.send("DELETE", f"{pods}/p")
        until(lambda: not server.has(f"{pods}/p"))
    assert operator.exit_code == 0
