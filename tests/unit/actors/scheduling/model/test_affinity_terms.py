"""A pod's weight by many terms is the sum of the weights of the matching terms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.labels import EVERYTHING, NOTHING, Requirement, Selector
from berth.actors.scheduling.model.affinity_terms import (
    AffinityTerm,
    TermWeights,
    WeightedTerm,
    with_namespaces,
)
from berth.actors.scheduling.model.term_lookup import MAX_WEIGHT
from tests.kit.call_counts import calls_of

APP = st.sampled_from(["a", "b"])
SELECTOR = (
    st.builds(lambda app: Selector((Requirement("app", "In", (app,)),)), APP)
    | st.builds(
        lambda app: Selector(
            (Requirement("app", "NotIn", (app,)), Requirement("x", "DoesNotExist"))
        ),
        APP,
    )
    | st.sampled_from([EVERYTHING, NOTHING])
)
NAMESPACE = st.sampled_from(["one", "two"])
TERM = st.builds(
    AffinityTerm,
    SELECTOR,
    st.frozensets(NAMESPACE, max_size=1),
    SELECTOR,
    st.sampled_from(["zone", "host"]),
)
WEIGHED = st.builds(WeightedTerm, TERM, st.sampled_from([1, 5, -5, 100, 1 << 40, -(1 << 62)]))
LABELS = st.dictionaries(st.sampled_from(["app", "x"]), st.sampled_from(["a", "b", "c", "d"]))


@given(st.lists(WEIGHED, min_size=1, max_size=9), NAMESPACE, LABELS, LABELS, LABELS)
def test_weights(
    weighed: list[WeightedTerm],
    namespace: str,
    before: dict[str, str],
    labels: dict[str, str],
    around: dict[str, str],
) -> None:
    sums: dict[str, int] = {}
    for entry in weighed:
        if entry.term.matches(namespace, labels, around):
            weight = max(-MAX_WEIGHT, min(entry.weight, MAX_WEIGHT))
            sums[entry.term.topology_key] = sums.get(entry.term.topology_key, 0) + weight
    expected = {key: max(-MAX_WEIGHT, min(weight, MAX_WEIGHT)) for key, weight in sums.items()}
    weights = TermWeights(tuple(weighed))
    weights.weigh(namespace, before, around)
    assert weights.weigh(namespace, labels, around) == expected
    might = sum(
        (not w.term.namespace_selector.nothing or namespace in w.term.namespaces)
        and w.term.selector.matches(labels)
        for w in weighed
    )
    assert weights.number_that_may_match(namespace, labels) == might


@given(st.lists(TERM, max_size=6), st.dictionaries(NAMESPACE, LABELS))
def test_namespaces_replace_their_selector(
    terms: list[AffinityTerm], namespaces: dict[str, dict[str, str]]
) -> None:
    for term, resolved in zip(terms, with_namespaces(terms, namespaces), strict=True):
        selected = {
            name for name, labels in namespaces.items() if term.namespace_selector.matches(labels)
        }
        if term.namespace_selector == EVERYTHING:
            assert resolved == term
            continue
        assert resolved.namespaces == term.namespaces | selected
        assert (resolved.selector, resolved.namespace_selector) == (term.selector, NOTHING)


def test_terms_with_topologies_of_their_own_are_looked_up_together() -> None:
    others = Selector((Requirement("app", "In", ("b",)),))
    terms = [
        AffinityTerm(others, frozenset({"one"}), NOTHING, f"topology-{number}")
        for number in range(1000)
    ]
    weights = TermWeights(tuple(WeightedTerm(term, 1) for term in terms))
    assert len(weights.weigh("one", {"app": "b"}, {})) == 1000
    assert calls_of(lambda: weights.weigh("one", {"app": "c"}, {})) < 50


def test_namespaces_of_many_terms_are_matched_once_for_a_namespace() -> None:
    terms = [
        AffinityTerm(
            Selector((Requirement(f"key-{number}", "DoesNotExist"),)),
            frozenset(),
            Selector((Requirement(f"team-{number}", "DoesNotExist"),)),
            "zone",
        )
        for number in range(1000)
    ]
    weights = TermWeights(tuple(WeightedTerm(term, 1) for term in terms))
    around = {"team": "a"}
    assert weights.weigh("one", {"app": "a"}, around) == {"zone": 1000}
    assert calls_of(lambda: weights.weigh("one", {"app": "b"}, around)) < 50


def test_pods_that_no_term_distinguishes_are_matched_once() -> None:
    terms = [
        AffinityTerm(
            Selector((Requirement("app", "NotIn", (f"value-{number}",)),)),
            frozenset({"one"}),
            NOTHING,
            "zone",
        )
        for number in range(1000)
    ]
    weights = TermWeights(tuple(WeightedTerm(term, 1) for term in terms))
    assert weights.weigh("one", {"app": "a"}, {}) == {"zone": 1000}
    assert weights.weigh("one", {"app": "value-7"}, {}) == {"zone": 999}
    assert calls_of(lambda: weights.weigh("one", {"app": "b"}, {})) < 50
