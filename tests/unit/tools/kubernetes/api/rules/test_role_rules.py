"""Roles and bindings: for each rule a document that breaks only this rule, and their tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.tools.kubernetes.api.rules.validation import problems
from berth.tools.kubernetes.api.tables import table
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.cases import documents
from tests.kit.documents import Document

GROUP = "rbac.authorization.k8s.io"


def named(document: Document, name: str = "system:x") -> Document:
    return {"metadata": {"name": name}, **document}


def bound(document: Document) -> Document:
    """A binding with its defaults."""
    return defaulted(BY_KIND[f"{GROUP}/v1", "ClusterRoleBinding"], named(document))


@pytest.mark.parametrize(
    ("kind", "document", "problem"),
    documents("""
Role => rules: [{verbs: [], apiGroups: [''], resources: [pods]}] => rules[0].verbs: Required value:
    verbs must contain at least one value
Role => rules: [{verbs: [get], resources: [pods]}] => rules[0].apiGroups: Required value: resource
    rules must supply at least one api group
Role => rules: [{verbs: [get], apiGroups: ['']}] => rules[0].resources: Required value: resource
    rules must supply at least one resource
Role => rules: [{verbs: [get], nonResourceURLs: [/a]}] => rules[0].nonResourceURLs: Invalid value:
    ["/a"]: namespaced rules cannot apply to non-resource URLs
ClusterRole => rules: [{verbs: [get], nonResourceURLs: [/a], resources: [pods]}] =>
    rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources
    and non-resource URLs
ClusterRole => aggregationRule: {} => aggregationRule.clusterRoleSelectors: Required value: at least
    one clusterRoleSelector required if aggregationRule is non-nil
"""),
)
def test_a_role_with_one_thing_wrong(kind: str, document: Document, problem: str) -> None:
    assert problems(kind, named(document)) == [problem]


@pytest.mark.parametrize(
    ("kind", "document", "problem"),
    documents("""
ClusterRoleBinding => roleRef: {kind: Role, name: r} =>
    roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"
RoleBinding => roleRef: {kind: User, name: r} =>
    roleRef.kind: Unsupported value: "User": supported values: "Role", "ClusterRole"
RoleBinding => roleRef: {kind: Role, name: ''} => roleRef.name: Required value
RoleBinding => roleRef: {kind: Role, name: a/b} =>
    roleRef.name: Invalid value: "a/b": may not contain '/'
RoleBinding => roleRef: {kind: Role, name: r, apiGroup: x} =>
    roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"
RoleBinding => {roleRef: {kind: Role, name: r}, subjects: [{kind: Team, name: t}]} =>
    subjects[0].kind: Unsupported value: "Team": supported values: "ServiceAccount", "User", "Group"
RoleBinding => {roleRef: {kind: Role, name: r}, subjects: [{kind: User, name: ''}]} =>
    subjects[0].name: Required value
RoleBinding => {roleRef: {kind: Role, name: r}, subjects: [{kind: User, name: u, apiGroup: x}]} =>
    subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"
ClusterRoleBinding => {roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: ServiceAccount,
    name: a}]} => subjects[0].namespace: Required value
"""),
)
def test_a_binding_with_one_thing_wrong(kind: str, document: Document, problem: str) -> None:
    assert problems(kind, bound(document)) == [problem]


def test_a_valid_role_and_a_binding_whose_role_may_not_change() -> None:
    rules = [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
    ]
    assert problems("ClusterRole", named({"rules": rules})) == []
    users = [{"kind": "User", "name": "ann"}, {"kind": "Group", "name": "dev"}]
    account = {"kind": "ServiceAccount", "name": "robot", "namespace": "lab"}
    before = bound({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [*users, account]})
    assert before["subjects"] == [*({**user, "apiGroup": GROUP} for user in users), account]
    assert problems("ClusterRoleBinding", before) == []
    after = {**before, "roleRef": {**before["roleRef"], "name": "s"}}
    (problem,) = problems("ClusterRoleBinding", after, before)
    assert problem.startswith("roleRef: Invalid value: ")
    assert problem.endswith(": cannot change roleRef")


def test_the_name_of_a_role_may_have_colons_but_is_part_of_a_path() -> None:
    for name, rule in (("a/b", "may not contain '/'"), ("..", "may not be '..'")):
        (problem,) = problems("Role", named({"rules": []}, name))
        assert problem.endswith(f": {rule}")


def test_the_tables() -> None:
    role = {"metadata": {"name": "it", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    subjects = [
        {"kind": "User", "name": "ann"},
        {"kind": "User", "name": "bob"},
        {"kind": "Group", "name": "dev"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "lab"},
    ]
    binding = {**role, "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects}

    def cells(kind: str, document: Document) -> list[Any]:
        now = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
        shown = table(BY_KIND[f"{GROUP}/v1", kind], [document], revision="1", now=now)
        row: list[Any] = shown["rows"][0]["cells"]
        return row

    assert cells("Role", role) == ["it", "2026-01-01T00:00:00Z"]
    assert cells("ClusterRoleBinding", binding) == [
        "it",
        "ClusterRole/r",
        "5m",
        "ann, bob",
        "dev",
        "lab/robot",
    ]
