"""A look-up in the index finds the same entries as trying every entry."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.core import Taint, Toleration
from berth.actors.scheduling.kube.labels import EVERYTHING, NOTHING, Requirement, Selector
from berth.actors.scheduling.kube.selector_index import SelectorIndex
from berth.actors.scheduling.kube.taints import Tolerations, lets_in, tolerates_any

KEY, VALUE = st.sampled_from("abc"), st.sampled_from(["", "1", "2"])
VALUES = st.lists(VALUE, min_size=1, max_size=3, unique=True).map(
    lambda values: tuple(sorted(values))
)
REQUIREMENT = st.builds(Requirement, KEY, st.sampled_from(["In", "NotIn"]), VALUES) | st.builds(
    Requirement, KEY, st.sampled_from(["Exists", "DoesNotExist"])
)
SELECTOR = st.lists(REQUIREMENT, max_size=3).map(
    lambda requirements: Selector(tuple(requirements))
) | st.sampled_from([EVERYTHING, NOTHING])


@given(st.lists(SELECTOR, max_size=12), st.dictionaries(KEY, VALUE))
def test_selectors(selectors: list[Selector], labels: dict[str, str]) -> None:
    expected = [number for number, selector in enumerate(selectors) if selector.matches(labels)]
    assert sorted(SelectorIndex(selectors).selecting(labels)) == expected


EFFECT = st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"])
TOLERATION = st.builds(
    lambda key, operator, value, effect: Toleration(
        key=key, operator=operator, value=value, effect=effect
    ),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "Equal", "Exists", "Gt"]),
    VALUE,
    EFFECT,
)
TAINT = st.builds(
    lambda key, value, effect: Taint(key=key, value=value, effect=effect),
    st.sampled_from(["a", "b"]),
    VALUE,
    EFFECT,
)


@given(st.lists(TOLERATION, max_size=4), st.lists(TAINT, max_size=3))
def test_tolerations(tolerations: list[Toleration], taints: list[Taint]) -> None:
    index = Tolerations(tolerations)
    assert [index.tolerate(taint) for taint in taints] == [
        tolerates_any(tolerations, taint) for taint in taints
    ]
    assert index.let_in(taints) == lets_in(tolerations, taints)
