"""Escalation: what a user who may write roles and bindings cannot grant."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.access.escalation import check_escalation
from berth.tools.kubernetes.api.access.rights import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Act,
    authorize,
)
from berth.tools.kubernetes.api.access.users import ADMINISTRATOR, Requester
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import Kind
from berth.tools.kubernetes.api.writes.caller import Caller
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

GROUP = "rbac.authorization.k8s.io"
ANN = Requester("ann", groups=("dev", "system:authenticated"))
READ_PODS: Document = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
HELD = 'user "ann" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions'


@pytest.fixture
def store() -> Store:
    """Ann may write roles and bindings, and get pods."""
    store = fresh_store()
    api = Api(store)
    api.seed()
    rbac = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["create", "update"]}
    own = {**READ_PODS, "verbs": ["get"], "resources": ["pods", "*/log"]}
    paths = {"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]}
    document = {"metadata": {"name": "ann"}, "rules": [rbac, own, paths]}
    api.create(CLUSTER_ROLES, "", document)
    api.create(CLUSTER_ROLE_BINDINGS, "", binding("ann"))
    return store


def binding(role: str, kind: str = "ClusterRole") -> Document:
    return {
        "metadata": {"name": f"of-{role}"},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "ann"}],
    }


def role(*rules: Document, **more: Any) -> Document:
    return {"metadata": {"name": "r"}, "rules": list(rules), **more}


def allow(store: Store, verb: str, resource: str, *names: str) -> None:
    rule = {"apiGroups": [GROUP], "resources": [resource], "verbs": [verb]}
    named = rule | {"resourceNames": list(names)} if names else rule
    Api(store).create(CLUSTER_ROLES, "", {"metadata": {"name": verb}, "rules": [named]})
    Api(store).create(CLUSTER_ROLE_BINDINGS, "", binding(verb))


def create(store: Store, kind: Kind, document: Document, user: Requester = ANN) -> None:
    namespace = "default" if kind.namespaced else ""
    Api(store, caller=Caller(user, "create")).create(kind, namespace, document)


def refused(store: Store, kind: Kind, document: Document) -> str:
    with pytest.raises(RefusedError) as caught:
        create(store, kind, document)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    return str(caught.value)


def test_a_role_has_no_more_rights_than_its_author(store: Store) -> None:
    create(store, ROLES, role({**READ_PODS, "verbs": ["get"]}))
    many = {**READ_PODS, "verbs": ["list", "watch"], "resourceNames": ["a", "b"]}
    assert refused(store, CLUSTER_ROLES, role(READ_PODS, many)) == (
        f'clusterroles.{GROUP} "r" is forbidden: {HELD} not currently held:\n'
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["list" "watch"]}\n'
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["list" "watch"]}\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}'
    )


@pytest.mark.parametrize(
    ("rule", "covered"),
    [
        ({**READ_PODS, "verbs": ["get"], "resourceNames": ["a"]}, True),
        ({**READ_PODS, "verbs": ["get"], "resources": ["jobs/log"]}, True),
        ({**READ_PODS, "verbs": ["get"], "resources": ["jobs"]}, False),
        ({**READ_PODS, "verbs": ["*"]}, False),
        ({**READ_PODS, "verbs": ["get"], "apiGroups": ["*"]}, False),
        ({"nonResourceURLs": ["/metrics/a", "/metrics/*"], "verbs": ["get"]}, True),
        ({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}, False),
    ],
)
def test_rules_cover_rules(store: Store, rule: Document, covered: bool) -> None:
    if covered:
        create(store, CLUSTER_ROLES, role(rule))
    else:
        assert "not currently held" in refused(store, CLUSTER_ROLES, role(rule))


def test_a_binding_grants_no_more_than_its_author_has(store: Store) -> None:
    assert HELD in refused(store, ROLE_BINDINGS, binding("view"))
    Api(store).create(ROLES, "default", role({**READ_PODS, "verbs": ["get"]}))
    create(store, ROLE_BINDINGS, binding("r", "Role"))
    with pytest.raises(RefusedError) as caught:
        create(store, ROLE_BINDINGS, binding("none"))
    assert caught.value.code == 404


def test_the_rights_to_escalate_and_to_bind_free_from_the_check(store: Store) -> None:
    allow(store, "bind", "clusterroles", "view")
    create(store, CLUSTER_ROLE_BINDINGS, binding("view"))
    assert HELD in refused(store, CLUSTER_ROLE_BINDINGS, binding("edit"))
    allow(store, "escalate", "roles")
    delete = {**READ_PODS, "verbs": ["delete"]}
    create(store, ROLES, role(delete))
    assert HELD in refused(store, CLUSTER_ROLES, role(delete))


def test_an_aggregated_role_needs_the_rights_of_an_administrator(store: Store) -> None:
    selector = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    said = refused(store, CLUSTER_ROLES, role(aggregationRule=selector))
    assert said.endswith("must have cluster-admin privileges to use the aggregationRule")
    create(store, CLUSTER_ROLES, role(READ_PODS, aggregationRule=selector), ADMINISTRATOR)


def test_the_garbage_collector_may_change_every_role(store: Store) -> None:
    before = Api(store).create(CLUSTER_ROLES, "", role(READ_PODS)).document
    after = {**before, "metadata": {**before["metadata"], "finalizers": ["x/y"]}}
    check_escalation(store, ANN, CLUSTER_ROLES, after, before)
    with pytest.raises(RefusedError):
        check_escalation(store, ANN, CLUSTER_ROLES, {**after, "rules": [READ_PODS] * 2}, before)


def test_a_secure_server_starts_with_the_roles_of_the_components() -> None:
    store = fresh_store()
    store.secure = True
    Api(store).seed()
    node = store.get(CLUSTER_ROLES, "", "system:node")
    assert {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]} in node["rules"]
    controller = "system:controller:job-controller"
    account = {"kind": "ServiceAccount", "namespace": "kube-system", "name": "job-controller"}
    assert store.get(CLUSTER_ROLE_BINDINGS, "", controller)["subjects"] == [account]
    assert len(list(store.list(CLUSTER_ROLES))) == 71
    kubelet = Requester("system:node:n", groups=("system:nodes", "system:authenticated"))
    assert authorize(store, kubelet, Act("update", "", "nodes", "status", name="n")).allowed
    assert not authorize(store, kubelet, Act("create", "", "pods", "binding", "x", "p")).allowed
