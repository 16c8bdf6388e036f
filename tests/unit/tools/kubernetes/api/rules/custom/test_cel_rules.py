"""Rules in CEL of a schema: what they refuse, and when they are asked."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.rules.custom import cel_rules
from berth.tools.kubernetes.api.rules.custom.cel_rules import rule_problems
from berth.tools.kubernetes.api.rules.custom.cel_types import escaped, value_in_cel
from berth.tools.kubernetes.api.types.structural import Structural
from tests.kit.custom_kinds import schema_of
from tests.kit.documents import Document

NUMBER: Document = {"type": "integer"}
TEXT: Document = {"type": "string"}


def ruled(schema: Document, rule: str, **more: Any) -> Document:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


def problems(spec: Document, now: Any, before: Any = None) -> list[str]:
    """Returns the problems of an object with this spec; `before` is its earlier spec."""
    schema = Structural(schema_of(spec))
    earlier = None if before is None else {"spec": before}
    return rule_problems(schema, {"metadata": {"name": "blue"}, "spec": now}, earlier)


@pytest.mark.parametrize(
    ("rule", "more", "message"),
    [
        ("self.a < self.b", {}, "spec: Invalid value: failed rule: self.a < self.b"),
        ("self.a < self.b", {"message": "no"}, "spec: Invalid value: no"),
        (
            "self.a < self.b",
            {"messageExpression": "'a is ' + string(self.a)", "fieldPath": ".a"},
            "spec.a: Invalid value: a is 2",
        ),
        ("false", {"reason": "FieldValueForbidden", "message": "x"}, "spec: Forbidden: x"),
        (
            "has(self.c)",
            {"reason": "FieldValueRequired"},
            "Required value: failed rule:",
        ),
        ("self.c == 1", {}, 'Invalid value: "object": no such key: c evaluating rule: self.c == 1'),
        ("self.d == 1", {}, 'Invalid value: "object": rule compile error: compilation failed'),
    ],
)
def test_a_rule_refuses(rule: str, more: Document, message: str) -> None:
    fields = {"a": NUMBER, "b": NUMBER, "c": NUMBER}
    (problem,) = problems(ruled({"properties": fields}, rule, **more), {"a": 2, "b": 1})
    assert message in problem


@pytest.mark.parametrize(
    ("schema", "value", "path"),
    [
        (ruled(TEXT, "self.startsWith('a')"), "b", "spec.f"),
        ({"type": "array", "items": ruled(NUMBER, "self > 1")}, [2, 1], "spec.f[1]"),
        (
            {"type": "object", "additionalProperties": ruled(NUMBER, "self > 1")},
            {"k": 1},
            "spec.f[k]",
        ),
        (ruled({"type": "array", "items": NUMBER}, "self.all(n, n > 1)"), [2, 1], "spec.f"),
        (ruled({**TEXT, "format": "duration"}, "self < duration('1m')"), "2m", "spec.f"),
        (
            ruled({"x-kubernetes-int-or-string": True}, "type(self) == int ? self < 5 : false"),
            "50%",
            "spec.f",
        ),
    ],
)
def test_a_rule_sees_a_part_with_its_type(schema: Document, value: Any, path: str) -> None:
    (problem,) = problems({"properties": {"f": schema}}, {"f": value})
    assert problem.startswith(f"{path}: Invalid value: ")


def test_the_root_sees_the_name() -> None:
    schema = Structural(ruled(schema_of({}), "self.metadata.name != 'blue'"))
    (problem,) = rule_problems(schema, {"metadata": {"name": "blue"}, "spec": {}}, None)
    assert problem.startswith("<nil>: Invalid value: failed rule")


def test_a_rule_about_the_earlier_value_is_asked_at_updates() -> None:
    kept = {"properties": {"f": ruled(TEXT, "self == oldSelf", message="it stays")}}
    assert problems(kept, {"f": "b"}) == []
    assert problems(kept, {"f": "b"}, {}) == []
    assert problems(kept, {"f": "b"}, {"f": "a"}) == ['spec.f: Invalid value: "b": it stays']
    rule = "!oldSelf.hasValue() || self >= oldSelf.value()"
    grows = {"properties": {"f": ruled(NUMBER, rule, optionalOldSelf=True)}}
    assert problems(grows, {"f": 1}) == problems(grows, {"f": 2}, {"f": 1}) == []
    assert len(problems(grows, {"f": 1}, {"f": 2})) == 1


def test_items_of_a_map_are_compared_by_their_keys() -> None:
    item = {"type": "object", "properties": {"k": TEXT, "v": ruled(TEXT, "self == oldSelf")}}
    listed = {"type": "array", "items": item, "x-kubernetes-list-type": "map"}
    spec = {"properties": {"f": {**listed, "x-kubernetes-list-map-keys": ["k"]}}}
    before = {"f": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]}
    assert problems(spec, {"f": [{"k": "b", "v": "2"}, {"k": "c", "v": "9"}]}, before) == []
    assert len(problems(spec, {"f": [{"k": "b", "v": "1"}]}, before)) == 1


def test_what_an_update_leaves_is_not_refused_again() -> None:
    spec = {"properties": {"f": ruled(NUMBER, "self > 1"), "g": NUMBER}}
    assert problems(spec, {"f": 1, "g": 2}, {"f": 1, "g": 1}) == []
    assert len(problems(spec, {"f": 0, "g": 2}, {"f": 1, "g": 1})) == 1


def test_rules_end_at_the_limits_of_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"type": "array", "items": NUMBER}
    many = [*range(1200)]
    twice = {"properties": {"f": ruled(numbers, "self.all(a, self.all(b, a + b >= 0))")}}
    (problem,) = problems(twice, {"f": many})
    assert "due to call cost exceeds limit" in problem
    monkeypatch.setattr(cel_rules, "BUDGET", 20)
    spec = {"properties": {"f": {"type": "array", "items": ruled(NUMBER, "self >= 0")}}}
    found = problems(spec, {"f": [0] * 20})
    assert found[-1].endswith(
        "validation failed due to running out of cost budget, "
        "no further validation rules will be run"
    )


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("plain", "plain"),
        ("in", "__in__"),
        ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
        ("a__b", "a__underscores__b"),
        ("1a", ""),
        ("ä", ""),
    ],
)
def test_a_field_is_named_in_an_expression(name: str, word: str) -> None:
    assert escaped(name) == word


def test_values_have_the_types_of_the_schema() -> None:
    fields = {"n": {"type": "number"}, "i": NUMBER, "b": {**TEXT, "format": "byte"}}
    schema = Structural({"type": "object", "properties": fields})
    seen = value_in_cel({"n": 1, "i": 2.0, "b": "YQ==", "other": 1}, schema)
    assert seen == {"n": 1.0, "i": 2, "b": b"a"}
    assert (type(seen["n"]), type(seen["i"])) == (float, int)
