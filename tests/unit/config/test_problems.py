"""Configurations that nobody should start with: both commands refuse them in one line, by the path
of the field.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from berth.actors.cli.run import run
from berth.actors.configuration.file import load_file
from berth.actors.scheduling.decision.registry import RegistryError, extension_points
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.actors.wiring.profiles import profiles_of
from berth.config.feature_gates import DEFAULTS
from berth.config.load import ConfigError
from berth.config.profiles import ProfileError, expand_profile
from berth.config.types import KubeSchedulerProfile, PluginRef, Plugins, PluginSet
from berth.tools.views.commands.explain import explain
from tests.kit.cases import texts
from tests.kit.handle import NoApi

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POD = """
{apiVersion: v1, kind: Node, metadata: {name: one}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}
"""

# The text after the head, and the problem named after the file's name or alone.
FIELDS = [
    *texts("""
paralelism: 3 => paralelism: unknown field
leaderElection: {leaderElected: true} => leaderElection.leaderElected: unknown field
profiles: [{plugins: {score: {enable: []}}}] => profiles[0].plugins.score.enable: unknown field
profiles: [{plugins: {scoring: {}}}] => profiles[0].plugins.scoring: unknown field
profiles: [{plugins: {score: {enabled: [{}]}}}] =>
    profiles[0].plugins.score.enabled[0].name: unknown plugin ''
profiles: [{pluginConfig: [{name: 3}]}] => profiles[0].pluginConfig[0].name: expected text, got 3
profiles: 3 => profiles: expected a list, got 3
profiles: [3] => profiles[0]: expected a mapping, got 3
profiles: [{plugins: {score: {enabled: NodeName}}}] =>
    profiles[0].plugins.score.enabled: expected a list, got 'NodeName'
profiles: [{plugins: {score: [NodeName]}}] =>
    profiles[0].plugins.score: expected a mapping, got a list
profiles: [{pluginConfig: {name: NodeName}}] =>
    profiles[0].pluginConfig: expected a list, got a mapping
profiles: [{pluginConfig: [{name: NodeName, args: 3}]}] =>
    profiles[0].pluginConfig[0].args: expected a mapping, got 3
leaderElection: [1] => leaderElection: expected a mapping, got a list
leaderElection: {leaseDuration: 15} =>
    leaderElection.leaseDuration: expected a duration such as 15s, got 15
leaderElection: {leaderElect: maybe} =>
    leaderElection.leaderElect: expected true or false, got 'maybe'
leaderElection: {retryPeriod: -2s} => leaderElection.retryPeriod: expected more than 0s, got -2s
percentageOfNodesToScore: 101 =>
    percentageOfNodesToScore: expected an integer from 0 to 100, got 101
percentageOfNodesToScore: -1 => percentageOfNodesToScore: expected an integer from 0 to 100, got -1
profiles: [{percentageOfNodesToScore: 101}] =>
    profiles[0].percentageOfNodesToScore: expected an integer from 0 to 100, got 101
parallelism: 0 => parallelism: expected an integer of at least 1, got 0
parallelism: 1.5 => parallelism: expected an integer of at least 1, got 1.5
podInitialBackoffSeconds: -1 => podInitialBackoffSeconds: expected an integer of at least 1, got -1
podInitialBackoffSeconds: 0 => podInitialBackoffSeconds: expected an integer of at least 1, got 0
podMaxBackoffSeconds: -1 =>
    podMaxBackoffSeconds: expected at least podInitialBackoffSeconds (1), got -1
profiles: [{schedulerName: ''}] => profiles[0].schedulerName: expected a name, got nothing
profiles: [{pluginConfig: [{name: NodeName}, {name: NodeName}]}] =>
    profiles[0].pluginConfig[1].name: expected a plugin named once, got 'NodeName'
