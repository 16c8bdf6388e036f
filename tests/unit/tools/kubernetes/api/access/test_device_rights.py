"""The rights to the parts of the status of a device claim."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.access.device_rights import status_problems
from berth.tools.kubernetes.api.access.rights import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from berth.tools.kubernetes.api.access.users import NODE_NAME, Requester
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

RBAC = "rbac.authorization.k8s.io"
ROBOT = "system:serviceaccount:lab:robot"
ON_NODE = Requester(ROBOT, extra={NODE_NAME: ["n1"]})
NOWHERE = Requester(ROBOT)
DEVICE = {"driver": "d.io", "pool": "p", "device": "0"}


def on_node(name: str, **more: Any) -> Document:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = [{"matchFields": [field], **more}]
    return {"nodeSelector": {"nodeSelectorTerms": terms}, "devices": {"results": [DEVICE]}}


def claim(allocation: Document | None = None, *devices: Document, **status: Any) -> Document:
    whole: Document = {**status}
    if allocation is not None:
        whole["allocation"] = allocation
    if devices:
        whole["devices"] = list(devices)
    return {"metadata": {"name": "c", "namespace": "lab"}, "status": whole}


def store_with(resource: str, *verbs: str, names: tuple[str, ...] = ()) -> Store:
    store = fresh_store()
    api = Api(store)
    rule: Document = {
        "apiGroups": ["resource.k8s.io"],
        "resources": [resource],
        "verbs": list(verbs),
    }
    rule["resourceNames"] = list(names)
    api.create(CLUSTER_ROLES, "", {"metadata": {"name": "r"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "lab"}],
    }
    api.create(CLUSTER_ROLE_BINDINGS, "", binding)
    return store


@pytest.mark.parametrize(
    ("after", "before"),
    [
        (claim(on_node("n1")), claim()),
        (claim(), claim(on_node("n1"))),
        (claim(reservedFor=[{"name": "p"}]), claim()),
    ],
)
def test_an_allocation_needs_the_right_to_bind(after: Document, before: Document) -> None:
    problem = (
        "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="update" permission: '
        f'resourceclaims.resource.k8s.io is forbidden: User "{ROBOT}" cannot update resource '
        '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )
    assert status_problems(fresh_store(), NOWHERE, "update", after, before) == [problem]
    store = store_with("resourceclaims/binding", "update")
    assert status_problems(store, NOWHERE, "update", after, before) == []
    assert len(status_problems(store, NOWHERE, "patch", after, before)) == 1


def test_the_state_of_devices_needs_the_right_to_each_driver_that_changes() -> None:
    before = claim(on_node("n1"), {**DEVICE, "driver": "a.io"}, {**DEVICE, "driver": "b.io"})
    changed = {**DEVICE, "driver": "b.io", "data": {"x": 1}}
    after = claim(on_node("n1"), changed, {**DEVICE, "driver": "c.io"})
    store = store_with("resourceclaims/driver", "arbitrary-node:update", names=("c.io",))
    problems = status_problems(store, NOWHERE, "update", after, before)
    assert problems == [
        'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/'
        'driver", verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io '
        f'"{driver}" is forbidden: User "{ROBOT}" cannot arbitrary-node:update resource '
        '"resourceclaims/driver" in API group "resource.k8s.io" in the namespace "lab"'
        for driver in ("a.io", "b.io")
    ]
    gone = claim(None, changed)
    assert (
        status_problems(store_with("resourceclaims/binding", "*"), NOWHERE, "x", gone, before) == []
    )


@pytest.mark.parametrize(
    ("user", "allocation", "allowed"),
    [
        (ON_NODE, on_node("n1"), True),
        (ON_NODE, on_node("n2"), False),
        (NOWHERE, on_node("n1"), False),
        (Requester(ROBOT, extra={NODE_NAME: ["n1", "n2"]}), on_node("n1"), False),
        (ON_NODE, {"devices": {}}, False),
        (ON_NODE, on_node("n1", matchExpressions=[{"key": "a", "operator": "Exists"}]), False),
        (ON_NODE, on_node("n1", matchExpressions=[]), True),
    ],
)
def test_a_pod_may_have_the_right_to_the_devices_of_its_node_alone(
    user: Requester, allocation: Document, allowed: bool
) -> None:
    store = store_with("resourceclaims/driver", "associated-node:patch", names=("d.io",))
    problems = status_problems(store, user, "patch", claim(allocation, DEVICE), claim(allocation))
    assert (problems == []) is allowed
    elsewhere = store_with("resourceclaims/driver", "arbitrary-node:patch")
    assert (
        status_problems(elsewhere, user, "patch", claim(allocation, DEVICE), claim(allocation))
        == []
    )


def test_a_pod_on_the_node_is_told_the_first_right_that_it_lacks() -> None:
    after = claim(on_node("n1"), DEVICE)
    (problem,) = status_problems(fresh_store(), ON_NODE, "update", after, claim(on_node("n1")))
    assert 'verb="[associated-node:update arbitrary-node:update]"' in problem
    assert "cannot associated-node:update resource" in problem
