"""Compilation, which selectors and expressions share: what it costs, and what ends it."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.cel import Expression
from berth.actors.scheduling.cel.declarations import MOST_WORK
from berth.actors.scheduling.cel.types import BOOL


def test_the_work_and_the_size_grow_with_the_expression() -> None:
    short, long = Expression("true", {}), Expression("true" + " || true" * 50, {})
    assert not short.error
    assert not long.error
    assert short.work < long.work
    assert short.size < long.size


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("1 +", "compilation failed: ERROR: <input>:1:4: Syntax error"),
        ("true || '(' .matches('(')", "compilation failed: ERROR"),
        ("[" * 500 + "]" * 500, "compilation failed: "),
    ],
)
def test_what_cannot_be_compiled_has_an_error_and_no_tree(expression: str, problem: str) -> None:
    compiled = Expression(expression, {}, (BOOL,))
    assert compiled.error.startswith(problem)
    assert compiled.root is None


def test_patterns_that_are_too_complex_cost_all_the_work() -> None:
    compiled = Expression(" || ".join(f"'a'.matches('{i}\\\\pL{{300}}')" for i in range(40)), {})
    assert compiled.error == "compilation failed: its patterns are too complex"
    assert compiled.work > MOST_WORK
