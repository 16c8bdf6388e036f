"""Configurations that are refused, by the path of the field; and what defaulting gives."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.decision.completion import completed
from berth.actors.scheduling.decision.registry import plugin_problems, plugin_warnings
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import defaults_of
from berth.config.load import ConfigError, from_mapping, validated
from berth.config.types import (
    API_VERSION,
    KIND,
    Duration,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
)
from berth.config.versions import VERSIONS
from berth.plugin import (
    SUCCESS,
    CycleState,
    NodeInfo,
    NodeScorePlugin,
    NodeView,
    PodInfo,
    PreScorePlugin,
    Status,
)
from tests.kit.cases import documents


def document(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, **fields}


def test_nothing_given_is_the_default() -> None:
    assert from_mapping(document()) == from_mapping(None) == KubeSchedulerConfiguration()


@pytest.mark.parametrize(
    ("fields", "problem"),
    documents(r"""
{hardPodAffinitySymmetricWeight: 1} =>
    ^hardPodAffinitySymmetricWeight: unknown field, of an older version: it is
    hardPodAffinityWeight in the args of InterPodAffinity now$
{leaderElection: {lockObjectName: x}} =>
    ^leaderElection.lockObjectName: unknown field, of an older version: it is resourceName now$
{profiles: [{plugins: {podGroupPostFilter: {}}}]} =>
    ^profiles\[0\].plugins.podGroupPostFilter: unknown field, Kubernetes has it since 1.37$
{paralellism: 3} => ^paralellism: unknown field, did you mean parallelism\?$
{parallelism: 0} => parallelism: expected an integer of at least 1, got 0
{parallelism: many} => parallelism: expected an integer of at least 1, got 'many'
{percentageOfNodesToScore: 101} =>
    percentageOfNodesToScore: expected an integer from 0 to 100, got 101
{leaderElection: {leaseDuration: 5s}} =>
    leaderElection.leaseDuration: expected more than renewDeadline
{leaderElection: {leaseDuration: soon}} => leaderElection.leaseDuration: expected a duration
{leaderElection: {resourceLock: etcd}} =>
    leaderElection.resourceLock: expected one of leases, endpoints, configmaps, endpointsleases,
{profiles: [{}, {}]} => profiles\[0\].schedulerName: expected a name
{profiles: [{plugins: {scoring: {}}}]} => profiles\[0\].plugins.scoring: unknown field
{podMaxBackoffSeconds: 0} => podMaxBackoffSeconds: expected at least podInitialBackoffSeconds
{apiVersion: v1} => apiVersion: expected kubescheduler.config.k8s.io/v1, got 'v1'
"""),
)
def test_what_does_not_fit_is_named(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        from_mapping(document(**fields))


@pytest.mark.parametrize(
    ("plugin_set", "problem", "warned"),
    [
        ({}, "", False),
        (None, "", False),
        ({"enabled": [{"name": "DefaultPreemption"}]}, "", True),
        ({"disabled": [{"name": "*"}]}, "", True),
        (
            {"enabled": [{"name": "NodeName"}]},
            ".enabled[0].name: NodeName does not implement podGroupPostFilter",
            False,
        ),
    ],
)
def test_the_point_of_pod_groups_is_known_from_1_37_on(
    plugin_set: dict[str, Any] | None, problem: str, warned: bool
) -> None:
    fields = document(profiles=[{"plugins": {"podGroupPostFilter": plugin_set}}])
    if plugin_set is not None:
        with pytest.raises(ConfigError, match=r"unknown field, Kubernetes has it since 1\.37$"):
            from_mapping(fields, defaults_of(VERSIONS[36]))
    gates = defaults_of(VERSIONS[37])
    read = from_mapping(fields, gates)
    where = "profiles[0].plugins.podGroupPostFilter"
    assert plugin_problems(read, IN_TREE, gates) == ([where + problem] if problem else [])
    if not problem:
        told = [f"{where}: no effect: berth does not schedule pod groups"] if warned else []
        assert plugin_warnings(read, IN_TREE) == told


def test_the_file_that_is_written_has_the_points_of_its_version() -> None:
    for minor, has in ((36, False), (37, True)):
        written = completed(from_mapping(None), IN_TREE, defaults_of(VERSIONS[minor]))
        assert ("podGroupPostFilter" in written["profiles"][0]["plugins"]) is has


@pytest.mark.parametrize(
    ("field", "name"),
    [("resource_name", "resourceName"), ("resource_namespace", "resourceNamespace")],
)
def test_flags_may_not_leave_the_lease_without_a_name(field: str, name: str) -> None:
    """In a file, an empty name is the default."""
    election: Any = {"leader_elect": True, field: ""}
    configuration = KubeSchedulerConfiguration(
        leader_election=LeaderElectionConfiguration(**election)
    )
    with pytest.raises(ConfigError, match=rf"^leaderElection.{name}: expected a name.*, got ''$"):
        validated(configuration)
    elects_nobody = {**election, "leader_elect": False}
    validated(
        KubeSchedulerConfiguration(leader_election=LeaderElectionConfiguration(**elects_nobody))
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400), ("-2s", -2), ("0", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.5, "500ms"),
        (1.5, "1.5s"),
        (60, "1m0s"),
        (900, "15m0s"),
        (3600, "1h0m0s"),
        (-90, "-1m30s"),
    ],
)
def test_durations_as_go_prints_them(seconds: float, text: str) -> None:
    assert Duration(seconds).in_go() == text


class Even(PreScorePlugin, NodeScorePlugin):
    name = "Even"

    def pre_score(self, state: CycleState, info: PodInfo, nodes: NodeView) -> Status:
        return SUCCESS

    def score_node(self, state: CycleState, info: PodInfo, node: NodeInfo) -> int:
        return 0


LACKS = (
    "profiles[0].plugins: Even does not run at preScore, which it implements: multiPoint enables "
    "it at all points"
)


@pytest.mark.parametrize(
    ("plugins", "told"),
    [
        ({"score": {"enabled": [{"name": "Even"}]}}, [LACKS]),
        ({"multiPoint": {"enabled": [{"name": "Even"}]}}, []),
        (
            {
                "multiPoint": {"enabled": [{"name": "Even"}]},
                "score": {"enabled": [{"name": "Even", "weight": 2}]},
            },
            [],
        ),
        (
            {
                "score": {"enabled": [{"name": "Even"}]},
                "preScore": {"disabled": [{"name": "Even"}]},
            },
            [],
        ),
        ({"score": {"enabled": [{"name": "TaintToleration"}]}}, []),
    ],
)
def test_a_point_at_which_a_plugin_of_a_package_does_not_run_is_told(
    plugins: dict[str, Any], told: list[str]
) -> None:
    read = from_mapping(document(profiles=[{"plugins": plugins}]))
    assert plugin_warnings(read, {**IN_TREE, "Even": Even}) == told
