"""Queries of stages find what jq finds."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tools.kubernetes.kubelet.stages.jq import query
from tests.kit.examples import examples
from tests.kit.programs import needs

pytestmark = [pytest.mark.full("asks another program"), needs("jq")]

ATOMS = ("null", "true", "false", "0", "1", "7", '"a"', '"b,a"', '""', "[]", '["a", 1]')
PATHS = (".", ".a", ".b", ".a.b", ".[]", ".a[]", ".b[0]", '.["b"]', ".[0]")
GUARDED = (".a?", ".a[]?", ".a.b?", ".a?.b?", ".[]?", ".[]?.a", ".b[0]?", ".[0]?", ".a? // 1")
PLAIN = (
    *("any", "all", "empty", "not", "length", "keys", "min", "max"),
    *("tonumber", "tostring", "type", "ascii_downcase"),
)
WITH_QUERY = ("select", "map", "any", "all")
WITH_TEXT = ("has", "startswith", "endswith", "split", "test")
OPERATORS = ("|", ",", "and", "or", "==", "!=", "<", "<=", ">", ">=", "+", "-")


def texts() -> st.SearchStrategy[str]:
    """Draws queries, each part in brackets, so that both programs read them alike.

    A guard is only drawn as the whole query: in jq 1.6 it also guards what uses its results.
    """

    def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.builds("({} {} {})".format, parts, st.sampled_from(OPERATORS), parts),
            st.builds("{}({})".format, st.sampled_from(WITH_QUERY), parts),
            st.builds("({} // {})".format, st.sampled_from(ATOMS), parts),
            st.builds("first({})".format, st.sampled_from(PATHS)),
            st.builds("[{}]".format, parts),
            # jq 1.6 also joins objects and adds up null
            st.builds("([{}] | {})".format, parts, st.sampled_from(('join("a")', "add"))),
            st.builds("(if {} then {} else {} end)".format, parts, parts, parts),
        )

    leaves = st.sampled_from((*ATOMS, *PATHS, *PLAIN))
    with_text = st.builds('{}("{}")'.format, st.sampled_from(WITH_TEXT), st.sampled_from("ab,"))
    drawn = st.recursive(st.one_of(leaves, with_text), larger, max_leaves=6)
    return st.one_of(drawn, drawn, st.sampled_from(GUARDED))


def values() -> st.SearchStrategy[Any]:
    plain = st.one_of(
        st.none(), st.booleans(), st.integers(0, 9), st.sampled_from(("", "a", "b,a", "B", "12"))
    )

    def larger(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        named = st.dictionaries(st.sampled_from("abc"), parts, max_size=3)
        return st.one_of(st.lists(parts, max_size=3), named)

    return st.recursive(plain, larger, max_leaves=8)


def found_by_jq(text: str, value: Any) -> list[Any] | None:
    """Returns the results but nulls; None if the query fails."""
    ran = subprocess.run(
        ["jq", "-c", text], input=json.dumps(value), capture_output=True, text=True, check=False
    )
    assert ran.returncode in (0, 5), (text, ran.stderr)
    if ran.returncode:
        return None
    return [each for line in ran.stdout.splitlines() if (each := json.loads(line)) is not None]


@examples()
@given(texts(), values())
def test_queries_find_what_jq_finds(text: str, value: Any) -> None:
    assert query(text)(value) == found_by_jq(text, value)
