"""The rights that requests need, and how they are named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from berth.actors.client.access import Calls
from berth.actors.client.rights import Refusals, Right, Rights, in_words
from berth.config.types import LeaderElectionConfiguration
from tests.kit.clock import VirtualClock
from tests.kit.fake_calls import FakeCalls
from tests.kit.logs import capture_logs
from tests.kit.tasks import started

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/nodes?limit=5", ["list nodes"]),
        ("GET", "/api/v1/namespaces", ["list namespaces"]),
        ("GET", "/api/v1/namespaces/web", ["get namespaces"]),
        ("GET", f"{LEASES}/a", ["get leases.coordination.k8s.io named a in kube-system"]),
        ("POST", LEASES, ["create leases.coordination.k8s.io in kube-system"]),
        ("PUT", f"{LEASES}/a", ["update leases.coordination.k8s.io named a in kube-system"]),
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


class Granting(FakeCalls):
    """A server that answers reviews with these rules."""

    def __init__(self, *rules: dict[str, Any]) -> None:
        self.rules = rules

    async def asked(self, method: str, path: str, body: Any) -> object:
        return {"status": {"resourceRules": self.rules}}

    async def run_apart(self, act: Callable[[Calls], Awaitable[None]]) -> None:
        await act(self)


async def test_a_right_to_another_lease_is_not_enough() -> None:
    group = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    granting = Granting(
        {"apiGroups": ["", "events.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {**group, "verbs": ["create"]},
        {**group, "verbs": ["get", "update"], "resourceNames": ["berth"]},
    )
    clock = VirtualClock()
    election = LeaderElectionConfiguration(resource_name="mine")
    rights = Rights(Refusals(clock), list, list, election, granting.run_apart, clock)
    with capture_logs() as logs:
        async with started(rights.run):
            await clock.advance(1)
    assert [line["rights"] for line in logs] == [
        ["get,update leases.coordination.k8s.io named mine in kube-system"]
    ]
