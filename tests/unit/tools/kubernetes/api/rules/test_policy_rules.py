"""Admission policies and bindings: for each rule a document that breaks only this rule, their
defaults and their tables.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from berth.tools.kubernetes.api.policy_expressions import TOO_COMPLEX
from berth.tools.kubernetes.api.rules.validation import problems, status_problems
from berth.tools.kubernetes.api.tables import table
from berth.tools.kubernetes.api.types.defaults import defaulted
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.cases import documents
from tests.kit.documents import Document

VERSION = "admissionregistration.k8s.io/v1"
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
RULE: Document = {
    "apiGroups": ["resource.k8s.io"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "DELETE"],
    "resources": ["resourceslices"],
}
POLICY_SPEC: Document = {
    "matchConstraints": {"resourceRules": [RULE]},
    "validations": [{"expression": "true"}],
}
BINDING_SPEC: Document = {"policyName": "p", "validationActions": ["Deny"]}


def of_kind(kind: str, spec: Document) -> Document:
    """An object with its defaults."""
    return defaulted(BY_KIND[VERSION, kind], {"metadata": {"name": "it"}, "spec": spec})


def spec_problems(kind: str, spec: Document) -> list[str]:
    return problems(kind, of_kind(kind, spec))


@pytest.mark.parametrize(
    ("spec", "problem"),
    documents("""
failurePolicy: Maybe => spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail",
    "Ignore"
matchConstraints: null => spec.matchConstraints: Required value
matchConstraints: {} => spec.matchConstraints.resourceRules: Required value
validations: [{expression: ' '}] => spec.validations[0].expression: Required value: expression is
    not specified
validations: [{expression: 'true', message: ' '}] => spec.validations[0].message: Invalid value:
    " ": must be non-empty if specified
validations: [{expression: 'true', message: "a\\nb"}] => spec.validations[0].message: Invalid value:
    "a\\nb": must not contain line breaks
validations: [{expression: 'true', messageExpression: ' '}] =>
    spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified
validations: [{expression: 'true', reason: Why}] => spec.validations[0].reason: Unsupported
    value: "Why": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"
variables: [{name: '', expression: '1'}] => spec.variables[0].name: Required value: name is not
    specified
variables: [{name: for, expression: '1'}] => spec.variables[0].name: Invalid value: "for": must be a
    valid CEL identifier
variables: [{name: a-b, expression: '1'}] => spec.variables[0].name: Invalid value: "a-b": must be a
    valid CEL identifier
variables: [{name: a, expression: ''}] => spec.variables[0].expression: Required value: expression
    is not specified
matchConditions: [{name: '', expression: 'true'}] => spec.matchConditions[0].name: Required value
matchConditions: [{name: a, expression: ''}] => spec.matchConditions[0].expression: Required value
matchConditions: [{name: a, expression: 'true'}, {name: a, expression: 'false'}] =>
    spec.matchConditions[1].name: Duplicate value: "a"
auditAnnotations: [{key: a, valueExpression: ''}] => spec.auditAnnotations[0].valueExpression:
    Required value: valueExpression is not specified
auditAnnotations: [{key: a, valueExpression: '""'}, {key: a, valueExpression: 'null'}] =>
    spec.auditAnnotations[1].key: Duplicate value: "a"
paramKind: {kind: ConfigMap} => spec.paramKind.apiVersion: Required value
paramKind: {apiVersion: v1} => spec.paramKind.kind: Required value
paramKind: {apiVersion: a/b/c, kind: A} => spec.paramKind.apiVersion: Invalid value: "a/b/c":
    unexpected GroupVersion string: a/b/c
paramKind: {apiVersion: a/, kind: A} => spec.paramKind.apiVersion: Invalid value: "a/": version must
    be specified
"""),
)
def test_a_policy_with_one_thing_wrong(spec: Document, problem: str) -> None:
    assert spec_problems(POLICY, {**POLICY_SPEC, **spec}) == [problem]


@pytest.mark.parametrize(
    ("spec", "problem"),
    documents("""
validations: [{expression: 'object.'}] => spec.validations[0].expression: Invalid value: "object.":
    compilation failed: ERROR: <input>:1:8: Syntax error
validations: [{expression: object.spec.x}] => spec.validations[0].expression: Invalid value:
    "object.spec.x": must evaluate to bool but got dyn
