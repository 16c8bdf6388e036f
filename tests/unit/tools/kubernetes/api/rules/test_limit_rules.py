"""LimitRanges: for each rule a document that breaks only this rule."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.rules.validation import problems
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.cases import documents
from tests.kit.documents import Document

KIND = BY_KIND["v1", "LimitRange"]


def limit_range(*limits: Document) -> Document:
    return {"metadata": {"name": "l"}, "spec": {"limits": list(limits)}}


def test_a_valid_limit_range() -> None:
    document = limit_range(
        {
            "type": "Container",
            "max": {"cpu": "4", "nvidia.com/gpu": "2"},
            "min": {"cpu": "1"},
            "default": {"cpu": "3", "nvidia.com/gpu": "1"},
            "defaultRequest": {"cpu": "2", "nvidia.com/gpu": "1"},
            "maxLimitRequestRatio": {"cpu": "4"},
        },
        {"type": "Pod", "max": {"memory": "1Gi"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
        {"type": "example.com/Image", "max": {"storage": "1Gi"}},
    )
    assert problems("LimitRange", document) == []


@pytest.mark.parametrize(
    ("limit", "problem"),
    documents("""
{type: Node} => type: Invalid value: "Node": must be a standard limit type or fully qualified
{type: Pod, default: {cpu: 1}} => default: Forbidden: may not be specified when `type` is 'Pod'
{type: PersistentVolumeClaim} => limits: Required value: either minimum or maximum storage value is
    required, but neither was provided
{type: Container, min: {cpu: 2}, max: {cpu: 1}} => min[cpu]: Invalid value: "2": min value 2 is
    greater than max value 1
{type: Container, min: {cpu: 2}, defaultRequest: {cpu: 1}} => defaultRequest[cpu]: Invalid value:
    "1": min value 2 is greater than default request value 1
{type: Container, max: {cpu: 1}, defaultRequest: {cpu: 2}} => defaultRequest[cpu]: Invalid value:
    "2": default request value 2 is greater than max value 1
{type: Container, default: {cpu: 1}, defaultRequest: {cpu: 2}} => defaultRequest[cpu]: Invalid
    value: "2": default request value 2 is greater than default limit value 1
{type: Container, min: {cpu: 2}, default: {cpu: 1}} => default[cpu]: Invalid value: "2": min value 2
    is greater than default value 1
{type: Container, max: {cpu: 1}, default: {cpu: 2}} => default[cpu]: Invalid value: "1": default
    value 2 is greater than max value 1
{type: Container, maxLimitRequestRatio: {cpu: 500m}} => maxLimitRequestRatio[cpu]: Invalid value:
    "500m": ratio 500m is less than 1
{type: Container, min: {cpu: 2}, max: {cpu: 3}, maxLimitRequestRatio: {cpu: 2}} =>
    maxLimitRequestRatio[cpu]: Invalid value: "2": ratio 2 is greater than max/min = 1.500000
{type: Container, default: {a.com/b: 2}, defaultRequest: {a.com/b: 1}} => defaultRequest[a.com/b]:
    Invalid value: "1": default value 2 must equal to defaultRequest value 1 in a.com/b
"""),
)
def test_a_limit_with_one_thing_wrong(limit: Document, problem: str) -> None:
    assert problems("LimitRange", limit_range(limit)) == [f"spec.limits[0].{problem}"]


def test_a_type_occurs_once_and_resources_have_qualified_names() -> None:
    pod = {"type": "Pod", "max": {"cpu": "1"}}
    (problem,) = problems("LimitRange", limit_range(pod, pod))
    assert problem == 'spec.limits[1].type: Duplicate value: "Pod"'
    (problem,) = problems("LimitRange", limit_range({"type": "Pod", "max": {"c p u": "1"}}))
    assert problem.startswith('spec.limits[0].max[c p u]: Invalid value: "c p u": ')


def test_the_defaults_of_a_container() -> None:
    limit = {
        "type": "Container",
        "max": {"cpu": "4", "memory": "4Gi"},
        "min": {"cpu": "1", "disk": "1"},
        "default": {"memory": "2Gi"},
        "defaultRequest": {"memory": "1Gi"},
    }
    filled = defaulted(KIND, limit_range(limit, {"type": "Pod", "max": {"cpu": "1"}}))
    container, pod = filled["spec"]["limits"]
    assert container["default"] == {"cpu": "4", "memory": "2Gi"}
    assert container["defaultRequest"] == {"cpu": "4", "memory": "1Gi", "disk": "1"}
    assert pod == {"type": "Pod", "max": {"cpu": "1"}}
