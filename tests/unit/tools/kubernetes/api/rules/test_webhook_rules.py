"""Webhooks, mutating policies, services of groups, flows and certificate requests: for each rule an
object that breaks only this rule.
"""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.rules.validation import problems
from tests.kit.cases import documents
from tests.kit.documents import Document

HOOK: Document = {
    "name": "a.b.c",
    "admissionReviewVersions": ["v1"],
    "sideEffects": "None",
    "clientConfig": {"url": "https://a.b/c"},
    "rules": [
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"]}
    ],
}
POLICY: Document = {
    "failurePolicy": "Fail",
    "reinvocationPolicy": "Never",
    "matchConstraints": {"resourceRules": HOOK["rules"]},
    "mutations": [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'test'}]"}}
    ],
}


def named(document: Document, name: str = "it") -> Document:
    return {"metadata": {"name": name}, **document}


@pytest.mark.parametrize(
    ("_", "change", "problem"),
    documents("""
- => {} => -
- => {name: a.b} => webhooks[0].name: Invalid value: "a.b": should be a domain with at least three
    segments separated by dots
- => {admissionReviewVersions: []} => webhooks[0].admissionReviewVersions: Required value: must
    specify one of v1, v1beta1
- => {admissionReviewVersions: [v2]} => webhooks[0].admissionReviewVersions: Invalid value: ["v2"]:
    must include at least one of v1, v1beta1
- => {sideEffects: null} => webhooks[0].sideEffects: Required value: must specify one of None,
    NoneOnDryRun
- => {sideEffects: Some} => webhooks[0].sideEffects: Unsupported value: "Some": supported values:
    "None", "NoneOnDryRun"
- => {timeoutSeconds: 31} => webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must
    be between 1 and 30 seconds
- => {clientConfig: {}} => webhooks[0].clientConfig: Required value: exactly one of url or service
    is required
- => {clientConfig: {url: 'http://a'}} => webhooks[0].clientConfig.url: Invalid value: "http":
    'https' is the only allowed URL scheme; desired format: https://host[/path]
- => {clientConfig: {service: {name: s, port: 443}}} => webhooks[0].clientConfig.service.namespace:
    Required value
- => {clientConfig: {service: {name: s, namespace: n, port: 443, path: ab}}} =>
    webhooks[0].clientConfig.service.path: Invalid value: "ab": must start with a '/'
- => {failurePolicy: Maybe} => webhooks[0].failurePolicy: Unsupported value: "Maybe": supported
    values: "Fail", "Ignore"
"""),
)
def test_a_webhook_with_one_thing_wrong(_: str, change: Document, problem: str) -> None:
    hook = {**HOOK, **change}
    expected = [] if problem == "-" else [problem]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert problems(kind, named({"webhooks": [hook]})) == expected


@pytest.mark.parametrize("text", ["object.x ==", "namespaceObject == null", "'text'"])
def test_a_condition_that_cannot_be_compiled_is_refused(text: str) -> None:
    hook = {**HOOK, "matchConditions": [{"name": "a", "expression": text}]}
    (problem,) = problems("MutatingWebhookConfiguration", named({"webhooks": [hook]}))
    path = "webhooks[0].matchConditions[0].expression"
    assert problem.startswith(f'{path}: Invalid value: "{text}": ')
    fine = {**hook, "matchConditions": [{"name": "a", "expression": "object.x == 1"}]}
    assert problems("ValidatingWebhookConfiguration", named({"webhooks": [fine]})) == []


def test_webhooks_of_a_configuration_have_different_names() -> None:
    document = named({"webhooks": [HOOK, HOOK]})
    assert problems("ValidatingWebhookConfiguration", document) == [
        'webhooks[1].name: Duplicate value: "a.b.c"'
    ]


@pytest.mark.parametrize(
    ("_", "change", "problem"),
    documents("""
- => {} => -
- => {mutations: []} => spec.mutations: Required value: mutations must contain at least one item
- => {reinvocationPolicy: ''} => spec.reinvocationPolicy: Required value
- => {mutations: [{patchType: Text}]} => spec.mutations[0].patchType: Unsupported value: "Text":
    supported values: "ApplyConfiguration", "JSONPatch"
- => {mutations: [{patchType: JSONPatch}]} => spec.mutations[0].jsonPatch: Required value: must be
    specified when patchType is JSONPatch
- => {matchConstraints: {resourceRules: [{operations: [DELETE], apiGroups: [''], apiVersions: [v1],
    resources: [pods]}]}} => spec.matchConstraints.resourceRules.operations: Unsupported value:
    "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"
"""),
)
def test_a_mutating_policy_with_one_thing_wrong(_: str, change: Document, problem: str) -> None:
    expected = [] if problem == "-" else [problem]
    assert problems("MutatingAdmissionPolicy", named({"spec": {**POLICY, **change}})) == expected