validations: [{expression: variables.a}] => spec.validations[0].expression: Invalid value:
    "variables.a": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables'
validations: [{expression: params.x == 1}] => spec.validations[0].expression: Invalid value:
    "params.x == 1": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'
validations: [{expression: 'true', messageExpression: '1'}] =>
    spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int
matchConditions: [{name: a, expression: namespaceObject == null}] =>
    spec.matchConditions[0].expression: Invalid value: "namespaceObject == null": compilation
    failed: ERROR: <input>:1:1: undeclared reference to 'namespaceObject'
variables: [{name: a, expression: '1 + true'}] => spec.variables[0].expression: Invalid value:
    "1 + true": compilation failed: ERROR: <input>:1:3: found no matching overload
auditAnnotations: [{key: a, valueExpression: '1'}] => spec.auditAnnotations[0].valueExpression:
    Invalid value: "1": must evaluate to one of [string null_type]
"""),
)
def test_a_policy_with_an_expression_that_cannot_be_used(spec: Document, problem: str) -> None:
    (actual,) = spec_problems(POLICY, {**POLICY_SPEC, **spec})
    assert actual.startswith(problem)


def test_an_expression_that_needs_an_authorizer_says_that_there_is_none() -> None:
    checks = [{"expression": "authorizer.group('').resource('pods').check('get').allowed()"}]
    (problem,) = spec_problems(POLICY, {**POLICY_SPEC, "validations": checks})
    assert problem.endswith("this API server has no authorizer in expressions")


def test_expressions_that_are_too_complex_together_are_refused() -> None:
    one = " && ".join(["object.spec.replicas > 1"] * 100)
    checks = [{"expression": one}] * 500
    wrong = spec_problems(POLICY, {**POLICY_SPEC, "validations": checks})
    assert wrong[0].startswith("spec.validations[")
    assert all(problem.endswith(TOO_COMPLEX) for problem in wrong)
    assert 0 < len(wrong) < len(checks)


@pytest.mark.parametrize(
    ("rule", "problem"),
    documents("""
operations: [] => operations: Required value
operations: ['*', CREATE] => operations: Invalid value: ["*","CREATE"]: if '*' is present, must not
    specify other operations
operations: [READ] => operations[0]: Unsupported value: "READ": supported values: "*", "CONNECT",
    "CREATE", "DELETE", "UPDATE"
apiGroups: [] => apiGroups: Required value
apiGroups: ['*', a] => apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify
    other API groups
