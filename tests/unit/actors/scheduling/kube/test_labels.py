"""Many requirements match as each by itself does, and in about the same time as a few."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.labels import Requirement, Selector, label_selector_matches
from berth.actors.scheduling.kube.meta import LabelSelector
from tests.kit.call_counts import calls_of

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["1", "2", "3"])
SOME = st.lists(VALUES, min_size=1, max_size=3, unique=True).map(sorted).map(tuple)
REQUIREMENT = st.builds(Requirement, KEYS, st.sampled_from(["In", "NotIn"]), SOME) | st.builds(
    Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])
)
UNUSED = tuple(f"unused-{number}" for number in range(50))
LONG = st.sampled_from(
    [(), (Requirement("a", "NotIn", UNUSED),), (Requirement("d", "In", UNUSED),)]
)


@given(st.lists(REQUIREMENT, max_size=5), LONG, st.dictionaries(KEYS, VALUES))
def test_matches(few: list[Requirement], more: list[Requirement], labels: dict[str, str]) -> None:
    for around in (labels, {**labels, "d": "unused-7"}):
        expected = all(requirement.holds(around) for requirement in (*few, *more))
        assert Selector((*few, *more)).matches(around) == expected


def test_many_requirements_are_not_tried_one_by_one() -> None:
    selector = Selector(
        tuple(Requirement(f"key-{number}", "DoesNotExist") for number in range(1000))
    )
    assert selector.matches({"app": "a"})
    assert calls_of(lambda: selector.matches({"app": "b"})) < 50


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        (
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            False,
        ),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["2", "3"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, False),
    ],
)
def test_a_selector_of_an_object(selector: object, selects: bool) -> None:
    read = msgspec.convert(selector, LabelSelector | None)
    assert label_selector_matches(read, {"a": "1"}) is selects
