"""ResourceQuotas: for each rule a document that breaks only this rule."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.rules.quota_rules import quota_warnings
from berth.tools.kubernetes.api.rules.validation import problems, status_problems
from tests.kit.cases import documents
from tests.kit.documents import Document


def quota(spec: Document) -> Document:
    return {"metadata": {"name": "q"}, "spec": spec}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"hard": {"cpu": "1", "limits.ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}},
        {"hard": {"count/deployments.apps": "5", "gold.storageclass.storage.k8s.io/x": "1"}},
        {"hard": {"pods": "1"}, "scopes": ["BestEffort", "Terminating"]},
        {
            "hard": {"pods": "1", "count/pods": "2"},
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]},
                    {"scopeName": "NotBestEffort", "operator": "Exists"},
                ]
            },
        },
    ],
)
def test_a_valid_quota(spec: Document) -> None:
    assert problems("ResourceQuota", quota(spec), None) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    documents("""
hard: {pods: -1} => spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0
hard: {pods: 1500m} => spec.hard[pods]: Invalid value: "1500m": must be an integer
hard: {services.nodeports: 500m} =>
    spec.hard[services.nodeports]: Invalid value: "500m": must be an integer
hard: {a.example/gpu: 500m} =>
    spec.hard[a.example/gpu]: Invalid value: "500m": must be an integer
hard: {storage: 1} =>
    spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota
{hard: {pods: 1}, scopes: [Odd]} => spec.scopes: Invalid value: ["Odd"]: unsupported scope
{hard: {cpu: 1}, scopes: [BestEffort]} =>
    spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource
{hard: {services: 1}, scopes: [Terminating]} =>
    spec.scopes: Invalid value: ["Terminating"]: unsupported scope applied to resource
{hard: {pods: 1}, scopes: [Terminating, NotTerminating]} =>
    spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes
"""),
)
def test_one_problem(spec: Document, problem: str) -> None:
    hard = {name: str(amount) for name, amount in spec["hard"].items()}
    assert problems("ResourceQuota", quota({**spec, "hard": hard}), None) == [problem]


def test_an_unknown_amount_has_two_problems() -> None:
    at = 'spec.hard[odd]: Invalid value: "odd": must be a standard resource'
    expected = [f"{at} type or fully qualified", f"{at} for quota"]
    assert problems("ResourceQuota", quota({"hard": {"odd": "1"}}), None) == expected


@pytest.mark.parametrize(
    ("requirement", "problem"),
    documents("""
{scopeName: Odd, operator: Exists} => scopeName: Invalid value: "Odd": unsupported scope
{scopeName: PriorityClass, operator: In} => values: Required value: must be at least one value
    when `operator` is 'In' or 'NotIn' for scope selector
{scopeName: PriorityClass, operator: Exists, values: [a]} => values: Invalid value: ["a"]: must
    be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector
{scopeName: PriorityClass, operator: Gt} =>
    operator: Invalid value: "Gt": not a valid selector operator
{scopeName: BestEffort, operator: DoesNotExist} => operator: Invalid value: "DoesNotExist": must
    be 'Exists' when scope is any of ResourceQuotaScopeTerminating,
    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort,
    ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity
"""),
)
def test_a_problem_of_a_scope_selector(requirement: Document, problem: str) -> None:
    spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [requirement]}}
    path = "spec.scopeSelector.matchExpressions."
    assert problems("ResourceQuota", quota(spec), None) == [path + problem]


def test_the_scopes_of_a_selector_may_not_conflict_or_limit_other_amounts() -> None:
    requirements = [
        {"scopeName": scope, "operator": "Exists"} for scope in ("BestEffort", "NotBestEffort")
    ]
    spec = {"hard": {"cpu": "1"}, "scopeSelector": {"matchExpressions": requirements}}
    beyond, conflicting = problems("ResourceQuota", quota(spec), None)
    assert beyond.endswith(": unsupported scope applied to resource")
    assert conflicting.endswith(": conflicting scopes")


def test_scopes_cannot_change() -> None:
    before, after = quota({"scopes": ["Terminating"]}), quota({"scopes": ["BestEffort"]})
    assert problems("ResourceQuota", after, before) == [
        'spec.scopes: Invalid value: ["BestEffort"]: field is immutable'
    ]


def test_a_status_has_only_amounts_of_quotas() -> None:
    document = {"status": {"hard": {"pods": "1"}, "used": {"storage": "1"}}}
    assert status_problems("ResourceQuota", document, {}) == [
        'status.used[storage]: Invalid value: "storage": must be a standard resource for quota'
    ]


def test_a_request_above_its_limit_is_warned_about() -> None:
    hard = {"cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi", "limits.memory": "1Gi"}
    assert quota_warnings(quota({"hard": hard})) == [
        "ResourceQuota cpu (2) should be less than limits.cpu (1)"
    ]
