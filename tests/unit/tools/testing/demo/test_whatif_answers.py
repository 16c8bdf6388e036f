"""The steps of a what-if, taken for real in a toy cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.actors.server.request import Request
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.kubelet.hollow_nodes import hollow_node
from berth.tools.testing.demo.whatif_answers import RealSteps
from tests.kit.stores import fresh_store

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/shop/pods"
WEB = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone, namespace: shop}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: nginx}]}
"""


async def taken(access: EmbeddedAccess, *steps: Any) -> tuple[int, Any]:
    body = json.dumps({"steps": steps}).encode()

    async def read() -> bytes:
        return body

    answer = await RealSteps(access).respond(Request("/ui/steps", "POST", body=read))
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body)


async def toy() -> EmbeddedAccess:
    access = EmbeddedAccess(fresh_store())
    for number in (1, 2):
        await access.call("POST", NODES, dict, hollow_node(number))
    return access


async def test_every_step_changes_the_cluster() -> None:
    access = await toy()
    status, said = await taken(
        access,
        "taint node-1 team=a:NoSchedule",
        "cordon node-1",
        "add 2 like node-1",
        "taint node-1 team:NoSchedule-",
        "remove node-2",
        {"manifests": WEB},
        "scale deployment/shop/web 3",
        "delete shop/alone",
    )
    assert (status, len(said)) == (200, 8)
    nodes = {n["metadata"]["name"]: n for n in (await access.call("GET", NODES, dict))["items"]}
    assert nodes.keys() == {"node-1", "node-1-copy-1", "node-1-copy-2"}
    assert nodes["node-1"]["spec"]["unschedulable"]
    assert not nodes["node-1"]["spec"].get("taints")
    copy = nodes["node-1-copy-2"]
    assert [taint["key"] for taint in copy["spec"]["taints"]] == ["team"]
    assert "unschedulable" not in copy["spec"]
    assert copy["metadata"]["labels"]["kubernetes.io/hostname"] == "node-1-copy-2"
    assert copy["status"]["allocatable"] == nodes["node-1"]["status"]["allocatable"]
    deployment = await access.call("GET", "/apis/apps/v1/namespaces/shop/deployments/web", dict)
    assert deployment["spec"]["replicas"] == 3
    assert (await access.call("GET", PODS, dict))["items"] == []
    assert (await taken(access, {"manifests": WEB.partition("---")[0]}))[0] == 200
    deployment = await access.call("GET", "/apis/apps/v1/namespaces/shop/deployments/web", dict)
    assert deployment["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("drain node-9", "node-9"),
        ("taint node-1 x", "expected KEY[=VALUE]:EFFECT"),
        ("scale daemonset/x 1", "expected KIND/NAME"),
        ("add 100000 like node-1", "at most 1000"),
        ("weight ImageLocality 3", "keeps its configuration"),
        ({"manifests": "kind: Pod"}, "apiVersion, kind and metadata"),
        ({"manifests": WEB.replace("image: nginx", "image: ''")}, "image: Required value"),
        ("flip node-1", "expected one of add"),
    ],
)
async def test_a_refused_step_is_named_and_ends_the_rest(step: Any, problem: str) -> None:
    access = await toy()
    status, refusal = await taken(access, "cordon node-2", step, "remove node-1")
    assert (status, refusal["field"]) == (400, "steps[1]")
    assert problem in refusal["problem"]
    assert len((await access.call("GET", NODES, dict))["items"]) == 2


async def test_added_nodes_are_those_of_the_what_if() -> None:
    access = await toy()
    node = await access.call("GET", f"{NODES}/node-1", dict)
    metadata = {"name": "bare", "labels": {"size": "s"}}
    spec = {"unschedulable": True, "podCIDR": "10.0.0.0/24", "providerID": "cloud://1"}
    await access.call("POST", NODES, dict, {**node, "metadata": metadata, "spec": spec})
    assert (await taken(access, "add 1 like bare"))[0] == 200
    new = await access.call("GET", f"{NODES}/bare-copy-1", dict)
    assert new["metadata"]["labels"] == {"size": "s"}
    assert new["spec"] == {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}
