"""Expressions have the values that cel-cpp, Google's implementation of CEL, gives them."""

from __future__ import annotations

from typing import Any

import cel_expr_python.cel as oracle
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from berth.actors.scheduling.cel import CelError, Expression
from berth.actors.scheduling.cel.types import parse_type
from tests.kit.examples import examples

pytestmark = pytest.mark.full("asks another program")

FAILED = "failed"
VARIABLES = {"i": 7, "s": "b/c", "l": [1, 2, 3], "m": {"a": 1}}
OURS = {"i": "int", "s": "string", "l": "list(int)", "m": "map(string, int)"}
TYPES = {name: parse_type(text) for name, text in OURS.items()}
ENVIRONMENT = oracle.NewEnv(
    variables={
        "i": oracle.Type.INT,
        "s": oracle.Type.STRING,
        "l": oracle.Type.List(oracle.Type.INT),
        "m": oracle.Type.Map(oracle.Type.STRING, oracle.Type.INT),
    }
)

ints: st.SearchStrategy[str] = st.deferred(
    lambda: (
        st.sampled_from(["0", "1", "-3", "9223372036854775807", "i", "m.a", "m['b']"])
        | st.builds("({} {} {})".format, ints, st.sampled_from("+-*/%"), ints)
        | st.builds("size({})".format, strings | lists)
        | st.builds("({} ? {} : {})".format, bools, ints, ints)
        | st.builds("int({})".format, st.sampled_from(["'12'", "'x'", "1.9", "-1.9", "1e40"]))
        | st.builds("{}[{}]".format, lists, ints)
    )
)
strings: st.SearchStrategy[str] = st.deferred(
    lambda: (
        st.sampled_from(["''", "'a'", "'b/c'", "'\U0001f600'", "s", r"'\u00e9\n'"])
        | st.builds("({} + {})".format, strings, strings)
        | st.builds("string({})".format, ints | bools)
    )
)
lists: st.SearchStrategy[str] = st.deferred(
    lambda: (
        st.sampled_from(["l", "[1, i]"])
        | st.builds("({} + {})".format, lists, lists)
        | st.builds("{}.map(x, x {} 2)".format, lists, st.sampled_from("+-*/%"))
        | st.builds("{}.filter(x, x > {})".format, lists, ints)
    )
)
bools: st.SearchStrategy[str] = st.deferred(
    lambda: (
        st.sampled_from(["true", "false", "has(m.a)", "has(m.b)", "'a' in m"])
        | st.builds("({} {} {})".format, ints, st.sampled_from(["<", "<=", "==", "!=", ">"]), ints)
        | st.builds("({} {} {})".format, strings, st.sampled_from(["<", "==", ">="]), strings)
        | st.builds("({} {} {})".format, bools, st.sampled_from(["&&", "||"]), bools)
        | st.builds("!{}".format, bools)
        | st.builds("({} in {})".format, ints, lists)
        | st.builds(
            "{}.{}({})".format,
            strings,
            st.sampled_from(["contains", "startsWith", "endsWith"]),
            strings,
        )
        | st.builds("{}.matches({})".format, strings, st.sampled_from(["'^b'", "'[a-c]/'", "'('"]))
        | st.builds(
            "{}.{}(x, x > {})".format, lists, st.sampled_from(["all", "exists", "exists_one"]), ints
        )
    )
)


def by_berth(text: str) -> Any:
    expression = Expression(text, TYPES)
    try:
        return expression.value(VARIABLES)
    except CelError:
        return FAILED


def by_oracle(text: str) -> Any:
    try:
        value = ENVIRONMENT.compile(text).eval(data=VARIABLES)
        plain = value.plain_value()
    except Exception:  # noqa: BLE001 - it raises what it likes
        return FAILED
    return FAILED if value.type() == oracle.Type.ERROR else plain


@examples()
@given(ints | strings | lists | bools)
def test_an_expression_has_the_value_of_another_implementation(text: str) -> None:
    ours = by_berth(text)
    event(str(ours == FAILED))
    assert ours == by_oracle(text)
