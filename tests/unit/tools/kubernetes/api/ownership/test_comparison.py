"""Differences of objects and merges, against the paths and values of all their parts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from berth.tools.kubernetes.api.ownership.comparison import differences, named_fields
from berth.tools.kubernetes.api.ownership.field_sets import common, paths, united, without
from berth.tools.kubernetes.api.ownership.merge_types import STRING, MergeType
from berth.tools.kubernetes.api.ownership.merging import merged, stripped, with_named_fields
from tests.kit.examples import examples

Parts = dict[tuple[str, ...], Any]
ITEM = MergeType(fields=lambda: ({"k": STRING, "x": STRING, "y": STRING}, {}))
THING = MergeType(
    fields=lambda: (
        {
            "one": STRING,
            "map": MergeType(values=STRING),
            "list": MergeType(item=ITEM, keys=("k",)),
            "set": MergeType(item=STRING, keys=()),
            "whole": MergeType(item=STRING),
            "below": MergeType(fields=lambda: ({"one": STRING, "two": STRING}, {})),
        },
        {},
    )
)
WORDS = st.sampled_from("pqr")
ITEMS = st.lists(
    st.fixed_dictionaries({"k": WORDS}, optional={"x": WORDS, "y": WORDS}),
    max_size=3,
    unique_by=lambda item: item["k"],
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "one": WORDS,
        "map": st.dictionaries(WORDS, WORDS, max_size=3),
        "list": ITEMS,
        "set": st.lists(WORDS, max_size=3, unique=True),
        "whole": st.lists(WORDS, max_size=2),
        "below": st.fixed_dictionaries({}, optional={"one": WORDS, "two": WORDS}),
    },
)


def parts(value: Any, path: tuple[str, ...] = ()) -> Parts:
    """Returns all parts of a value by their paths; what has parts itself has no value there."""
    found: Parts = {}
    if isinstance(value, dict):
        below = {f"f:{key}": each for key, each in value.items()}
    elif path == ("f:list",):
        below = {f'k:{{"k":"{each["k"]}"}}': each for each in value}
    elif path == ("f:set",):
        below = {f'v:"{each}"': each for each in value}
    else:
        return {path: value}
    for step, each in below.items():
        found |= parts(each, (*path, step))
    return found | ({path: None} if path else {})


@examples(share=6)
@given(VALUES, VALUES)
def test_the_differences_are_those_of_all_parts(old: Any, new: Any) -> None:
    removed, changed = differences(THING, old, new)
    before, after = parts(old), parts(new)
    assert set(paths(removed)) == before.keys() - after.keys()
    assert set(paths(changed)) == {
        path for path, value in after.items() if path not in before or before[path] != value
    }


@examples(share=6)
@given(VALUES, VALUES)
def test_a_merge_keeps_what_the_applied_document_does_not_name(live: Any, applied: Any) -> None:
    result = merged(THING, live, applied)
    assert parts(result) == parts(live) | parts(applied)
    assert merged(THING, result, applied) == result
    removed, changed = differences(THING, live, result)
    assert removed == {}
    owned = with_named_fields(THING, named_fields(THING, applied))
    assert common(changed, owned) == changed or set(paths(without(changed, owned))) <= {
        ("f:map",),
        ("f:list",),
        ("f:set",),
        ("f:below",),
    }


@examples(share=6)
@given(VALUES, VALUES)
def test_what_is_stripped_is_gone_and_all_else_stays(value: Any, other: Any) -> None:
    fields = common(named_fields(THING, value), named_fields(THING, other))
    left = parts(stripped(THING, value, fields))
    gone = set(paths(fields))
    expected = {
        path for path in parts(value) if not any(path[: len(each)] == each for each in gone)
    }
    assert left.keys() == expected
    assert united(fields, {}) == fields


def test_a_merged_list_has_the_order_of_the_applied_one() -> None:
    live = [{"k": name} for name in "abcd"]
    applied = [{"k": name} for name in "dxb"]
    result = merged(THING, {"list": live}, {"list": applied})["list"]
    assert [item["k"] for item in result] == ["a", "c", "d", "x", "b"]
    assert merged(THING, {"set": ["a", "b"]}, {"set": ["c"]}) == {"set": ["a", "b", "c"]}