@pytest.mark.parametrize(
    ("kind", "document", "problem"),
    documents("""
MutatingAdmissionPolicyBinding => spec: {policyName: a} => -
MutatingAdmissionPolicyBinding => spec: {} => spec.policyName: Required value
FlowSchema => spec: {matchingPrecedence: 9, priorityLevelConfiguration: {name: a}} => -
FlowSchema => spec: {matchingPrecedence: 1, priorityLevelConfiguration: {name: a}} =>
    spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have
    matchingPrecedence 1
FlowSchema => spec: {matchingPrecedence: 9} => spec.priorityLevelConfiguration.name: Required value:
    must reference a priority level
FlowSchema => spec: {matchingPrecedence: 9, priorityLevelConfiguration: {name: a}, rules:
    [{subjects: [{kind: User, user: {name: u}}]}]} => spec.rules[0]: Required value: at least one of
    resourceRules and nonResourceRules has to be non-empty
FlowSchema => spec: {matchingPrecedence: 9, priorityLevelConfiguration: {name: a}, rules:
    [{subjects: [{kind: User}], nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['*']}]}]} =>
    spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'
FlowSchema => spec: {matchingPrecedence: 9, priorityLevelConfiguration: {name: a}, rules:
    [{subjects: [{kind: User, user: {name: u}}], nonResourceRules: [{verbs: ['*'], nonResourceURLs:
    [a]}]}]} => spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "a": must start
    with slash
FlowSchema => spec: {matchingPrecedence: 9, priorityLevelConfiguration: {name: a}, rules:
    [{subjects: [{kind: User, user: {name: u}}], resourceRules: [{verbs: ['*'], apiGroups: ['*'],
    resources: ['*']}]}]} => spec.rules[0].resourceRules[0].namespaces: Required value: resource
    rules that are not cluster scoped must supply at least one namespace
PriorityLevelConfiguration => spec: {type: Limited, limited: {nominalConcurrencyShares: 1,
    limitResponse: {type: Queue, queuing: {queues: 64, handSize: 8, queueLengthLimit: 50}}}} => -
PriorityLevelConfiguration => spec: {type: Limited} => spec.limited: Required value: must not be
    empty when type is Limited
PriorityLevelConfiguration => spec: {type: Limited, limited: {limitResponse: {type: Reject},
    lendablePercent: 101}} => spec.limited.lendablePercent: Invalid value: 101: must be between 0
    and 100, inclusive
PriorityLevelConfiguration => spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing:
    {queues: 1024, handSize: 8, queueLengthLimit: 50}}}} =>
    spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize
    1024 and handSize 8 should not be greater than 60
PriorityLevelConfiguration => spec: {type: Exempt} => spec.type: Invalid value: "Exempt": must be
    'Exempt' if and only if `name` is 'exempt'
APIService => {metadata: {name: v1.a.b}, spec: {group: a.b, version: v1, groupPriorityMinimum: 1,
    versionPriority: 1}} => -
APIService => spec: {group: a.b, version: v1, groupPriorityMinimum: 1, versionPriority: 1} =>
    metadata.name: Invalid value: "it": must be `spec.version+"."+spec.group`: "v1.a.b"
APIService => {metadata: {name: v1.a.b}, spec: {group: a.b, version: v1, groupPriorityMinimum: 0,
    versionPriority: 1}} => spec.groupPriorityMinimum: Invalid value: 0: must be positive and less
    than 20000
APIService => {metadata: {name: v1.a.b}, spec: {group: a.b, version: v1, groupPriorityMinimum: 1,
    versionPriority: 1, insecureSkipTLSVerify: true}} => spec.insecureSkipTLSVerify: Invalid value:
    true: local APIServices may not have insecureSkipTLSVerify
CertificateSigningRequest => spec: {request: eA==, signerName: a.b/c, usages: [any]} =>
    spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST
"""),
)
def test_an_object_with_one_thing_wrong(kind: str, document: Document, problem: str) -> None:
    assert problems(kind, named(document)) == ([] if problem == "-" else [problem])


@pytest.mark.parametrize(
    ("_", "spec", "problem"),
    documents("""
- => {} => spec.usages: Required value
- => {usages: [any, any]} => spec.usages[1]: Duplicate value: "any"
- => {signerName: ''} => spec.signerName: Required value
- => {signerName: a} => spec.signerName: Invalid value: "a": must be a fully qualified domain and
    path of the form 'example.com/signer-name'
- => {signerName: kubernetes.io/legacy-unknown} => spec.signerName: Invalid value:
    "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version
- => {expirationSeconds: 599} => spec.expirationSeconds: Invalid value: 599: may not specify a
    duration less than 600 seconds (10 minutes)
"""),
)
def test_a_certificate_request_with_one_thing_wrong(_: str, spec: Document, problem: str) -> None:
    document = named({"spec": {"request": "", "signerName": "a.b/c", **spec}})
    assert problem in problems("CertificateSigningRequest", document)
