"""Configurations of removed versions: what they become in v1, and what is said of each change."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from berth.actors.scheduling.decision.registry import extension_points, plugin_problems
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS
from berth.config.legacy import Conversion, convert
from berth.config.load import ConfigError, from_mapping
from berth.config.profiles import expand_profile
from berth.config.types import API_VERSION, KIND
from tests.kit.cases import texts

# The scores with their weights in v1beta2 and before.
OLD_WEIGHTS = {
    "ImageLocality": 1,
    "InterPodAffinity": 1,
    "NodeAffinity": 1,
    "NodeResourcesBalancedAllocation": 1,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "TaintToleration": 1,
}
NEW_WEIGHTS = {**OLD_WEIGHTS, "InterPodAffinity": 2, "NodeAffinity": 2, "TaintToleration": 3}


def converted(version: str, text: str = "") -> Conversion:
    document = yaml.safe_load(text) or {}
    head = {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": KIND}
    return convert({**head, **document})


def weights(conversion: Conversion) -> dict[str, int]:
    """Returns the weights of the scores that v1beta2 knew."""
    configuration = from_mapping(conversion.document)
    assert plugin_problems(configuration, IN_TREE, DEFAULTS) == []
    (profile,) = configuration.profiles
    points = {name: extension_points(plugin) for name, plugin in IN_TREE.items()}
    scores = expand_profile(profile, points, "", DEFAULTS)["score"]
    return {score.name: score.weight for score in scores if score.name in OLD_WEIGHTS}


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1beta1", OLD_WEIGHTS), ("v1beta2", OLD_WEIGHTS), ("v1beta3", NEW_WEIGHTS)],
)
@pytest.mark.parametrize("text", ["", "profiles: [{schedulerName: x}]"])
def test_the_default_weights_stay_those_of_the_version(
    version: str, expected: dict[str, int], text: str
) -> None:
    assert weights(converted(version, text)) == expected


def test_weights_that_are_given_stay() -> None:
    text = (
        "profiles: [{plugins: {score: {disabled: [{name: ImageLocality}, {name: NodeAffinity}], "
        "enabled: [{name: TaintToleration, weight: 7}, {name: InterPodAffinity}]}}}]"
    )
    expected = {**OLD_WEIGHTS, "TaintToleration": 7}
    del expected["ImageLocality"], expected["NodeAffinity"]
    assert weights(converted("v1beta2", text)) == expected


def test_scores_that_are_all_disabled_stay_disabled() -> None:
    text = (
        "profiles: [{plugins: {score: {disabled: [{name: '*'}], "
        "enabled: [{name: NodeResourcesMostAllocated, weight: 5}, {name: NodeAffinity}]}}}]"
    )
    conversion = converted("v1beta1", text)
    assert weights(conversion) == {"NodeResourcesFit": 5, "NodeAffinity": 1}
    (profile,) = conversion.document["profiles"]
    assert profile["pluginConfig"] == [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
    ]


STRATEGIES = [
    (
        (
            "score: {disabled: [{name: NodeResourcesLeastAllocated}], "
            "enabled: [{name: RequestedToCapacityRatio, weight: 3}]}"
        ),
        "RequestedToCapacityRatio",
        {"shape": [{"utilization": 0, "score": 0}], "resources": [{"name": "cpu", "weight": 2}]},
        {
            "type": "RequestedToCapacityRatio",
            "resources": [{"name": "cpu", "weight": 2}],
            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}]},
        },
        3,
    ),
    (
        "{}",
        "NodeResourcesLeastAllocated",
        {"resources": [{"name": "cpu", "weight": 2}]},
        {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 2}]},
        1,
    ),
]


@pytest.mark.parametrize(("plugins", "name", "args", "strategy", "weight"), STRATEGIES)
def test_plugins_that_score_resources_become_a_strategy(
    plugins: str, name: str, args: dict[str, Any], strategy: dict[str, Any], weight: int
) -> None:
    profile: dict[str, Any] = {"plugins": yaml.safe_load(plugins)}
    profile["pluginConfig"] = [{"name": name, "args": args}]
    conversion = converted("v1beta1", yaml.safe_dump({"profiles": [profile]}))
    (after,) = conversion.document["profiles"]
    assert after["pluginConfig"] == [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    ]
    assert weights(conversion)["NodeResourcesFit"] == weight


WHOLE = """
healthzBindAddress: 0.0.0.0:10251
metricsBindAddress: 0.0.0.0:10251
parallelism: 4
leaderElection: {leaderElect: true, resourceLock: endpointsleases}
profiles:
- schedulerName: a
  plugins:
    filter:
      disabled: [{name: EBSLimits}, {name: NodePorts}]
    score:
      enabled: [{name: NodePreferAvoidPods, weight: 10000}, {name: SelectorSpread}]
  pluginConfig:
  - name: InterPodAffinity
    args: {apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: InterPodAffinityArgs}
  - name: CinderLimits
