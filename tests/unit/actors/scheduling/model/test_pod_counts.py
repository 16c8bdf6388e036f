"""Counts are those of a recount, and what is kept for templates takes bounded memory."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_counts import PodCounts
from berth.actors.scheduling.model.pod_info import PodInfo

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
