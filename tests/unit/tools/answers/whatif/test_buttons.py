"""What the page's buttons do to the nodes of a toy cluster."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.client.rest import ApiError
from berth.tools.answers.whatif.verbs import NODES, RealCluster, act, parsed
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from tests.kit.stores import fresh_store

NAMESPACE = "/api/v1/namespaces/default"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def pod(name: str, node: str, owner: str = "") -> dict[str, Any]:
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u", "controller": True}]
    return {
        "metadata": {
            "name": name,
            "labels": {"app": name},
            "ownerReferences": owners if owner else [],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i"}],
            "terminationGracePeriodSeconds": 0,
        },
    }


async def cluster(*pods: dict[str, Any]) -> EmbeddedAccess:
    access = EmbeddedAccess(fresh_store())
    await access.call("POST", "/api/v1/namespaces", dict, {"metadata": {"name": "default"}})
    for number in (1, 2):
        await access.call("POST", NODES.path(), dict, hollow_node(number))
    for document in pods:
        await access.call("POST", f"{NAMESPACE}/pods", dict, document)
    return access


async def names(access: EmbeddedAccess, path: str) -> list[str]:
    listed = await access.call("GET", path, dict)
    return [
        item["metadata"]["name"]
        for item in listed["items"]
        if "deletionTimestamp" not in item["metadata"]
    ]


async def test_a_cordon_is_taken_back() -> None:
    access = await cluster()
    for verb, cordoned in (("cordon", True), ("uncordon", None)):
        assert "node-1" in await act(access, verb, "node-1")
        node = await access.call("GET", f"{NODES.path()}/node-1", dict)
        assert node["spec"].get("unschedulable") == cordoned


async def test_a_drain_evicts_the_pods_of_one_node_but_not_those_of_daemon_sets() -> None:
    access = await cluster(
        pod("web", "node-1"), pod("log", "node-1", "DaemonSet"), pod("far", "node-2")
    )
    assert await act(access, "drain", "node-1") == "node-1 is cordoned, 1 of its pods are evicted."
    assert await names(access, f"{NAMESPACE}/pods") == ["far", "log"]


async def guarded(*others: dict[str, Any]) -> EmbeddedAccess:
    """Returns a cluster with the pod web, of which a budget needs one."""
    running = pod("web", "node-1")
    access = await cluster(running, *others)
    status = {
        **running,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    await access.call("PUT", f"{NAMESPACE}/pods/web/status", dict, status)
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await access.call("POST", BUDGETS, dict, budget)
    return access


async def test_a_set_of_pods_is_evicted_but_for_those_that_a_budget_holds() -> None:
    access = await guarded(pod("far", "node-2"))
    said = await RealCluster(access, "default").take(parsed("evict web default/far"))
    assert said == "1 of 2 pods evicted. Disruption budgets hold default/web."
    assert await names(access, f"{NAMESPACE}/pods") == ["web"]


async def test_a_drain_says_what_a_budget_holds() -> None:
    access = await guarded()
    assert "hold 1 more" in await act(access, "drain", "node-1")
    assert await names(access, f"{NAMESPACE}/pods") == ["web"]


async def test_a_node_is_deleted_once() -> None:
    access = await cluster()
    await act(access, "delete", "node-1")
    assert await names(access, NODES.path()) == ["node-2"]
    with pytest.raises(ApiError, match="node-1"):
        await act(access, "delete", "node-1")