apiVersions: [] => apiVersions: Required value
apiVersions: [''] => apiVersions[0]: Required value
resources: [] => resources: Required value
resources: [''] => resources[0]: Required value
resources: [pods/*, pods/status] => resources[1]: Invalid value: "pods/status": if 'pods/*' is
    present, must not specify pods/status
resources: ['*/status', pods/status] => resources[1]: Invalid value: "pods/status": if '*/status' is
    present, must not specify pods/status
resources: ['*/*', pods] => resources: Invalid value: ["*/*","pods"]: if '*/*' is present, must not
    specify other resources
resources: ['*', pods] => resources: Invalid value: ["*","pods"]: if '*' is present, must not
    specify other resources without subresources
scope: Here => scope: Unsupported value: "Here": supported values: "*", "Cluster", "Namespaced"
resourceNames: [a/b] => resourceNames[0]: Invalid value: "a/b": may not contain '/'
resourceNames: [a, a] => resourceNames[1]: Duplicate value: "a"
"""),
)
def test_a_rule_with_one_thing_wrong(rule: Document, problem: str) -> None:
    matched = {"resourceRules": [RULE], "excludeResourceRules": [{**RULE, **rule}]}
    path = "spec.matchConstraints.excludeResourceRules[0]"
    assert spec_problems(POLICY, {**POLICY_SPEC, "matchConstraints": matched}) == [
        f"{path}.{problem}"
    ]


@pytest.mark.parametrize(
    ("spec", "problem"),
    documents("""
policyName: '' => spec.policyName: Required value
validationActions: [] => spec.validationActions: Required value: at least one validation action is
    required
validationActions: [Stop] => spec.validationActions[0]: Unsupported value: "Stop": supported values:
    "Audit", "Deny", "Warn"
validationActions: [Warn, Warn] => spec.validationActions[1]: Duplicate value: "Warn"
validationActions: [Deny, Warn] => spec.validationActions: Invalid value: ["Deny","Warn"]: must not
    contain both Deny and Warn (repeating the same validation failure information in the API
    response and headers serves no purpose)
paramRef: {parameterNotFoundAction: Deny} => spec.paramRef: Required value: one of name or selector
    must be specified
paramRef: {name: a} => spec.paramRef.parameterNotFoundAction: Required value
paramRef: {name: a, parameterNotFoundAction: Stop} => spec.paramRef.parameterNotFoundAction:
    Unsupported value: "Stop": supported values: "Deny", "Allow"
paramRef: {name: a/b, parameterNotFoundAction: Deny} => spec.paramRef.name: Invalid value: "a/b":
    may not contain '/'
matchResources: {matchPolicy: Some} => spec.matchResources.matchPolicy: Unsupported value: "Some":
    supported values: "Equivalent", "Exact"
matchResources: {objectSelector: {matchExpressions: [{key: a, operator: Is}]}} =>
    spec.matchResources.objectSelector.matchExpressions[0].operator: Invalid value: "Is": not a
    valid selector operator
"""),
)
def test_a_binding_with_one_thing_wrong(spec: Document, problem: str) -> None:
    assert spec_problems(BINDING, {**BINDING_SPEC, **spec}) == [problem]


def test_a_policy_needs_validations_or_annotations_and_a_binding_one_way_to_its_parameters() -> (
    None
):
    detail = "validations or auditAnnotations must contain at least one item"
    assert spec_problems(POLICY, {**POLICY_SPEC, "validations": []}) == [
        f"spec.validations: Required value: {detail}",
        f"spec.auditAnnotations: Required value: {detail}",
    ]
    both = {"name": "a", "selector": {}, "parameterNotFoundAction": "Allow"}
    assert spec_problems(BINDING, {**BINDING_SPEC, "paramRef": both}) == [
        f"spec.paramRef.{field}: Forbidden: name and selector are mutually exclusive"
        for field in ("name", "selector")
    ]


def test_a_valid_policy_and_binding_have_defaults() -> None:
    policy = of_kind(POLICY, POLICY_SPEC)
    everything = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert policy["spec"]["matchConstraints"] == {
        **everything,
        "resourceRules": [{"scope": "*", **RULE}],
    }
    assert problems(POLICY, policy) == []
    plain = of_kind(BINDING, BINDING_SPEC)
    assert plain["spec"] == BINDING_SPEC
    assert problems(BINDING, plain) == []
    narrow = of_kind(BINDING, {**BINDING_SPEC, "matchResources": {"matchPolicy": "Exact"}})
    assert narrow["spec"]["matchResources"] == {**everything, "matchPolicy": "Exact"}
    assert problems(BINDING, narrow) == []


@pytest.mark.parametrize(
    ("status", "problem"),
    documents("""
typeChecking: {expressionWarnings: [{fieldRef: 'spec.validations[0].expression', warning: ''}]} =>
    status.typeChecking.expressionWarnings[0].warning: Required value
typeChecking: {expressionWarnings: [{fieldRef: ' ', warning: odd}]} =>
    status.typeChecking.expressionWarnings[0].fieldRef: Required value
"""),
)
def test_a_status_with_one_thing_wrong(status: Document, problem: str) -> None:
    before = of_kind(POLICY, POLICY_SPEC)
    assert status_problems(POLICY, {**before, "status": status}, before) == [problem]


def test_the_tables() -> None:
    metadata = {"name": "it", "creationTimestamp": "2026-01-01T00:00:00Z"}

    def cells(kind: str, spec: Document) -> list[Any]:
        now = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
        document = {"metadata": metadata, "spec": spec}
        shown = table(BY_KIND[VERSION, kind], [document], revision="1", now=now)
        row: list[Any] = shown["rows"][0]["cells"]
        return row

    parameters = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert cells(POLICY, POLICY_SPEC) == ["it", 1, "<unset>", "5m"]
    assert cells(POLICY, {"paramKind": parameters}) == ["it", 0, "v1/ConfigMap", "5m"]
    for reference, text in (
        (None, "<unset>"),
        ({"name": "a"}, "*/a"),
        ({"name": "a", "namespace": "b"}, "b/a"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "a=b"),
    ):
        spec = {**BINDING_SPEC, "paramRef": reference}
        assert cells(BINDING, spec) == ["it", "p", text, "5m"]
