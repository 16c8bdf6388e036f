"""Counts are those of a recount, and what is kept for templates takes bounded memory."""

from __future__ import annotations

import tracemalloc
from random import Random

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.labels import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    from_map,
)
from berth.actors.scheduling.model import pod_counts
from berth.actors.scheduling.model.affinity_terms import AffinityTerm, TermWeights, WeightedTerm
from berth.actors.scheduling.model.many_terms import ManyTerms
from berth.actors.scheduling.model.pod_counts import (
    MAX_MANY,
    CountedPods,
    PodCounts,
    WeighedByPart,
    WeighedPods,
    pods_selected,
)
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit.call_counts import calls_of

TERMS, TEMPLATES = 2_000, 250


def _pod(name: str, labels: dict[str, str], **spec: object) -> PodInfo:
    metadata = {"namespace": "ns", "name": name, "uid": name, "labels": labels}
    return PodInfo(msgspec.convert({"metadata": metadata, "spec": spec}, Pod))


def test_many_terms_that_match_many_templates() -> None:
    terms = [{"topologyKey": f"topology-{number}", "labelSelector": {}} for number in range(TERMS)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    counts, keys = PodCounts(1), {f"topology-{number}" for number in range(TERMS)}
    counts.refresh(0, [(_pod("carrier", {}, affinity={"podAntiAffinity": required}), 1)])
    others = [_pod(f"p{number}", {"app": f"a{number}"}) for number in range(TEMPLATES)]
    assert len(counts.required_anti.matching(others[0], {}, keys)) == TERMS
    tracemalloc.start()
    try:
        for info in others:
            counts.required_anti.matching(info, {}, keys)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 15 << 20


def test_many_sums_by_topology_for_many_labels() -> None:
    terms = [
        {
            "topologyKey": f"topology-{number}",
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        }
        for number in range(TERMS)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    carrier = _pod("carrier", {}, affinity={"podAntiAffinity": required})
    weights = carrier.template.carried_terms.required_anti
    weights.weigh("ns", {"app": "first"}, {})
    tracemalloc.start()
    try:
        for number in range(TEMPLATES):
            assert len(weights.weigh("ns", {"app": f"a{number}"}, {})) == TERMS
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 2 << 20


def test_a_what_if_question_may_bring_back_a_newer_version_of_a_pod() -> None:
    before = _holder("c")
    after = PodInfo(before.pod, before.template)
    counts = PodCounts(1)
    counts.refresh(0, [(before, 1)])
    for sign in (-1, 1):
        counts.suppose(0, [(after, after.template.values, sign)])
    assert counts.attaching[0]["ns/p"] is after
    counts.validate()
    counts.attaching[0]["ns/p"] = _holder("other")
    with pytest.raises(AssertionError):
        counts.validate()


def _holder(claim: str) -> PodInfo:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    return _pod("p", {}, volumes=[volume])


def test_columns_that_no_rule_uses_any_more_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_counts, "KEPT_USES", 10)
    counts = PodCounts(1)
    used, unused = (pods_selected("ns", from_map({"app": app})) for app in "ab")
    kept, dropped = counts.column(used), counts.column(unused)
    counts.refresh(0, [(_pod("p", {"app": "a"}), 1), (_pod("q", {"app": "b"}), 1)])
    for _ in range(20):
        assert counts.column(used) is kept
    assert kept.total == 1
    assert counts.column(unused) is not dropped
    counts.refresh(0, [(_pod("q", {"app": "b"}), -1)])
    assert counts.column(unused).total == 0
    counts.validate()


def test_the_columns_of_few_pods_with_many_terms_are_kept() -> None:
    counts = PodCounts(1)
    counts.refresh(0, [(_pod("p", {"own": "0", "pod": "0"}), 1)])
    columns = []
    for number in range(MAX_MANY + 1):
        terms = [
            {"topologyKey": "host", "labelSelector": {"matchLabels": {"pod": f"{term * number}"}}}
            for term in range(1_000)
        ]
        away = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        carried = _pod("c", {}, affinity={"podAntiAffinity": away}).template.carried_terms
        assert isinstance(carried.required_anti, ManyTerms)
        (part,) = carried.required_anti.parts
        counted = WeighedByPart(carried.required_anti, part)
        columns.append((counted, counts.column(counted)))
        assert columns[-1][1].total == (1_000 if not number else 1)
    counts.validate()
    assert counts.column(columns[1][0]) is columns[1][1]
    assert counts.column(columns[0][0]) is not columns[0][1]


REQUIREMENTS = [
    Requirement("a", "In", ("x",)),
    Requirement("a", "In", ("x", "y")),
    Requirement("b", "Exists"),
    Requirement("a", "NotIn", ("y",)),
    Requirement("b", "DoesNotExist"),
    Requirement("c", "In", tuple(f"v{number}" for number in range(100))),
]


def random_term(rng: Random) -> AffinityTerm:
    selector = Selector(
        tuple(rng.sample(REQUIREMENTS, rng.randrange(4))), nothing=not rng.randrange(9)
    )
    namespaces = frozenset(rng.sample(["ns", "other", "third"], rng.randrange(3)))
    within = rng.choice([NOTHING, NOTHING, NOTHING, EVERYTHING])
    return AffinityTerm(selector, namespaces, within, rng.choice(["host", "zone"]))


def test_a_group_that_comes_later_is_in_the_columns_that_count_it() -> None:
    rng = Random(1)
    for _ in range(20):
        counts = PodCounts(1)
        for _ in range(30):
            terms = tuple(random_term(rng) for _ in range(rng.randrange(3)))
            counts.column(CountedPods(terms, terminating=rng.random() < 0.5))
            weighted = tuple(WeightedTerm(term, rng.randrange(1, 9)) for term in terms)
            counts.column(WeighedPods(TermWeights(weighted)))
        for number in range(30):
            keys = rng.sample("abcd", rng.randrange(4))
            labels = {key: rng.choice(["x", "y", "v1"]) for key in keys}
            counts.refresh(0, [(_pod(f"p{number}", labels), 1)])
        counts.validate()


def test_new_labels_are_not_matched_with_the_columns_of_other_labels() -> None:
    def calls(columns: int) -> int:
        counts = PodCounts(1)
        for number in range(columns):
            counts.column(pods_selected("ns", from_map({"app": f"a{number}"})))
        info = _pod("p", {"app": "b", "version": "1"})
        return calls_of(lambda: counts.refresh(0, [(info, 1)]))

    assert calls(1_000) < calls(1) + 5
