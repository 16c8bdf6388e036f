"""Reviews: every client is the administrator, and everything is allowed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.tools.apiserver.reviews import issued_token, review
from berth.tools.apiserver.store import RefusedError
from tests.kit.cases import documents

Document = dict[str, Any]
ADMINISTRATOR = {
    "username": "kubernetes-admin",
    "groups": ["system:masters", "system:authenticated"],
}
ACCOUNT = {"metadata": {"name": "robot", "namespace": "lab", "uid": "7"}}
ROBOT = {
    "username": "system:serviceaccount:lab:robot",
    "uid": "7",
    "groups": ["system:serviceaccounts", "system:serviceaccounts:lab", "system:authenticated"],
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PODS = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "lab"}}


def status(kind: str, bearer: str = "", **spec: Any) -> Document:
    answer: Document = review(kind, "lab", {"spec": spec} if spec else {}, bearer)["status"]
    return answer


def token(**spec: Any) -> Document:
    return issued_token(ACCOUNT, {"spec": spec}, NOW)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("SelfSubjectAccessReview", PODS),
        ("SelfSubjectAccessReview", {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}),
        ("SubjectAccessReview", {"user": "ann", **PODS}),
        ("SubjectAccessReview", {"groups": ["dev"], **PODS}),
        ("LocalSubjectAccessReview", {"user": "ann", **PODS}),
    ],
)
def test_everything_is_allowed(kind: str, spec: Document) -> None:
    answer = review(kind, "lab", {"spec": spec}, "")
    assert answer["spec"] == spec
    assert answer["status"]["allowed"] is True


@pytest.mark.parametrize(
    ("kind", "spec", "problem"),
    documents("""
SelfSubjectAccessReview => {} => spec.resourceAttributes: Invalid value: null: exactly one of
    nonResourceAttributes or resourceAttributes must be specified
SelfSubjectAccessReview => {resourceAttributes: {verb: get}, nonResourceAttributes: {path: /}} =>
    spec.nonResourceAttributes: Invalid value: {"path":"/"}: cannot be specified in combination with
    resourceAttributes
SubjectAccessReview => {resourceAttributes: {verb: get}} => spec.user: Invalid value: "": at least
    one of user or group must be specified
LocalSubjectAccessReview => {user: ann, resourceAttributes: {namespace: other}} =>
    spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace
LocalSubjectAccessReview => {user: ann, nonResourceAttributes: {path: /}} =>
    spec.nonResourceAttributes: Invalid value: {"path":"/"}: disallowed on this kind of request
"""),
)
def test_a_question_with_one_thing_wrong_is_refused(
    kind: str, spec: Document, problem: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        review(kind, "lab", {"spec": spec}, "")
    assert refused.value.code == 422
    assert str(refused.value) == f'{kind}.authorization.k8s.io "" is invalid: {problem}'


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
        status(kind, **spec)
    assert refused.value.code == 400


def test_the_rules_allow_everything() -> None:
    rules = status("SelfSubjectRulesReview", namespace="lab")
    assert rules == {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


def test_a_token_of_this_server_stands_for_its_account_and_others_for_the_administrator() -> None:
    ours = token()["status"]["token"]
    for shown, user in ((ours, ROBOT), ("x", ADMINISTRATOR), (f"{ours}x", ADMINISTRATOR)):
        assert status("TokenReview", token=shown) == {"authenticated": True, "user": user}
        assert status("SelfSubjectReview", shown) == {"userInfo": user}
    for odd in ("a.b.", "a.bnVsbA.", "é.é."):
        assert status("SelfSubjectReview", odd) == {"userInfo": ADMINISTRATOR}
    answer = status("TokenReview", token="x", audiences=["api"])
    assert answer["audiences"] == ["api"]


def test_a_token_lasts_an_hour_unless_the_request_says_otherwise() -> None:
    assert token()["status"]["expirationTimestamp"] == "2026-01-01T01:00:00Z"
    longer = token(expirationSeconds=7200, audiences=["api"])
    assert longer["status"]["expirationTimestamp"] == "2026-01-01T02:00:00Z"
    assert longer["spec"] == {"expirationSeconds": 7200, "audiences": ["api"]}
    for seconds in (599, (1 << 32) + 1):
        with pytest.raises(RefusedError, match=r"spec\.expirationSeconds: Invalid value"):
            token(expirationSeconds=seconds)
