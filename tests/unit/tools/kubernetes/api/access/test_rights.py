"""RBAC: rules, subjects, bindings, aggregation, the first roles, and the refusals."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.access.rights import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Act,
    authorize,
    check_right,
)
from berth.tools.kubernetes.api.access.users import ADMINISTRATOR, Requester
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.cases import documents
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

GROUP = "rbac.authorization.k8s.io"
ANN = Requester("ann", groups=("dev", "system:authenticated"))
ROBOT = Requester("system:serviceaccount:default:robot", groups=("system:serviceaccounts",))


@pytest.fixture
def store() -> Store:
    store = fresh_store()
    Api(store).seed()
    return store


def role(store: Store, *rules: Document, namespace: str = "", **more: Any) -> None:
    kind = ROLES if namespace else CLUSTER_ROLES
    Api(store).create(kind, namespace, {"metadata": {"name": "r"}, "rules": list(rules), **more})


def bind(
    store: Store,
    role: str,
    kind: str,
    name: str,
    within: str = "",
    of: str = "ClusterRole",
    **more: str,
) -> None:
    group = {} if kind == "ServiceAccount" else {"apiGroup": GROUP}
    document = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": GROUP, "kind": of, "name": role},
        "subjects": [{"kind": kind, "name": name, **group, **more}],
    }
    of_kind = ROLE_BINDINGS if within else CLUSTER_ROLE_BINDINGS
    Api(store).create(of_kind, within, document)


def may(store: Store, user: Requester, act: Act) -> bool:
    return authorize(store, user, act).allowed


GET_PODS: Document = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("rule", "act", "allowed"),
    [
        (GET_PODS, Act("get", "", "pods"), True),
        (GET_PODS, Act("list", "", "pods"), False),
        (GET_PODS, Act("get", "apps", "pods"), False),
        (GET_PODS, Act("get", "", "pods", "status"), False),
        (GET_PODS, Act("get", "", "pods", namespace="x", name="p"), True),
        (GET_PODS, Act("get", path="/x"), False),
        ({**GET_PODS, "verbs": ["*"]}, Act("delete", "", "pods"), True),
        ({**GET_PODS, "apiGroups": ["*"]}, Act("get", "apps", "pods"), True),
        ({**GET_PODS, "resources": ["*"]}, Act("get", "", "pods", "status"), True),
        ({**GET_PODS, "resources": ["pods/status"]}, Act("get", "", "pods", "status"), True),
        ({**GET_PODS, "resources": ["*/status"]}, Act("get", "", "pods", "status"), True),
        ({**GET_PODS, "resources": ["*/status"]}, Act("get", "", "pods"), False),
        ({**GET_PODS, "resourceNames": ["p"]}, Act("get", "", "pods", name="p"), True),
        ({**GET_PODS, "resourceNames": ["p"]}, Act("get", "", "pods", name="q"), False),
        ({**GET_PODS, "resourceNames": ["p"]}, Act("get", "", "pods"), False),
        ({"nonResourceURLs": ["/m*"], "verbs": ["get"]}, Act("get", path="/metrics"), True),
        ({"nonResourceURLs": ["/m"], "verbs": ["get"]}, Act("get", path="/metrics"), False),
        ({"nonResourceURLs": ["*"], "verbs": ["get"]}, Act("post", path="/x"), False),
        ({"nonResourceURLs": ["*"], "verbs": ["get"]}, Act("get", "", "pods"), False),
    ],
)
def test_a_rule_allows_what_it_lists(store: Store, rule: Document, act: Act, allowed: bool) -> None:
    role(store, rule)
    bind(store, "r", "User", "ann")
    assert may(store, ANN, act) is allowed
    assert may(store, Requester("bo"), act) is False
    assert may(store, ADMINISTRATOR, act) is True


@pytest.mark.parametrize(
    ("kind", "name", "more", "user"),
    [
        ("User", "ann", {}, ANN),
        ("Group", "dev", {}, ANN),
        ("ServiceAccount", "robot", {"namespace": "default"}, ROBOT),
        ("User", "system:serviceaccount:default:robot", {}, ROBOT),
    ],
)
def test_a_subject_is_a_user_a_group_or_a_service_account(
    store: Store, kind: str, name: str, more: dict[str, str], user: Requester
) -> None:
    bind(store, "cluster-admin", kind, name, **more)
    other = ROBOT if user is ANN else ANN
    assert may(store, user, Act("get", "", "secrets"))
    assert not may(store, other, Act("get", "", "secrets"))


def test_whoever_shows_no_credentials_may_do_everything(store: Store) -> None:
    anonymous = Requester("system:anonymous", groups=("system:unauthenticated",))
    assert authorize(store, anonymous, Act("get", path="/metrics")).allowed


def test_a_role_binding_gives_rights_in_its_namespace_alone(store: Store) -> None:
    role(store, GET_PODS, namespace="default")
    bind(store, "r", "ServiceAccount", "robot", "default", "Role")
    verdict = authorize(store, ROBOT, Act("get", "", "pods", namespace="default"))
    assert verdict.reason == (
        'RBAC: allowed by RoleBinding "b/default" of Role "r" to ServiceAccount "robot/default"'
    )
    for namespace in ("", "kube-system"):
        assert not may(store, ROBOT, Act("get", "", "pods", namespace=namespace))


def test_roles_are_aggregated_through_several_levels_and_in_circles(store: Store) -> None:
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    api = Api(store)
    widgets = {"apiGroups": ["x.io"], "resources": ["widgets"], "verbs": ["get"]}
    gadgets = {**widgets, "resources": ["gadgets"]}
    document = {
        "metadata": {"name": "w", "labels": label},
        "rules": [gadgets],  # which the gathered ones replace
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": label}]},
    }
    api.create(CLUSTER_ROLES, "", document)
    api.create(CLUSTER_ROLES, "", {"metadata": {"name": "x", "labels": label}, "rules": [widgets]})
    bind(store, "admin", "User", "ann", "default")
    for act, allowed in (
        (Act("get", "x.io", "widgets", namespace="default"), True),
        (Act("get", "x.io", "gadgets", namespace="default"), False),
        (Act("delete", "", "pods", namespace="default"), True),
        (Act("create", GROUP, "roles", namespace="default"), True),
        (Act("delete", "", "nodes", namespace="default"), False),
    ):
        assert may(store, ANN, act) is allowed


def test_view_and_edit_differ_in_writes_and_secrets(store: Store) -> None:
    bind(store, "view", "User", "ann", "default")
    bind(store, "edit", "Group", "ops", "kube-system")
    ops = Requester("op", groups=("ops",))
    for verb, resource in (("get", "secrets"), ("create", "pods")):
        assert not may(store, ANN, Act(verb, "", resource, namespace="default"))
        assert may(store, ops, Act(verb, "", resource, namespace="kube-system"))
    assert may(store, ANN, Act("list", "", "pods", namespace="default"))
    assert not may(store, ops, Act("create", GROUP, "roles", namespace="kube-system"))


def test_everybody_may_discover_and_ask_and_kube_scheduler_has_its_role(store: Store) -> None:
    assert may(store, ANN, Act("get", path="/apis/apps/v1"))
    assert may(store, ANN, Act("create", "authorization.k8s.io", "selfsubjectaccessreviews"))
    nobody = Requester("nobody", groups=("system:unauthenticated",))
    assert may(store, nobody, Act("get", path="/version"))
    assert not may(store, nobody, Act("get", path="/apis"))
    scheduler = Requester("system:kube-scheduler")
    assert may(store, scheduler, Act("create", "", "pods", "binding", "default", "p"))
    assert may(store, scheduler, Act("patch", "", "persistentvolumes", name="v"))
    assert not may(store, scheduler, Act("create", "", "pods", namespace="default"))
    lease = Act("update", "coordination.k8s.io", "leases", "", "kube-system", "kube-scheduler")
    assert may(store, scheduler, lease)


@pytest.mark.parametrize(
    ("act", "message"),
    documents("""
{verb: list, resource: pods, namespace: default} => pods is forbidden: User "ann" cannot list
    resource "pods" in API group "" in the namespace "default"
{verb: update, group: apps, resource: deployments, subresource: scale, namespace: default,
    name: web} => deployments.apps "web" is forbidden: User "ann" cannot update resource
    "deployments/scale" in API group "apps" in the namespace "default"
{verb: delete, resource: nodes, name: n} => nodes "n" is forbidden: User "ann" cannot delete
    resource "nodes" in API group "" at the cluster scope
{verb: get, path: /metrics} => forbidden: User "ann" cannot get path "/metrics"
"""),
)
def test_a_refusal_says_who_cannot_do_what(store: Store, act: dict[str, str], message: str) -> None:
    with pytest.raises(RefusedError) as refused:
        check_right(store, ANN, Act(**act))
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert str(refused.value) == message


def test_a_binding_to_a_role_that_is_missing_is_named_in_the_refusal(store: Store) -> None:
    bind(store, "none", "User", "ann")
    with pytest.raises(RefusedError) as refused:
        check_right(store, ANN, Act("list", "", "nodes"))
    why = f': RBAC: clusterrole.{GROUP} "none" not found'
    assert str(refused.value).endswith(why)
    bind(store, "no", "User", "ann", "default", "Role")
    verdict = authorize(store, ANN, Act("list", "", "pods", namespace="default"))
    assert verdict.reason == (
        f'RBAC: [clusterrole.{GROUP} "none" not found, role.{GROUP} "no" not found]'
    )


def test_rights_change_with_each_write_of_a_role_or_a_binding(store: Store) -> None:
    get = Act("get", "", "pods", "", "default", "p")
    assert not may(store, ANN, get)
    bind(store, "r", "User", "ann")
    assert authorize(store, ANN, get).reason == (f'RBAC: clusterrole.{GROUP} "r" not found')
    role(store, GET_PODS)
    assert may(store, ANN, get)
    store.delete(CLUSTER_ROLE_BINDINGS, "", "b")
    assert not may(store, ANN, get)
    bind(store, "r", "User", "ann", within="default")
    assert may(store, ANN, get)
    store.delete(CLUSTER_ROLES, "", "r")
    assert not may(store, ANN, get)
    role(store, GET_PODS)
    assert may(store, ANN, get)
    assert not may(store.fork(), ROBOT, get)
