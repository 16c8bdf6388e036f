"""In-tree plugins that are enabled at only one of their extension points behave as in
kube-scheduler.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.tools.answers.explain.decision import Decision, Failure, decide
from tests.kit import documents
from tests.kit.profiles import profile_of
from tests.kit.snapshots import snapshot_of

TAINT = {"key": "k", "effect": "PreferNoSchedule"}
NODES = [documents.node(name, pods="10", labels={"zone": name}, taints=[TAINT]) for name in "ab"]
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {},
    }
]


def profile(**plugins: Any) -> Profile:
    """Returns a profile. `points` maps extension points to the only plugins enabled there, or to a
    whole plugin set.
    """
    points = {
        point: plugin
        if isinstance(plugin, dict)
        else {"disabled": [{"name": "*"}], "enabled": [{"name": plugin}]}
        for point, plugin in plugins.items()
    }
    return profile_of(points=points)


def decided(used: Profile, **spec: Any) -> Decision | Failure:
    metadata = {"namespace": "default", "name": "p", "labels": {"app": "web"}}
    pod = msgspec.convert({"metadata": metadata, "spec": {"containers": [{}], **spec}}, Pod)
    return decide(used, PodInfo(pod), snapshot_of(NODES))


def off(plugin: str) -> dict[str, Any]:
    return {"disabled": [{"name": plugin}]}


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        ("NodePorts", 'reading "PreFilterNodePorts" from cycleState: not found'),
        (
            "NodeResourcesFit",
            'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
        ),
        ("VolumeRestrictions", 'cannot read "PreFilterVolumeRestrictions" from cycleState'),
        ("VolumeBinding", "not found"),
        ("PodTopologySpread", 'reading "PreFilterPodTopologySpread" from cycleState: not found'),
        (
            "InterPodAffinity",
            'error reading "PreFilterInterPodAffinity" from cycleState: not found',
        ),
        ("DynamicResources", "not found"),
        (
            "NodeDeclaredFeatures",
            'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
        ),
    ],
)
def test_a_filter_without_its_pre_filter_fails_the_attempt(plugin: str, problem: str) -> None:
    failure = decided(profile(preFilter=off(plugin)))
    assert failure == Failure(f'running "{plugin}" filter plugin: {problem}')


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        ("TaintToleration", 'failed to read "PreScoreTaintToleration" from cycleState: not found'),
        (
            "PodTopologySpread",
            'error reading "PreScorePodTopologySpread" from cycleState: not found',
        ),
        (
            "InterPodAffinity",
            'failed to read "PreScoreInterPodAffinity" from cycleState: not found',
        ),
    ],
)
def test_a_score_without_its_pre_score_fails_the_attempt(plugin: str, problem: str) -> None:
    failure = decided(profile(preScore=off(plugin)))
    assert failure == Failure(f'running Score plugins: plugin "{plugin}" failed with: {problem}')


def test_claims_cannot_be_scored_without_their_pre_filter() -> None:
    failure = decided(profile(preFilter=off("DynamicResources"), filter=off("DynamicResources")))
    assert failure == Failure(
        'running Score plugins: plugin "DynamicResources" failed with: not found'
    )


def test_node_affinity_needs_neither_pre_filter_nor_pre_score() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    wants = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
    }
    alone = profile(preFilter=off("NodeAffinity"), preScore=off("NodeAffinity"))
    required = {"nodeAffinity": {name: wants[name] for name in list(wants)[:1]}}
    preferred = {"nodeAffinity": {name: wants[name] for name in list(wants)[1:]}}
    outcome = decided(alone, affinity=required)
    assert isinstance(outcome, Decision)
    assert outcome.best == ["b"]
    outcome = decided(alone, affinity=preferred)
    assert isinstance(outcome, Decision)
    assert outcome.score["NodeAffinity"] == {"a": 0, "b": 200}


def test_node_affinity_that_cannot_be_parsed_fails_without_pre_score_too() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["b"]}]}
    wants = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
    }
    failure = decided(profile(preScore=off("NodeAffinity")), affinity={"nodeAffinity": wants})
    assert failure == Failure(
        'running Score plugins: plugin "NodeAffinity" failed with: '
        '[0].matchExpressions[0].values[0]: Invalid value: "b": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
    )


def test_balance_without_its_pre_score_scores_0_for_a_pod_without_requests() -> None:
    balance = profile(
        preScore=off("NodeResourcesBalancedAllocation"), score="NodeResourcesBalancedAllocation"
    )
    outcome = decided(balance)
    assert isinstance(outcome, Decision)
    assert outcome.score == {"NodeResourcesBalancedAllocation": {"a": 0, "b": 0}}
    asking = decided(balance, containers=[{"resources": {"requests": {"cpu": "1"}}}])
    assert isinstance(asking, Decision)
    assert asking.score["NodeResourcesBalancedAllocation"]["a"] > 0


def test_the_total_is_1_only_without_score_plugins() -> None:
    everywhere = decided(profile(score={"disabled": [{"name": "*"}]}))
    skipped = decided(profile(score="NodeAffinity"))
    assert isinstance(everywhere, Decision)
    assert isinstance(skipped, Decision)
    assert (everywhere.total, everywhere.skipped.score) == ({"a": 1, "b": 1}, None)
    assert (skipped.total, skipped.score) == ({"a": 0, "b": 0}, {})