extenders: [{urlPrefix: nowhere}] => extenders[0].urlPrefix: expected a URL
"""),
    ("parallelism: 99999999999999999999999", "parallelism: "),
    (
        "profiles: [{}, {}]",
        "profiles[0].schedulerName: expected a name, got nothing; profiles[1].schedulerName: ",
    ),
]

PLUGINS = texts("""
{score: {enabled: [{name: ImageLocalty}]}} =>
    score.enabled[0].name: unknown plugin 'ImageLocalty', did you mean ImageLocality?
{score: {enabled: [{name: NodeResourcesAllocatable}]}} =>
    score.enabled[0].name: unknown plugin 'NodeResourcesAllocatable', which is not
    Kubernetes' own: it belongs to scheduler-plugins
{permit: {enabled: [{name: Coscheduling}]}} =>
    permit.enabled[0].name: unknown plugin 'Coscheduling', which is not Kubernetes' own:
    it belongs to scheduler-plugins or Koordinator
{multiPoint: {enabled: [{name: Mine}]}} => multiPoint.enabled[0].name: unknown plugin 'Mine'
{score: {enabled: [{name: NodeName}]}} => score.enabled[0].name: NodeName does not implement score
{bind: {enabled: [{name: ImageLocality}]}} =>
    bind.enabled[0].name: ImageLocality does not implement bind
{filter: {enabled: [{name: NodeName}, {name: NodeName}]}} =>
    filter.enabled[1].name: NodeName is enabled twice
{score: {enabled: [{name: NodeAffinity, weight: -1}]}} =>
    score.enabled[0].weight: expected an integer of at least 0, got -1
{multiPoint: {enabled: [{name: NodeAffinity, weight: -1}]}} =>
    multiPoint.enabled[0].weight: expected an integer of at least 0, got -1
{score: {enabled: [{name: NodeAffinity, weight: 2147483648}]}} =>
    score.enabled[0].weight: expected an integer of 32 bits, got 2147483648
{score: {enabled: [{name: NodeAffinity, weight: heavy}]}} =>
    score.enabled[0].weight: expected an integer of 32 bits, got 'heavy'
{filter: {enabled: [{name: EBSLimits}]}} =>
    filter.enabled[0].name: EBSLimits was removed from Kubernetes, NodeVolumeLimits counts
{queueSort: {disabled: [{name: '*'}]}} => queueSort: expected exactly one plugin, got 0
{bind: {disabled: [{name: '*'}]}} => bind: expected at least one plugin
""")

SPREAD = "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}"
TERMS = "[{matchExpressions: [{key: a, operator: Maybe}]}]"
ARGS = [
    *texts("""
NodeResourcesFit => {scoringStrategy: {type: Best}} =>
    args.scoringStrategy.type: expected LeastAllocated
NodeResourcesFit => {scoringStrategy: {kind: LeastAllocated}} =>
    args.scoringStrategy.kind: unknown field
NodeResourcesFit => {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: -1}]}}
    => args.scoringStrategy.resources[0].weight: expected a weight from 1 to 100, got -1
NodeResourcesFit => {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}}
    => args.scoringStrategy.resources[0].weight: expected a weight from 1 to 100, got 101
NodeResourcesFit => {scoringStrategy: {resources: cpu}} =>
    args.scoringStrategy.resources: expected a list, got 'cpu'
NodeResourcesFit => {scoringStrategy: {type: RequestedToCapacityRatio}} =>
    args.scoringStrategy.requestedToCapacityRatio.shape: expected at least one point
PodTopologySpread => {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: z,
  whenUnsatisfiable: ScheduleAnyway}]} =>
    args.defaultConstraints[0].maxSkew: expected a positive integer, got 0
PodTopologySpread => {defaultingType: List, defaultConstraints: [{maxSkew: 1, whenUnsatisfiable:
    ScheduleAnyway}]} => args.defaultConstraints[0].topologyKey: expected a label key, got nothing
PodTopologySpread => {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: z,
    whenUnsatisfiable: AnyAnyway}]} => args.defaultConstraints[0].whenUnsatisfiable: expected
    DoNotSchedule or ScheduleAnyway, got 'AnyAnyway'
PodTopologySpread => {defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable:
    ScheduleAnyway}]} => args.defaultConstraints: expected none with defaultingType System
PodTopologySpread => {defaultingType: Some} =>
    args.defaultingType: expected List or System, got 'Some'
InterPodAffinity => {hardPodAffinityWeight: 101} =>
    args.hardPodAffinityWeight: expected an integer from 0 to 100, got 101
InterPodAffinity => {hardPodAffinityWeight: -1} =>
    args.hardPodAffinityWeight: expected an integer from 0 to 100, got -1
