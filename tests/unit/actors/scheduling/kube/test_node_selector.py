"""Why kube-scheduler cannot parse a node selector term, in its words."""

from __future__ import annotations

import msgspec
import pytest

from berth.actors.scheduling.kube.core import NodeSelector, NodeSelectorTerm
from berth.actors.scheduling.kube.node_selector import parse_errors, selector_error

LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def errors(part: str, key: str, operator: str, *values: str) -> list[str]:
    requirement = {"key": key, "operator": operator, "values": values}
    return [*parse_errors(msgspec.convert({part: [requirement]}, NodeSelectorTerm), "[0]")]


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        (
            "zone",
            "In",
            ["a", "not a label value!"],
            f'values[1][zone]: Invalid value: "not a label value!": {LABEL_RULE}',
        ),
        ("zone", "NotIn", ["-"], f'values[0][zone]: Invalid value: "-": {LABEL_RULE}'),
        (
            "zone",
            "In",
            ["a" * 64],
            f'values[0][zone]: Invalid value: "{"a" * 64}": must be no more than 63 bytes',
        ),
        (
            "cpus",
            "Gt",
            ["many"],
            (
                'values[0]: Invalid value: "many": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            ),
        ),
        ("cpus", "Lt", ["-5"], f'values[0][cpus]: Invalid value: "-5": {LABEL_RULE}'),
        (
            "cpus",
            "Gt",
            ["1", "2"],
            (
                'values: Invalid value: ["1","2"]: '
                "for 'Gt', 'Lt' operators, exactly one value is required"
            ),
        ),
        (
            "zone",
            "In",
            [],
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "zone",
            "Exists",
            ["a"],
            'values: Invalid value: ["a"]: values set must be empty for exists and does not exist',
        ),
        (
            "zone",
            "Like",
            ["!"],
            (
                'operator: Unsupported value: "Like": supported values: "In", "NotIn", "Exists", '
                '"DoesNotExist", "Gt", "Lt"'
            ),
        ),
        ("zo ne", "Exists", [], f'key: Invalid value: "zo ne": {KEY_RULE}'),
        ("zone", "In", ["a", ""], ""),
        ("zone", "DoesNotExist", [], ""),
        ("cpus", "Gt", ["5"], ""),
    ],
)
def test_expressions(key: str, operator: str, values: list[str], expected: str) -> None:
    problems = errors("matchExpressions", key, operator, *values)
    assert problems == ([f"[0].matchExpressions[0].{expected}"] if expected else [])


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["a", "b"], 'values: Invalid value: ["a","b"]: must have one element'),
        ("NotIn", [], "values: Invalid value: null: must have one element"),
        ("Exists", [], 'operator: Unsupported value: "Exists": supported values: "In", "NotIn"'),
        ("In", ["no name!"], ""),
    ],
)
def test_fields(operator: str, values: list[str], expected: str) -> None:
    problems = errors("matchFields", "metadata.name", operator, *values)
    assert problems == ([f"[0].matchFields[0].{expected}"] if expected else [])


def test_all_errors_of_a_term_are_told() -> None:
    broken = [{"key": "a", "operator": "Like"}, {"key": "b", "operator": "In"}]
    term = msgspec.convert({"matchExpressions": broken, "matchFields": broken}, NodeSelectorTerm)
    assert [error.split(": ")[0] for error in parse_errors(term, "[3]")] == [
        "[3].matchExpressions[0].operator",
        "[3].matchExpressions[1].values",
        "[3].matchFields[0].operator",
        "[3].matchFields[1].values",
    ]


def test_the_errors_of_a_selector_are_joined() -> None:
    bounded = {"key": "k", "operator": "Gt", "values": ["x"]}
    named = {"key": "metadata.name", "operator": "Gt", "values": ["n"]}
    terms = [{}, {"matchExpressions": [bounded]}, {"matchFields": [named]}]
    unbounded = (
        'nodeSelectorTerms[1].matchExpressions[0].values[0]: Invalid value: "x": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
    )
    unknown = (
        'nodeSelectorTerms[2].matchFields[0].operator: Unsupported value: "Gt": '
        'supported values: "In", "NotIn"'
    )
    for number, expected in ((1, ""), (2, unbounded), (3, f"[{unbounded}, {unknown}]")):
        selector = msgspec.convert({"nodeSelectorTerms": terms[:number]}, NodeSelector)
        assert selector_error(selector) == expected