"""


def test_each_change_has_its_line() -> None:
    conversion = converted("v1beta3", WHOLE)
    assert conversion.document == {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "parallelism": 4,
        "leaderElection": {"leaderElect": True, "resourceLock": "leases"},
        "profiles": [
            {
                "schedulerName": "a",
                "plugins": {"filter": {"disabled": [{"name": "NodePorts"}]}, "score": {}},
                "pluginConfig": [
                    {
                        "name": "InterPodAffinity",
                        "args": {"apiVersion": API_VERSION, "kind": "InterPodAffinityArgs"},
                    }
                ],
            }
        ],
    }
    assert [line.partition(":")[0] for line in conversion.changes] == [
        "apiVersion",
        "healthzBindAddress",
        "metricsBindAddress",
        "leaderElection.resourceLock",
        "profiles[0].plugins.filter",
        "profiles[0].plugins.score",
        "profiles[0].plugins.score",
        "profiles[0].pluginConfig",
    ]
    assert conversion.by_hand == ()
    assert weights(conversion) == NEW_WEIGHTS


@pytest.mark.parametrize("lock", ["endpoints", "configmaps"])
def test_a_record_alone_migrates_by_both_locks(lock: str) -> None:
    conversion = converted("v1beta1", f"leaderElection: {{resourceLock: {lock}}}")
    assert conversion.document["leaderElection"] == {"resourceLock": f"{lock}leases"}
    assert f"leaderElection.resourceLock: {lock}leases instead of {lock}" in conversion.changes
    assert conversion.by_hand == (
        f"leaderElection.resourceLock: name leases once every candidate has {lock}leases",
    )


def test_an_alpha_configuration_gets_a_profile() -> None:
    text = (
        "{schedulerName: mine, algorithmSource: {provider: DefaultProvider}, "
        "hardPodAffinitySymmetricWeight: 5, bindTimeoutSeconds: 30, disablePreemption: true, "
        "leaderElection: {lockObjectName: l, lockObjectNamespace: n}}"
    )
    conversion = converted("v1alpha1", text)
    configuration = from_mapping(conversion.document)
    (profile,) = configuration.profiles
    assert profile.scheduler_name == "mine"
    assert {entry.name: entry.args for entry in profile.plugin_config} == {
        "InterPodAffinity": {"hardPodAffinityWeight": 5},
        "VolumeBinding": {"bindTimeoutSeconds": 30},
    }
    assert [ref.name for ref in profile.plugins.post_filter.disabled] == ["DefaultPreemption"]
    election = configuration.leader_election
    assert (election.resource_name, election.resource_namespace) == ("l", "n")
    assert weights(conversion) == OLD_WEIGHTS


@pytest.mark.parametrize(
    ("text", "line"),
    texts("""
profiles: [{plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}]}}}] =>
    profiles[0].plugins.score: NodeResourcesLeastAllocated and NodeResourcesMostAllocated
profiles: [{plugins: {filter: {enabled: [{name: NodeLabel}]}}}] =>
    profiles[0].plugins.filter: NodeLabel was removed
profiles: [{plugins: {filter: {enabled: [{name: ServiceAffinity}]}}}] =>
    profiles[0].plugins.filter: ServiceAffinity was removed
"""),
)
def test_what_has_no_equivalent_is_to_be_done_by_hand(text: str, line: str) -> None:
    (by_hand,) = converted("v1beta1", text).by_hand
    assert by_hand.startswith(line)


def test_old_fields_in_v1_are_converted() -> None:
    conversion = converted(
        "v1",
        "{bindTimeoutSeconds: 9, healthzBindAddress: ':1', leaderElection: {lockObjectName: x},"
        " profiles: [{schedulerName: batch}]}",
    )
    configuration = from_mapping(conversion.document)
    assert configuration.leader_election.resource_name == "x"
    (profile,) = configuration.profiles
    assert (profile.scheduler_name, profile.plugin_config[0].name) == ("batch", "VolumeBinding")
    assert [change.split(":")[0] for change in conversion.changes] == [
        "healthzBindAddress",
        "leaderElection.lockObjectName",
        "bindTimeoutSeconds",
    ]


def test_v1_stays_as_it_is() -> None:
    conversion = converted("v1", "{parallelism: 3}")
    assert (conversion.document["parallelism"], conversion.changes) == (3, ())


def test_a_removed_version_is_refused_with_the_changes() -> None:
    with pytest.raises(ConfigError) as refused:
        from_mapping(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1beta3",
                "kind": KIND,
                "healthzBindAddress": ":1",
            }
        )
    head, *changes = refused.value.problems
    assert head == (
        "apiVersion: kubescheduler.config.k8s.io/v1beta3 was removed from Kubernetes in 1.29: "
        "`berth config convert` writes the file in v1, with these changes"
    )
    assert changes == [
        "apiVersion: kubescheduler.config.k8s.io/v1",
        "healthzBindAddress: removed, --bind-address and --secure-port say where health is served",
    ]


def test_a_policy_is_refused_with_the_plugins_of_its_rules() -> None:
    with pytest.raises(ConfigError) as refused:
        from_mapping(
            {
                "apiVersion": "v1",
                "kind": "Policy",
                "predicates": [{"name": "PodFitsResources"}, {"name": "Mine"}],
                "priorities": [{"name": "LeastRequestedPriority", "weight": 1}],
            }
        )
    assert list(refused.value.problems) == [
        f"kind: Policy was removed from Kubernetes in 1.23: write a {KIND} of {API_VERSION}",
        "predicates[0]: PodFitsResources is NodeResourcesFit at filter",
        "predicates[1]: Mine has no plugin in v1",
        (
            "priorities[0]: LeastRequestedPriority is NodeResourcesFit with the scoringStrategy "
            "LeastAllocated at score"
        ),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "profiles: 3",
        "profiles: [3, null, {plugins: 3}, {plugins: {score: 3}}, {pluginConfig: {}}]",
        "profiles: [{plugins: {score: {enabled: 3, disabled: [3, {name: []}]}}}]",
        "profiles: [{pluginConfig: [3, {name: [], args: 3}, {name: NodeLabel, args: 3}]}]",
        "leaderElection: 3",
        "{schedulerName: 3, plugins: 3, algorithmSource: 3, disablePreemption: 3}",
        "{profiles: 3, schedulerName: 3}",
    ],
)
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1beta2", "v1beta3"])
def test_a_malformed_document_is_left_to_the_reader(version: str, text: str) -> None:
    conversion = converted(version, text)
    assert conversion.document["apiVersion"] == API_VERSION
