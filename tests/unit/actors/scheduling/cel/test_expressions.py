"""Expressions over named values: types, values from JSON, names with dots, and no device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from berth.actors.scheduling.cel import CelError, Expression
from berth.actors.scheduling.cel.built import as_json, misnamed
from berth.actors.scheduling.cel.types import BOOL, DYN, NULL, STRING

OBJECT: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"tier": "web"}},
    "spec": {"replicas": 3, "ratio": 0.5, "names": ["x", "y"], "paused": False, "none": None},
}
TYPES = {"object": DYN, "variables.limit": DYN, "variables.text": STRING}
VALUES = {"object": OBJECT, "variables.limit": 3, "variables.text": "t"}


def value(expression: str, values: Mapping[str, Any] = VALUES) -> Any:
    compiled = Expression(expression, TYPES)
    assert compiled.error == ""
    return compiled.value(values)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("object.spec.replicas <= variables.limit", True),
        (".object.spec.replicas + 1", 4),
        ("object.spec.ratio * 2.0", 1.0),
        ("object.spec.names.map(n, n + variables.text)", ["xt", "yt"]),
        ("object.spec.?other.orValue('no')", "no"),
        ("object.metadata.?labels[?'tier'].orValue('')", "web"),
        ("has(object.spec.paused) && !object.spec.paused", True),
        ("has(object.spec.other)", False),
        ("object.spec.none == null", True),
        ("object == object", True),
        ("object.spec.names.all(object, object != 'z')", True),
        ("[1].map(variables, variables + 1)", [2]),
        ("type(object.spec) == map", True),
        ("[false, true].map(k, {false: 'off', true: 'on'}[k])", ["off", "on"]),
        ("dyn({1: 'one'})[1.0]", "one"),
        ("cel.bind(o, object.spec, o.replicas)", 3),
    ],
)
def test_an_expression_has_the_value_that_the_variables_give(
    expression: str, expected: Any
) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device.driver == 'x'", "undeclared reference to 'device' (in container '')"),
        ("variables.other", "undeclared reference to 'variables' (in container '')"),
        ("variables.text + 1", "found no matching overload for '_+_'"),
    ],
)
def test_what_is_not_declared_does_not_compile(expression: str, problem: str) -> None:
    assert problem in Expression(expression, TYPES).error


def test_a_result_of_another_type_is_refused() -> None:
    assert Expression("1", TYPES, (BOOL,)).error == "must evaluate to bool but got int"
    assert Expression("object.x", TYPES, (BOOL,)).error == "must evaluate to bool but got dyn"
    two = Expression("1", TYPES, (STRING, NULL))
    assert two.error == "must evaluate to one of [string null_type]"
    assert Expression("null", TYPES, (STRING, NULL)).error == ""


def test_the_type_of_the_result_is_known() -> None:
    assert Expression("variables.text + 'a'", TYPES).type == STRING
    assert Expression("object.x", TYPES).type == DYN


def test_a_failure_says_why_and_tells_the_work() -> None:
    spent: list[int] = []
    with pytest.raises(CelError, match="no such key: b"):
        Expression("object.b", TYPES).value(VALUES, spent.append)
    assert spent[0] > 0
    with pytest.raises(CelError, match="Syntax error"):
        Expression("1 +", TYPES).value(VALUES)


def built(expression: str, values: Mapping[str, Any] = VALUES) -> Any:
    compiled = Expression(expression, TYPES, builds=True)
    assert compiled.error == ""
    return as_json(compiled.value(values))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}",
            {"spec": {"replicas": 4}},
        ),
        ("Object{?spec: object.?spec.?other, a: {'k': [1]}}", {"a": {"k": [1]}}),
        ("Object{?a: object.metadata.?name}.a", "a"),
        ("has(Object{a: 1}.b)", False),
        (
            "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('x/~'), value: {'b': 1u}}]",
            [{"op": "add", "path": "/a/x~1~0", "value": {"b": 1}}],
        ),
        (
            "Object{at: timestamp('2020-01-01T00:00:00Z'), b: b'x'}",
            {"at": "2020-01-01T00:00:00Z", "b": "eA=="},
        ),
        ("Object{} == Object{}", True),
    ],
)
def test_an_expression_of_a_patch_builds_objects(expression: str, expected: Any) -> None:
    assert built(expression) == expected


@pytest.mark.parametrize(
    ("expression", "builds", "problem"),
    [
        ("Object{}", False, "undeclared reference to 'Object' (in container '')"),
        ("jsonpatch.escapeKey('')", False, "undeclared reference to 'jsonpatch'"),
        ("Other{}", True, "undeclared reference to 'Other' (in container '')"),
        ("JSONPatch{ops: 'a'}", True, "undefined field 'ops'"),
        ("JSONPatch{op: 1}", True, "expected type of field 'op' is 'string' but provided type is"),
    ],
)
def test_what_cannot_be_built_is_a_problem(expression: str, builds: bool, problem: str) -> None:
    assert problem in Expression(expression, TYPES, builds=builds).error


def test_the_types_of_built_objects_are_named_after_their_places() -> None:
    whole = Expression("Object{spec: [Object.spec{a: Object.spec.b{}}]}", {}, builds=True).value({})
    assert list(misnamed(whole, "Object")) == [
        (
            'unexpected type name "Object.spec.b", expected "Object.spec.a", which matches field '
            "name path from root Object type"
        )
    ]


def test_a_map_with_other_keys_than_texts_has_no_form_in_json() -> None:
    with pytest.raises(CelError, match='map key "1" is not string'):
        built("Object{a: {1: 2}}")
