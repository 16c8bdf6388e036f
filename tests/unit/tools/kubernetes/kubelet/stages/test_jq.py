"""Queries of stages: what they select, what fails, and how errors point at the text."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.kubelet.stages.jq import JqError, query

POD: dict[str, Any] = {
    "metadata": {
        "name": "a",
        "annotations": {"after": "3", "x/y": "z"},
        "ownerReferences": [{"kind": "Job", "controller": True}, {"kind": "Foo"}],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}],
    },
    "numbers": [3, 1, 2],
}


@pytest.mark.parametrize(
    ("text", "results"),
    [
        (".status.phase", ["Running"]),
        ('.status.conditions.[] | select( .type == "Ready" ) | .status', ["False"]),
        ('.status.conditions[] | select(.type != "Ready") | .status', ["True"]),
        (".metadata.ownerReferences.[].kind", ["Job", "Foo"]),
        ('.metadata.annotations["x/y"]', ["z"]),
        ('.metadata.annotations."x/y"', ["z"]),
        ('.metadata.annotations["absent"]', []),
        (".absent.deeper", []),
        (".absent[].deeper", None),
        (".absent[]?.deeper", []),
        ("[.absent[]?]", [[]]),
        (".numbers[0], .numbers[-1], .numbers[9]", [3, 2]),
        (".numbers | min, max, add, length", [1, 3, 6, 3]),
        ('(.absent // "1") + "s"', ["1s"]),
        ('.metadata.annotations | .no // (.after + "s")', ["3s"]),
        ("1 - -2, 5 - 3", [3, 2]),
        (".numbers[] | select(. > 1 and . <= 3)", [3, 2]),
        ("(1 == 1 or 1) | not", [False]),
        (".metadata.ownerReferences | any(.controller), all(.controller)", [True, False]),
        ('[.numbers[] | tostring] | join(",")', ["3,1,2"]),
        ('["a", 1, true, null] | join("-")', ["a-1-true-"]),
        ('"ab" | split("")', [["a", "b"]]),
        ('"" | split(",")', [[]]),
        ('null | has("a")', [False]),
        ("[1, true, [1]] - [true, [true]]", [[1, [1]]]),
        ("[1] < [true], [null] < [0]", [False, True]),
        ('if .status.phase == "Running" then "yes" else "no" end', ["yes"]),
        ("if .absent then 1 end | type", ["object"]),
        ('.metadata | has("name"), has("none")', [True, False]),
        (
            '"a-b" | startswith("a"), endswith("x"), split("-")[1], test("^a.b$")',
            [True, False, "b", True],
        ),
        ('"2026-01-01T00:00:10Z" | fromdateiso8601', [1767225610]),
        ('"12" | tonumber', [12]),
        ('null < false, false < 0, 0 < "", "" < []', [True] * 4),
        ("true == 1", [False]),
        ("[1, 2, 3] - [2]", [[1, 3]]),
        (".numbers | map(. + 1) | keys", [[0, 1, 2]]),
        ("first(.numbers[])", [3]),
        ("empty, 1", [1]),
    ],
)
def test_results(text: str, results: list[Any] | None) -> None:
    assert query(text)(POD) == results


@pytest.mark.parametrize(
    "text",
    [
        ".numbers.name",
        ".numbers.name.first?",
        ".numbers.name[]?",
        ".status.phase[]",
        '"a" | tonumber',
        "1 + true",
        '"a" < 1 | length',
        '[[]] | join(",")',
    ],
)
def test_a_query_that_fails_has_no_results(text: str) -> None:
    assert query(text)(POD) is None


@pytest.mark.parametrize("text", ["|".join(["(., .)"] * 40), '"a" | test("(")'])
def test_a_query_that_cannot_end_fails(text: str) -> None:
    assert query(text)({}) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("(" * 140 + "." + ")" * 140, "expected less deeply nested parts"),
        (".a" * 301, "expected at most 300 tokens"),
    ],
)
def test_a_query_has_a_greatest_size(text: str, problem: str) -> None:
    with pytest.raises(JqError, match=problem):
        query(text)


def test_a_long_number_is_a_number() -> None:
    assert query("9" * 5000)({}) == [float("inf")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (".a[", "'.a[': expected a path, a literal or a function, got the end"),
        (".a )", "'.a )': expected an operator or the end, got ')' at 4"),
        (".a ^ 2", "'.a ^ 2': unexpected '^' at 4"),
        ("..a", "'..a': expected one dot, got '.a' at 2"),
        ("", "'': expected a path, a literal or a function, got the end"),
        (".a | reduce(1)", "'.a | reduce(1)': reduce/1: expected one of add, all, any"),
        ("if 1 then 2", "'if 1 then 2': expected 'end', got the end"),
    ],
)
def test_errors_point_at_the_text(text: str, problem: str) -> None:
    with pytest.raises(JqError) as caught:
        query(text)
    assert str(caught.value).startswith(problem)


def test_a_pattern_takes_time_in_proportion_to_the_text() -> None:
    text = "a" * 5_000 + "b"
    assert query(f'"{text}" | test("^(a+)+$")')({}) == [False]
