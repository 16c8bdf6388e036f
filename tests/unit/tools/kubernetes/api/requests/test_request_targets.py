"""The right that a request needs."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.access.rights import Act
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.requests.request_targets import act_of

PODS = "/api/v1/namespaces/lab/pods"


@pytest.mark.parametrize(
    ("method", "path", "query", "act"),
    [
        ("GET", PODS, {}, Act("list", "", "pods", "", "lab")),
        ("GET", PODS, {"watch": "true"}, Act("watch", "", "pods", "", "lab")),
        (
            "GET",
            PODS,
            {"watch": "1", "fieldSelector": "metadata.name=p,spec.nodeName=n"},
            Act("watch", "", "pods", "", "lab", "p"),
        ),
        ("GET", PODS, {"fieldSelector": "spec.nodeName=n"}, Act("list", "", "pods", "", "lab")),
        ("GET", f"{PODS}/p", {}, Act("get", "", "pods", "", "lab", "p")),
        ("POST", PODS, {}, Act("create", "", "pods", "", "lab")),
        ("POST", f"{PODS}/p/binding", {}, Act("create", "", "pods", "binding", "lab", "p")),
        ("PUT", f"{PODS}/p/status", {}, Act("update", "", "pods", "status", "lab", "p")),
        ("PATCH", f"{PODS}/p", {}, Act("patch", "", "pods", "", "lab", "p")),
        ("DELETE", f"{PODS}/p", {}, Act("delete", "", "pods", "", "lab", "p")),
        ("DELETE", PODS, {}, Act("deletecollection", "", "pods", "", "lab")),
        ("GET", "/api/v1/pods", {}, Act("list", "", "pods")),
        ("GET", "/api/v1/nodes/n", {}, Act("get", "", "nodes", name="n")),
        (
            "GET",
            "/api/v1/namespaces/lab",
            {},
            Act("get", "", "namespaces", namespace="lab", name="lab"),
        ),
        ("GET", "/apis/apps/v1/deployments", {}, Act("list", "apps", "deployments")),
        ("GET", "/apis/apps/v1", {}, Act("get", path="/apis/apps/v1")),
        ("GET", "/healthz", {}, Act("get", path="/healthz")),
        ("POST", "/api/v1/nothing", {}, Act("create", "", "nothing")),
        ("HEAD", "/apis/a.b/v1/namespaces/x/cs/c/d", {}, Act("get", "a.b", "cs", "d", "x", "c")),
        ("HEAD", "/healthz", {}, Act("head", path="/healthz")),
        ("GET", "/api/v1/namespaces/x/y", {}, Act("list", "", "y", "", "x")),
    ],
)
def test_a_request_needs_a_right(method: str, path: str, query: dict[str, str], act: Act) -> None:
    assert act_of(HttpRequest(method, path, query, {}, b"")) == act
