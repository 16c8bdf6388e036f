"""Label and field selectors of requests."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.selectors import matches_of
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "labels": {"app": "web"}},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}
EVENT: dict[str, Any] = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p"},
    "source": {"component": "s"},
}


@pytest.mark.parametrize(
    ("kind", "document", "labels", "fields", "selected"),
    [
        ("Pod", POD, "app=web", "", True),
        ("Pod", POD, "app in (web, db),!tier", "", True),
        ("Pod", POD, "app!=web", "", False),
        ("Pod", POD, "app in (db,web),app notin (a,b),app", "", True),
        ("Pod", POD, "app in (,web),app", "", True),
        ("Pod", {"metadata": {"labels": {"n": "5"}}}, "n>4,n<6", "", True),
        ("Pod", {"metadata": {"labels": {"n": "x"}}}, "n>4", "", False),
        ("Pod", POD, "", "spec.nodeName=n1,status.phase!=Failed", True),
        ("Pod", POD, "", "spec.nodeName!=", True),
        ("Pod", POD, "", "spec.nodeName==", False),
        ("Pod", POD, "", "metadata.name=p,metadata.namespace=n", True),
        ("Pod", POD, "", "spec.hostNetwork=false", True),
        ("Pod", POD, "app=web", "spec.nodeName=n2", False),
        ("Node", {"metadata": {"name": "n"}, "spec": {}}, "", "spec.unschedulable=false", True),
        (
            "Node",
            {"metadata": {"name": "n"}, "spec": {"unschedulable": True}},
            "",
            "spec.unschedulable=true",
            True,
        ),
        ("Event", EVENT, "", "involvedObject.kind=Pod,involvedObject.name=p,source=s", True),
        (
            "ReplicationController",
            {"metadata": {"name": "r"}, "status": {"replicas": 0}},
            "",
            "status.replicas=0",
            True,
        ),
    ],
)
def test_the_objects_that_a_selector_selects(
    kind: str, document: dict[str, Any], labels: str, fields: str, selected: bool
) -> None:
    served = next(each for each in BY_KIND.values() if each.kind == kind)
    matches = matches_of(served, labels, fields)
    assert matches is not None
    assert matches(document) == selected


def test_an_empty_selector_selects_all() -> None:
    assert matches_of(BY_KIND["v1", "Pod"], " ", "") is None


@pytest.mark.parametrize(
    ("labels", "fields", "why"),
    [
        ("app in (", "", "unable to parse requirement"),
        ("app in (a,b", "", "unable to parse requirement"),
        ("app in (a,b)),c", "", "found ')', expected: ',' or 'end of string'"),
        (",,app=web", "", "found ',', expected: !, identifier, or 'end of string'"),
        ("app=web,", "", "found '', expected: identifier after ','"),
        ("a in (b c)", "", "found 'c', expected: ',' or ')'"),
        ("a>x", "", "the value must be an integer"),
        ("-a", "", '<nil>: Invalid value: "-a": name part must'),
        ("a=b_", "", 'values[0][a]: Invalid value: "b_": a valid label'),
        ("", "a=b=c", "unescaped character in value: 61"),
        (
            "app in (" + "," * 60_000,
            "",
            "unable to parse requirement",
        ),  # long selectors take no longer than others
        ("a," * 30_000 + "=", "", "found '=', expected: identifier after ','"),
        ("", "nodeName", "invalid selector: 'nodeName'; can't understand 'nodeName'"),
        ("", "spec.image=nginx", "field label not supported: spec.image"),
        ("", "spec.unschedulable=true", "field label not supported: spec.unschedulable"),
    ],
)
def test_an_invalid_selector_is_refused(labels: str, fields: str, why: str) -> None:
    with pytest.raises(RefusedError) as refused:
        matches_of(BY_KIND["v1", "Pod"], labels, fields)
    assert why in str(refused.value)
    assert refused.value.code == 400
