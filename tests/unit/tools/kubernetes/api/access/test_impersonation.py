"""The Impersonate headers: who they stand for, and who may send them."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.access.impersonation import acting_user
from berth.tools.kubernetes.api.access.rights import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from berth.tools.kubernetes.api.access.users import ADMINISTRATOR, Requester
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.cases import documents
from tests.kit.stores import fresh_store

RBAC = "rbac.authorization.k8s.io"
ROBOT = "system:serviceaccount:lab:robot"
IN_LAB = ("system:serviceaccounts", "system:serviceaccounts:lab", "system:authenticated")


def test_without_the_headers_a_user_acts_for_itself() -> None:
    assert acting_user(fresh_store(), ADMINISTRATOR, {"accept": "*/*"}) is ADMINISTRATOR


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ({"user": "ann"}, Requester("ann", groups=("system:authenticated",))),
        (
            {"user": "ann", "group": "a, b\nc", "uid": "7"},
            Requester("ann", "7", ("a, b", "c", "system:authenticated")),
        ),
        (
            {"user": "ann", "group": "system:authenticated"},
            Requester("ann", groups=("system:authenticated",)),
        ),
        (
            {"user": "ann", "group": "system:unauthenticated"},
            Requester("ann", groups=("system:unauthenticated",)),
        ),
        (
            {"user": "system:anonymous"},
            Requester("system:anonymous", groups=("system:unauthenticated",)),
        ),
        ({"user": ROBOT}, Requester(ROBOT, groups=IN_LAB)),
        (
            {"user": ROBOT, "extra-authentication.kubernetes.io%2fnode-name": "n1\nn2"},
            Requester(ROBOT, "", IN_LAB, {"authentication.kubernetes.io/node-name": ["n1", "n2"]}),
        ),
        (
            {"user": "zoé".encode().decode("latin-1")},
            Requester("zoé", groups=("system:authenticated",)),
        ),
    ],
)
def test_the_headers_name_a_user(headers: dict[str, str], user: Requester) -> None:
    sent = {f"impersonate-{name}": value for name, value in headers.items()}
    assert acting_user(fresh_store(), ADMINISTRATOR, sent) == user


@pytest.mark.parametrize("header", ["group", "uid", "extra-a"])
def test_the_headers_need_a_user(header: str) -> None:
    with pytest.raises(RefusedError, match="need an Impersonate-User") as refused:
        acting_user(fresh_store(), ADMINISTRATOR, {f"impersonate-{header}": "x"})
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("headers", "problem"),
    documents("""
{user: ann} => users "ann" is forbidden: User "bo" cannot impersonate resource "users" in API
    group "" at the cluster scope
{user: 'system:serviceaccount:lab:robot'} => serviceaccounts "robot" is forbidden: User "bo" cannot
    impersonate resource "serviceaccounts" in API group "" in the namespace "lab"
{user: cy, group: dev} => groups "dev" is forbidden: User "bo" cannot impersonate resource "groups"
    in API group "" at the cluster scope
{user: cy, uid: '7'} => uids.authentication.k8s.io "7" is forbidden: User "bo" cannot impersonate
    resource "uids" in API group "authentication.k8s.io" at the cluster scope
{user: cy, extra-k: v} => userextras.authentication.k8s.io "v" is forbidden: User "bo" cannot
    impersonate resource "userextras/k" in API group "authentication.k8s.io" at the cluster scope
"""),
)
def test_others_need_the_right_to_act_for_each_part(headers: dict[str, str], problem: str) -> None:
    store = fresh_store()
    api = Api(store)
    rule = {
        "apiGroups": [""],
        "resources": ["users"],
        "resourceNames": ["cy"],
        "verbs": ["impersonate"],
    }
    api.create(CLUSTER_ROLES, "", {"metadata": {"name": "r"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "bo", "apiGroup": RBAC}],
    }
    api.create(CLUSTER_ROLE_BINDINGS, "", binding)
    bo = Requester("bo")
    assert acting_user(store, bo, {"impersonate-user": "cy"}).name == "cy"
    with pytest.raises(RefusedError) as refused:
        acting_user(store, bo, {f"impersonate-{name}": value for name, value in headers.items()})
    assert refused.value.code == 403
    assert str(refused.value) == problem
