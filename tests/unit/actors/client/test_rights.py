"""The rights that requests need, and how they are named."""

from __future__ import annotations

import pytest

from berth.actors.client.rights import Right, in_words

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/nodes?limit=5", ["list nodes"]),
        ("GET", "/api/v1/namespaces", ["list namespaces"]),
        ("GET", "/api/v1/namespaces/web", ["get namespaces"]),
        ("GET", f"{LEASES}/kube-scheduler", ["get leases.coordination.k8s.io in kube-system"]),
        ("POST", LEASES, ["create leases.coordination.k8s.io in kube-system"]),
        ("PUT", f"{LEASES}/a", ["update leases.coordination.k8s.io in kube-system"]),
        ("PATCH", "/api/v1/namespaces/web/pods/a/status", ["patch pods/status in web"]),
        ("POST", "/api/v1/namespaces/web/pods/a/binding", ["create pods/binding in web"]),
        ("DELETE", "/api/v1/namespaces/web/pods/a", ["delete pods in web"]),
    ],
)
def test_the_right_that_a_request_needs(method: str, path: str, expected: list[str]) -> None:
    assert in_words([Right.of(method, path)]) == expected


def test_rights_to_a_resource_are_named_together() -> None:
    refused = [Right("", "pods", "delete", f"n{number}") for number in range(5)]
    assert in_words(refused) == ["delete pods in n0, n1, n2 and 2 more"]
    refused += [Right("", "pods", "delete"), Right("", "pods", "list")]
    assert in_words(refused) == ["delete,list pods"]