"""),
    (
        "NodeAffinity",
        (
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            f"{{nodeSelectorTerms: {TERMS}}}}}}}"
        ),
        (
            "args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution."
            "nodeSelectorTerms[0].matchExpressions[0]"
        ),
    ),
]

FILES = [
    (b"", "expected a document, a KubeSchedulerConfiguration, got none"),
    (b"# nothing\n---\n", "expected a document, a KubeSchedulerConfiguration, got none"),
    (b"hello", "expected a KubeSchedulerConfiguration, got text"),
    (b"[1]", "expected a KubeSchedulerConfiguration, got a list"),
    (b"3", "expected a KubeSchedulerConfiguration, got a number"),
    (
        b"apiVersion: v1\nkind: ConfigMap\n",
        "expected a KubeSchedulerConfiguration, got a ConfigMap",
    ),
    (
        b"kind: ConfigMap\ndata: {other: x, s.yaml: 'kind: KubeSchedulerConfiguration'}\n",
        (
            "expected a KubeSchedulerConfiguration, got a ConfigMap; "
            "write the text of its data['s.yaml'] to a file of its own"
        ),
    ),
    (b"\x00\x01\xff\xfe", "cannot be read: line 1: "),
    (b"\x7fELF\x02\x01\x01", "cannot be read: line 1: "),
    (b"\xff\xfe", "cannot be read: line 1: expected text in UTF-8, got the byte 0xff"),
    (b"a: [", "cannot be read: line "),
    (b"a: 1\na: 2\n", "cannot be read: line 2: the key a occurs twice in the mapping of line 1"),
    (b"[" * 100_000, "cannot be read: line 1: expected at most 100 nested collections"),
    (b"a: &a [*a]", "cannot be read: line 1: expected the anchor of the alias *a to end before it"),
]

DOCUMENTS = [
    ("{}", "apiVersion: expected kubescheduler.config.k8s.io/v1, got nothing"),
    (
        "{apiVersion: v1, kind: Pod}",
        "apiVersion: expected kubescheduler.config.k8s.io/v1, got 'v1'",
    ),
    (
        "{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: KubeSchedulerConfiguration}",
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3 was removed from Kubernetes in 1.29: "
            "`berth config convert`"
        ),
    ),
    (
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: Config}",
        "kind: expected KubeSchedulerConfiguration, got 'Config'",
    ),
    (
        "{apiVersion: [], kind: 3}",
        "apiVersion: expected kubescheduler.config.k8s.io/v1, got a list",
    ),
]

HOSTILE = [
    *((HEAD + text, problem) for text, problem in FIELDS),
    *(
        (HEAD + f"profiles: [{{plugins: {text}}}]", f"profiles[0].plugins.{problem}")
        for text, problem in PLUGINS
    ),
    *(
        (
            HEAD + f"profiles: [{{pluginConfig: [{{name: {name}, args: {text}}}]}}]",
            f"profiles[0].pluginConfig[0].{said}",
        )
        for name, text, said in ARGS
    ),
    *DOCUMENTS,
]


def problem_of(config: Path) -> str:
    with pytest.raises((ConfigError, RegistryError)) as raised:
        profiles_of(load_file(config), NoApi())
    return str(raised.value)


def test_a_field_that_does_not_fit_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    for text, problem in HOSTILE:
        config.write_text(text)
        said = problem_of(config)
        assert said.startswith(f"{config}: {problem}"), text
        assert "\n" not in said, text


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    for raw, problem in FILES:
        config.write_bytes(raw)
        assert problem_of(config).startswith(f"{config}: {problem}"), raw


@pytest.mark.parametrize("command", [run, explain])
def test_a_command_says_in_one_line_what_does_not_fit(
    command: click.Command, tmp_path: Path
) -> None:
    (tmp_path / "cluster.yaml").write_text(POD)
    more = ["-f", str(tmp_path / "cluster.yaml"), "--pod", "p"] if command is explain else []
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(HOSTILE[0][0])
    for path, why in (
        (tmp_path / "none", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (wrong, HOSTILE[0][1]),
    ):
        result = CliRunner().invoke(command, [*more, "--config", str(path)])
        assert (result.exit_code, result.stdout) == (1, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"Error: {path}: {why}")


@pytest.mark.parametrize(
    "text",
    [
        "profiles: null\nleaderElection: ~\npercentageOfNodesToScore:\n",
        (
            "profiles: [{plugins: null, pluginConfig: [{name: NodeAffinity, args: {addedAffinity: "
            "null}}]}]"
        ),
        "profiles: []",
        "profiles: [null]",
        "leaderElection: {leaseDuration: 0s, resourceName: ''}",
        "clientConnection: {qps: 0, burst: 0}",
        # names and arguments without effect
        "profiles: [{plugins: {multiPoint: {disabled: [{name: NodNames}]}}}]",
        "profiles: [{pluginConfig: [{name: NodeResourceFit, args: {a: 1}}]}]",
        "profiles: [{pluginConfig: [{name: NodeName, args: {a: 1}}]}]",
        # kube-scheduler writes a weight of 0 where there is none
        "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 0}]}}}]",
        "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName, weight: -1}]}}}]",
        "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName, weight: 0}]}}}]",
        "profiles: [{plugins: {multiPoint: {enabled: [{name: VolumeBinding, weight: 0}]}}}]",
        "profiles: [{plugins: {filter: {enabled: [{name: NodeAffinity, weight: 0}]}}}]",
        (
            "profiles: [{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeAffinity, "
            "weight: 5}]}}}]"
        ),
    ],
)
def test_what_kubernetes_takes_is_taken(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(HEAD + text)
    (tmp_path / "cluster.yaml").write_text(POD)
    arguments = [
        "-f",
        str(tmp_path / "cluster.yaml"),
        "--pod",
        "p",
        "--config",
        str(tmp_path / "config.yaml"),
    ]
    result = CliRunner().invoke(explain, arguments)
    assert result.exit_code == 0, result.output


def test_plugins_that_both_sort_are_named() -> None:
    points = {name: extension_points(plugin) for name, plugin in IN_TREE.items()}
    enabled = PluginSet(enabled=(PluginRef("Mine"),))
    profile = KubeSchedulerProfile(plugins=Plugins(multi_point=enabled))
    with pytest.raises(
        ProfileError, match="expected exactly one plugin, got PrioritySort and Mine"
    ):
        expand_profile(profile, {**points, "Mine": frozenset({"queueSort"})}, "", DEFAULTS)
