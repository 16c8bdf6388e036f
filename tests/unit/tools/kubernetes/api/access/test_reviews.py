"""Reviews: who a user is, and what users may do."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.access.reviews import review
from berth.tools.kubernetes.api.access.users import ADMINISTRATOR, Requester
from berth.tools.kubernetes.api.store import Store
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.cases import documents
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

ANN = Requester("ann", groups=("dev", "system:authenticated"))
PODS: Document = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
METRICS: Document = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}


@pytest.fixture
def store() -> Store:
    """A cluster in which the group dev may view the namespace default."""
    store = fresh_store()
    api = Api(store)
    api.seed()
    binding = {
        "metadata": {"name": "dev"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    api.create(BY_KIND["rbac.authorization.k8s.io/v1", "RoleBinding"], "default", binding)
    return store


def status(store: Store, kind: str, by: Requester = ADMINISTRATOR, **spec: Any) -> Document:
    answer = review(store, by, kind, "default", {"spec": spec} if spec else {})
    assert answer.get("spec", {}) == spec
    result: Document = answer["status"]
    return result


@pytest.mark.parametrize("spec", [PODS, METRICS])
def test_the_administrator_may_do_everything(store: Store, spec: Document) -> None:
    assert status(store, "SelfSubjectAccessReview", **spec) == {"allowed": True}


def test_others_may_do_what_their_bindings_give_them(store: Store) -> None:
    allowed = {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "dev/default" of ClusterRole "view" to Group "dev"',
    }
    assert status(store, "SelfSubjectAccessReview", ANN, **PODS) == allowed
    assert status(store, "SubjectAccessReview", groups=["dev"], **PODS) == allowed
    assert status(store, "LocalSubjectAccessReview", groups=["dev"], **PODS) == allowed
    assert status(store, "SubjectAccessReview", user="ann", **PODS) == {"allowed": False}
    assert status(store, "SelfSubjectAccessReview", ANN, **METRICS) == {"allowed": False}
    masters = ["system:masters"]
    assert status(store, "SubjectAccessReview", groups=masters, **METRICS) == {"allowed": True}


@pytest.mark.parametrize(
    ("kind", "spec", "problem"),
    documents("""
SelfSubjectAccessReview => {} => spec.resourceAttributes: Invalid value: null: exactly one of
    nonResourceAttributes or resourceAttributes must be specified
SelfSubjectAccessReview => {resourceAttributes: {verb: get}, nonResourceAttributes: {path: /}} =>
    spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":""}: cannot be specified in
    combination with resourceAttributes
SubjectAccessReview => {resourceAttributes: {verb: get}} => spec.user: Invalid value: "": at least
    one of user or group must be specified
LocalSubjectAccessReview => {user: ann, resourceAttributes: {namespace: other}} =>
    spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace
LocalSubjectAccessReview => {user: ann, nonResourceAttributes: {path: /}} =>
    spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":""}: disallowed on this kind of
    request
"""),
)
def test_a_question_with_one_thing_wrong_is_refused(
    kind: str, spec: Document, problem: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        review(fresh_store(), ADMINISTRATOR, kind, "lab", {"spec": spec})
    assert refused.value.code == 422
    assert str(refused.value) == f'.authorization.k8s.io "" is invalid: {problem}'


@pytest.mark.parametrize(
    ("kind", "spec", "problem"),
    [
        ("TokenReview", {}, "token is required for TokenReview in authentication"),
        ("SelfSubjectRulesReview", {}, "no namespace on request"),
        ("TokenReview", {"token": 7}, "TokenReviewSpec.spec.token of type string"),
    ],
)
def test_a_review_that_cannot_be_answered_is_a_bad_request(
    kind: str, spec: Document, problem: str
) -> None:
    with pytest.raises(RefusedError, match=problem) as refused:
        status(fresh_store(), kind, **spec)
    assert refused.value.code == 400


def test_the_rules_of_the_administrator_are_everything(store: Store) -> None:
    rules = status(store, "SelfSubjectRulesReview", namespace="default")
    assert rules == {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def test_the_rules_of_others_are_those_of_their_roles(store: Store) -> None:
    rules = status(store, "SelfSubjectRulesReview", ANN, namespace="default")
    assert any("pods" in rule["resources"] for rule in rules["resourceRules"])
    assert any("/apis" in rule["nonResourceURLs"] for rule in rules["nonResourceRules"])
    assert rules["incomplete"] is False
    elsewhere = status(store, "SelfSubjectRulesReview", ANN, namespace="other")
    assert not any("pods" in rule["resources"] for rule in elsewhere["resourceRules"])


def test_who_a_user_is(store: Store) -> None:
    assert status(store, "SelfSubjectReview") == {
        "userInfo": {
            "username": "kubernetes-admin",
            "groups": ["system:masters", "system:authenticated"],
        }
    }
    other = Requester("bo", "7", ("dev",), {"a": ["b"]})
    assert status(store, "SelfSubjectReview", other) == {
        "userInfo": {"username": "bo", "uid": "7", "groups": ["dev"], "extra": {"a": ["b"]}}
    }
