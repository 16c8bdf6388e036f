"""The algebra of sets of fields, against sets of paths."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.tools.kubernetes.api.ownership.field_sets import (
    FieldSetError,
    common,
    contains,
    has,
    ordered,
    path_text,
    paths,
    read,
    united,
    without,
    without_all,
)
from tests.kit.examples import examples

Paths = frozenset[tuple[str, ...]]
STEPS = ("f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "v:1")
PATHS = st.frozensets(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=3).map(tuple), max_size=8
)


def set_of(members: Paths) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path in members:
        node = root
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return closed(root)


def closed(node: dict[str, Any]) -> dict[str, Any]:
    if node.keys() == {"."}:
        return {}
    return {step: closed(below) for step, below in node.items()}


@examples(share=4)
@given(PATHS, PATHS)
def test_sets_are_united_cut_and_taken_away_as_sets_of_paths(left: Paths, right: Paths) -> None:
    one, two = set_of(left), set_of(right)
    assert frozenset(paths(united(one, two))) == left | right
    assert frozenset(paths(common(one, two))) == left & right
    assert frozenset(paths(without(one, two))) == left - right
    below = {path for path in left if any(path[: len(p)] == p for p in right)}
    assert frozenset(paths(without_all(one, two))) == left - below
    assert united(one, one) == one == united(one, {})
    assert all(contains(one, path) for path in left)
    assert not any(contains(one, path) for path in right - left)
    assert (one, two) == (set_of(left), set_of(right)), "a set was changed"
    assert read(ordered(one)) == one


def test_steps_are_sorted_as_kubernetes_sorts_them() -> None:
    steps = ['v:"a"', "v:2", "v:10", 'k:{"b":1}', 'k:{"a":"z"}', 'k:{"a":2}', "f:b", "f:B", "f:a"]
    expected = ["f:B", "f:a", "f:b", 'k:{"a":2}', 'k:{"a":"z"}', 'k:{"b":1}', "v:2", "v:10"]
    assert [*ordered({step: {} for step in steps})] == [*expected, 'v:"a"']
    assert [*ordered({"f:a": {}, ".": {}})] == [".", "f:a"]


def test_a_path_is_shown_with_its_keys_and_values() -> None:
    step = 'k:{"port":80,"protocol":"TCP"}'
    assert path_text(("f:spec", "f:ports", step)) == '.spec.ports[port=80,protocol="TCP"]'
    assert path_text(("f:x", 'v:"a"', "i:3")) == '.x[="a"][3]'


def test_a_set_of_a_client_is_read_in_the_form_of_the_server() -> None:
    sent: dict[str, Any] = {"f:a": {".": {}}, 'k:{ "b": 1, "a": "<" }': {}, "z:unknown": {}}
    assert read(sent) == {"f:a": {}, 'k:{"a":"\\u003c","b":1}': {}}
    assert has(read(sent)["f:a"])


@pytest.mark.parametrize("sent", [5, {"f": {}}, {"ab": {}}, {"k:{": {}}, {"k:5": {}}, {"f:a": 1}])
def test_a_set_that_cannot_be_read_is_refused(sent: Any) -> None:
    with pytest.raises(FieldSetError):
        read(sent)
