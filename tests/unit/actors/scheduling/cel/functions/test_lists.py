"""Functions of lists and sets, with the examples of their documentation."""

from __future__ import annotations

import pytest

from tests.unit.actors.scheduling.cel.expressions import outcome


@pytest.mark.parametrize(
    "expression",
    [
        "['x', 'y'].join() == 'xy'",
        "['x', 'y'].join(' ') == 'x y'",
        "[].join() == ''",
        "[1, 2, 3].isSorted()",
        "![3, 1].isSorted()",
        "[].isSorted()",
        "[1, 3, 2].sum() == 6",
        "[1.0, 2.5].sum() == 3.5",
        "[1, 3, 2].min() == 1",
        "[1, 3, 2].max() == 3",
        "['a', 'b'].max() == 'b'",
        "[1, 2, 2].indexOf(2) == 1",
        "[1, 2, 2].lastIndexOf(2) == 2",
        "[1].indexOf(5) == -1",
        "[1,2,3,4].slice(1, 3) == [2, 3]",
        "[[1, 2], [3]].flatten() == [1, 2, 3]",
        "[3, 1, 2].sort() == [1, 2, 3]",
        "['b', 'a'].sort() == ['a', 'b']",
        "lists.range(3) == [0, 1, 2]",
        "[1, 2, 3].reverse() == [3, 2, 1]",
        "[1, 2, 2, 1].distinct() == [1, 2]",
        "[1, 2, 3].first().value() == 1",
        "[1, 2, 3].last().value() == 3",
        "![].first().hasValue()",
        "sets.contains([1, 2], [1])",
        "sets.equivalent([1, 2], [2, 1, 1])",
        "sets.intersects([1], [1, 2])",
        "!sets.intersects([1], [])",
        "[1.0, 2.0].max() == 2.0",
    ],
)
def test_is_true(expression: str) -> None:
    assert outcome(expression) is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[1].slice(0, 2) == []", "cannot slice(0, 2), list is length 1"),
        ("[1].slice(-1, 2) == []", "negative indexes not supported"),
        ("[1].slice(1, 0) == []", "start index must be less than or equal to end index"),
        ("[].max() == 1", "max called on empty list"),
        ("[dyn(1), dyn('a')].sort() == []", "list elements must have the same type"),
        ("[[1]].flatten(-1) == []", "level must be non-negative"),
    ],
)
def test_fails(expression: str, message: str) -> None:
    assert message in str(outcome(expression))
