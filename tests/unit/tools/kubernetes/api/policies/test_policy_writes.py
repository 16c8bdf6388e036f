"""Which writes a policy matches, and what its expressions see of them."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.access.users import ADMINISTRATOR, Requester
from berth.tools.kubernetes.api.policies.policy_writes import Write, matched_kind, values_of
from berth.tools.kubernetes.api.types.resources import BY_KIND
from tests.kit.documents import Document

PODS, NODES, NAMESPACES = (BY_KIND["v1", kind] for kind in ("Pod", "Node", "Namespace"))
EVENTS, NEW_EVENTS = BY_KIND["v1", "Event"], BY_KIND["events.k8s.io/v1", "Event"]
RULE: Document = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
}
LAB: Document = {"metadata": {"name": "lab", "labels": {"tier": "test"}}}
POD: Document = {"metadata": {"name": "p", "namespace": "lab", "labels": {"app": "web"}}}


def write(kind: Any = PODS, **fields: Any) -> Write:
    whole = {"after": POD, "before": None, "namespace": LAB if kind.namespaced else None}
    return Write(ADMINISTRATOR, "CREATE", kind, "p", **(whole | fields))


def matches(resources: Document, written: Write) -> bool:
    return matched_kind({"resourceRules": [RULE], **resources}, written) is not None


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, True),
        ({"apiGroups": ["apps"]}, False),
        ({"apiGroups": ["*"]}, True),
        ({"apiVersions": ["v2"]}, False),
        ({"apiVersions": ["*"]}, True),
        ({"operations": ["UPDATE", "DELETE"]}, False),
        ({"operations": ["*"]}, True),
        ({"resources": ["nodes", "pods"]}, True),
        ({"resources": ["pods/status"]}, False),
        ({"resources": ["*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["*/status"]}, False),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
        ({"resourceNames": ["p"]}, True),
        ({"resourceNames": ["q"]}, False),
    ],
)
def test_a_rule_matches_what_it_lists(rule: Document, expected: bool) -> None:
    assert matches({"resourceRules": [{**RULE, **rule}]}, write()) is expected
    excluded = {"excludeResourceRules": [{**RULE, **rule}]}
    assert matches(excluded, write()) is not expected


@pytest.mark.parametrize(
    ("resource", "subresource", "expected"),
    [
        ("pods", "binding", False),
        ("pods/binding", "binding", True),
        ("pods/*", "binding", True),
        ("*/binding", "binding", True),
        ("*", "binding", False),
        ("pods/*", "", True),
    ],
)
def test_a_subresource_is_named_by_its_own(resource: str, subresource: str, expected: bool) -> None:
    rules = {"resourceRules": [{**RULE, "resources": [resource]}]}
    assert matches(rules, write(subresource=subresource)) is expected


def test_a_binding_without_rules_matches_every_write() -> None:
    assert matched_kind({}, write()) is PODS


@pytest.mark.parametrize(
    ("label", "expected"), [({}, True), ({"tier": "test"}, True), ({"tier": "live"}, False)]
)
def test_a_namespace_is_selected_by_its_labels(label: dict[str, str], expected: bool) -> None:
    selector = {"namespaceSelector": {"matchLabels": label}}
    rules = {"resourceRules": [{**RULE, "resources": ["*"]}]}
    assert matches(selector, write()) is expected
    own = write(NAMESPACES, after=LAB)
    assert matches({**rules, **selector}, own) is expected
    assert matches({**rules, **selector}, write(NODES)) is True


def test_an_object_is_selected_by_its_labels_before_or_after() -> None:
    selector = {"objectSelector": {"matchLabels": {"app": "web"}}}
    other: Document = {"metadata": {"name": "p"}}
    assert matches(selector, write())
    assert matches(selector, write(after=other, before=POD))
    assert not matches(selector, write(after=other))
    assert not matches(
        {"objectSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}},
        write(),
    )


def test_a_kind_that_two_groups_serve_matches_as_the_one_that_the_rule_lists() -> None:
    rule = {**RULE, "apiGroups": ["events.k8s.io"], "resources": ["events"]}
    event = {"metadata": {"name": "e", "namespace": "lab"}, "message": "m", "apiVersion": "v1"}
    written = write(EVENTS, after=event)
    assert (
        matched_kind({"resourceRules": [rule], "matchPolicy": "Equivalent"}, written) is NEW_EVENTS
    )
    assert matched_kind({"resourceRules": [rule], "matchPolicy": "Exact"}, written) is None
    values = values_of(written, NEW_EVENTS)
    assert values["object"]["note"] == "m"
    assert values["request"]["kind"]["group"] == "events.k8s.io"
    assert values["request"]["requestKind"]["group"] == ""


def test_expressions_see_the_request() -> None:
    user = Requester("ann", "7", ("dev",), {"k": ["v"]})
    written = Write(user, "UPDATE", PODS, "p", POD, POD, "status", LAB, True)
    values = values_of(written, PODS)
    assert (values["object"], values["oldObject"]) == (POD, POD)
    assert values["namespaceObject"] is LAB
    pods = {"group": "", "version": "v1", "resource": "pods"}
    pod = {"group": "", "version": "v1", "kind": "Pod"}
    assert values["request"] == {
        "uid": "",
        "operation": "UPDATE",
        "userInfo": {"username": "ann", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}},
        "dryRun": True,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "UpdateOptions"},
        "kind": pod,
        "resource": pods,
        "subResource": "status",
        "requestKind": pod,
        "requestResource": pods,
        "requestSubResource": "status",
        "name": "p",
        "namespace": "lab",
    }


def test_what_is_sent_to_a_subresource_has_a_kind_of_its_own() -> None:
    binding = {"target": {"name": "n1"}}
    values = values_of(write(after=binding, subresource="binding"), PODS)
    assert values["object"] == binding
    assert values["request"]["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
    assert values["request"]["resource"]["resource"] == "pods"
    cluster = values_of(write(NODES), NODES)
    assert "namespace" not in cluster["request"]
    assert "subResource" not in cluster["request"]
