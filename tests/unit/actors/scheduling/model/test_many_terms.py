"""Many terms, read as little as possible, weigh like the same terms read one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.labels import SelectorError
from berth.actors.scheduling.model.affinity_terms import TermWeights, terms_of, with_namespaces
from berth.actors.scheduling.model.many_terms import (
    MANY,
    NO_CARRIED_TERMS,
    CarriedTerms,
    ManyTerms,
    few_terms_of,
    many_terms_of,
)
from berth.actors.scheduling.model.pod_template import PodTemplate
from berth.actors.scheduling.model.term_lookup import MAX_WEIGHT
from tests.kit import structs
from tests.kit.documents import Document

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
VALUE = st.sampled_from(["a", "b"])
KEY = st.sampled_from(["app", "x"])
EXPRESSION = st.one_of(
    st.fixed_dictionaries(
        {
            "key": KEY,
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(VALUE, min_size=1, max_size=3),
        }
    ),
    st.fixed_dictionaries({"key": KEY, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
SELECTOR = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(KEY, VALUE, max_size=2),
        "matchExpressions": st.lists(EXPRESSION, max_size=2),
    },
)
NAMESPACE = st.sampled_from(["one", "two", "three"])
TERM = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "host"])},
    optional={
        "labelSelector": SELECTOR,
        "namespaceSelector": SELECTOR,
        "namespaces": st.lists(NAMESPACE, max_size=2),
    },
)
PREFERENCE = st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": TERM})
AFFINITY = st.fixed_dictionaries(
    {REQUIRED: st.lists(TERM, max_size=5), PREFERRED: st.lists(PREFERENCE, max_size=5)}
)
LABELS = st.dictionaries(KEY, st.sampled_from(["a", "b", "c", "d"]))


def pod(affinity: Document, namespace: str = "one", name: str = "p") -> Pod:
    return structs.pod(name, namespace=namespace, affinity=affinity)


def weights(terms: CarriedTerms) -> list[TermWeights | ManyTerms]:
    return [terms.required, terms.required_anti, terms.preferred]


@given(AFFINITY, AFFINITY, NAMESPACE, LABELS, LABELS, LABELS)
def test_they_weigh_the_same(
    near: Document,
    away: Document,
    namespace: str,
    before: dict[str, str],
    labels: dict[str, str],
    around: dict[str, str],
) -> None:
    carrier = pod({"podAffinity": near, "podAntiAffinity": away})
    few = weights(few_terms_of(terms_of(carrier)))
    for terms, expected in zip(weights(many_terms_of(carrier)), few, strict=True):
        assert len(terms) == len(expected)
        assert terms.topologies == expected.topologies
        terms.weigh(namespace, before, around)
        weighed = expected.weigh(namespace, labels, around)
        assert terms.weigh(namespace, labels, around) == weighed
        on_nodes = terms.weigh(namespace, labels, around, frozenset({"zone"}))
        assert on_nodes == {key: weighed[key] for key in weighed if key == "zone"}
        assert terms.weigh(namespace, labels, around) == weighed
        assert terms.number_that_may_match(namespace, labels) == expected.number_that_may_match(
            namespace, labels
        )


@given(AFFINITY, AFFINITY, NAMESPACE, LABELS, LABELS, st.dictionaries(NAMESPACE, LABELS))
def test_the_terms_of_a_pod_weigh_the_same_by_parts(
    near: Document,
    away: Document,
    namespace: str,
    before: dict[str, str],
    labels: dict[str, str],
    namespaces: dict[str, dict[str, str]],
) -> None:
    carrier = pod({"podAffinity": near, "podAntiAffinity": away})
    few = weights(few_terms_of(terms_of(carrier)))
    for terms, expected in zip(weights(many_terms_of(carrier)), few, strict=True):
        if not isinstance(terms, ManyTerms):
            continue
        assert isinstance(expected, TermWeights)
        resolved = with_namespaces([weighted.term for weighted in expected.terms], namespaces)
        many = terms.with_namespaces(namespaces)
        pairs = zip(resolved, expected.terms, strict=True)
        matching = [
            (term.topology_key, weighted.weight)
            for term, weighted in pairs
            if term.matches(namespace, labels, {})
        ]
        many.number_matching(namespace, before, {})
        assert many.number_matching(namespace, labels, {}) == len(matching)
        parts = {(w.term.topology_key, w.weight < 0) for w in expected.terms}
        assert set(many.parts) == parts
        for key, negative in many.parts:
            weight = sum(w for k, w in matching if k == key and (w < 0) == negative)
            assert many.weight_of_part((key, negative), namespace, labels, {}) == weight


def test_terms_with_other_namespaces_are_other_terms() -> None:
    terms = anti(away_from("a", namespaceSelector={"matchLabels": {"app": "a"}}))
    assert isinstance(terms, ManyTerms)
    assert terms.select_namespaces
    one, two = terms.with_namespaces({"one": {"app": "a"}}), terms.with_namespaces({"two": {}})
    assert one != two
    assert one == terms.with_namespaces({"one": {"app": "a"}, "two": {}})
    assert one.weigh("one", {"app": "a"}, {}) == {"host": 1}
    assert two.weigh("one", {"app": "a"}, {}) == {}


def away_from(*apps: str, **more: Any) -> Document:
    terms = [
        {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": app}}, **more}
        for app in apps
    ]
    return {"podAntiAffinity": {REQUIRED: terms}}


def anti(affinity: Document, namespace: str = "one") -> TermWeights | ManyTerms:
    return many_terms_of(pod(affinity, namespace)).required_anti


def test_equal_terms_of_different_pods_count_as_one() -> None:
    assert anti(away_from("a", "b")) == anti(away_from("a", "b"))
    assert hash(anti(away_from("a", "b"))) == hash(anti(away_from("a", "b")))
    assert anti(away_from("a", "b")) != anti(away_from("a", "c"))
    assert anti(away_from("a")) != anti(away_from("a"), "two")
    everywhere = away_from("a", namespaces=["one"])
    assert anti(everywhere) == anti(everywhere, "two")


def test_a_selector_that_cannot_be_read() -> None:
    bad = away_from("a")
    expression = {"key": "app", "operator": "Like", "values": ["a"]}
    bad["podAntiAffinity"][REQUIRED].append(
        {"topologyKey": "host", "labelSelector": {"matchExpressions": [expression]}}
    )
    with pytest.raises(SelectorError, match="operator: expected one of"):
        many_terms_of(pod(bad))


@pytest.mark.parametrize("number", [MANY, MANY + 1])
def test_only_many_terms_are_read_in_this_way(number: int) -> None:
    template = PodTemplate(pod(away_from(*(f"a{i}" for i in range(number)))))
    terms = template.carried_terms
    assert isinstance(terms.required_anti, ManyTerms if number > MANY else TermWeights)
    assert terms.required_anti.weigh("one", {"app": "a1"}, {}) == {"host": 1}
    assert not terms.required
    assert not terms.preferred


def test_a_pod_without_terms() -> None:
    assert PodTemplate(pod({})).carried_terms is NO_CARRIED_TERMS


def test_the_sum_of_large_weights_is_bounded() -> None:
    preferred = [
        {
            "weight": MAX_WEIGHT,
            "podAffinityTerm": {"topologyKey": "host", "labelSelector": {}},
        }
    ] * 3
    terms = many_terms_of(pod({"podAffinity": {PREFERRED: preferred}})).preferred
    assert terms.weigh("one", {}, {}) == {"host": MAX_WEIGHT}
