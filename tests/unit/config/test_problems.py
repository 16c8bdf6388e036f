"""Configurations that nobody should start with: both commands refuse them in one line, by the path
of the field.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.actors.command.run import run
from berth.tools.explain.command import explain

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"

# The text after the head, and the problem named after the file's name or alone.
FIELDS = [
    ("paralelism: 3", "paralelism: unknown field"),
    ("leaderElection: {leaderElected: true}", "leaderElection.leaderElected: unknown field"),
    (
        "profiles: [{plugins: {score: {enable: []}}}]",
        "profiles[0].plugins.score.enable: unknown field",
    ),
    ("profiles: [{plugins: {scoring: {}}}]", "profiles[0].plugins.scoring: unknown field"),
    (
        "profiles: [{plugins: {score: {enabled: [{}]}}}]",
        "profiles[0].plugins.score.enabled[0].name: unknown plugin ''",
    ),
    (
        "profiles: [{pluginConfig: [{name: 3}]}]",
        "profiles[0].pluginConfig[0].name: expected text, got 3",
    ),
    ("profiles: 3", "profiles: expected a list, got 3"),
    ("profiles: [3]", "profiles[0]: expected a mapping, got 3"),
    (
        "profiles: [{plugins: {score: {enabled: NodeName}}}]",
        "profiles[0].plugins.score.enabled: expected a list, got 'NodeName'",
    ),
    (
        "profiles: [{plugins: {score: [NodeName]}}]",
        "profiles[0].plugins.score: expected a mapping, got a list",
    ),
    (
        "profiles: [{pluginConfig: {name: NodeName}}]",
        "profiles[0].pluginConfig: expected a list, got a mapping",
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeName, args: 3}]}]",
        "profiles[0].pluginConfig[0].args: expected a mapping, got 3",
    ),
    ("leaderElection: [1]", "leaderElection: expected a mapping, got a list"),
    (
        "leaderElection: {leaseDuration: 15}",
        "leaderElection.leaseDuration: expected a duration such as 15s, got 15",
    ),
    (
        "leaderElection: {leaderElect: maybe}",
        "leaderElection.leaderElect: expected true or false, got 'maybe'",
    ),
    (
        "leaderElection: {retryPeriod: -2s}",
        "leaderElection.retryPeriod: expected more than 0s, got -2s",
    ),
    (
        "percentageOfNodesToScore: 101",
        "percentageOfNodesToScore: expected an integer from 0 to 100, got 101",
    ),
    (
        "percentageOfNodesToScore: -1",
        "percentageOfNodesToScore: expected an integer from 0 to 100, got -1",
    ),
    (
        "profiles: [{percentageOfNodesToScore: 101}]",
        "profiles[0].percentageOfNodesToScore: expected an integer from 0 to 100, got 101",
    ),
    ("parallelism: 0", "parallelism: expected an integer of at least 1, got 0"),
    ("parallelism: 1.5", "parallelism: expected an integer of at least 1, got 1.5"),
    ("parallelism: 99999999999999999999999", "parallelism: "),
    (
        "podInitialBackoffSeconds: -1",
        "podInitialBackoffSeconds: expected an integer of at least 1, got -1",
    ),
    (
        "podInitialBackoffSeconds: 0",
        "podInitialBackoffSeconds: expected an integer of at least 1, got 0",
    ),
    (
        "podMaxBackoffSeconds: -1",
        "podMaxBackoffSeconds: expected at least podInitialBackoffSeconds (1), got -1",
    ),
    (
        "profiles: [{}, {}]",
        "profiles[0].schedulerName: expected a name, got nothing; profiles[1].schedulerName: ",
    ),
    ("profiles: [{schedulerName: ''}]", "profiles[0].schedulerName: expected a name, got nothing"),
    (
        "profiles: [{pluginConfig: [{name: NodeName}, {name: NodeName}]}]",
        "profiles[0].pluginConfig[1].name: expected a plugin named once, got 'NodeName'",
    ),
    ("extenders: [{urlPrefix: nowhere}]", "extenders[0].urlPrefix: expected a URL"),
]

PLUGINS = [
    (
        "{score: {enabled: [{name: ImageLocalty}]}}",
        "score.enabled[0].name: unknown plugin 'ImageLocalty', did you mean ImageLocality?",
    ),
    (
        "{multiPoint: {enabled: [{name: Mine}]}}",
        "multiPoint.enabled[0].name: unknown plugin 'Mine'",
    ),
    (
        "{score: {enabled: [{name: NodeName}]}}",
        "score.enabled[0].name: NodeName does not implement score",
    ),
    (
        "{bind: {enabled: [{name: ImageLocality}]}}",
        "bind.enabled[0].name: ImageLocality does not implement bind",
    ),
    (
        "{filter: {enabled: [{name: NodeName}, {name: NodeName}]}}",
        "filter.enabled[1].name: NodeName is enabled twice",
    ),
    (
        "{score: {enabled: [{name: NodeAffinity, weight: -1}]}}",
        "score.enabled[0].weight: expected an integer of at least 0, got -1",
    ),
    (
        "{multiPoint: {enabled: [{name: NodeAffinity, weight: -1}]}}",
        "multiPoint.enabled[0].weight: expected an integer of at least 0, got -1",
    ),
    (
        "{score: {enabled: [{name: NodeAffinity, weight: 2147483648}]}}",
        "score.enabled[0].weight: expected an integer of 32 bits, got 2147483648",
    ),
    (
        "{score: {enabled: [{name: NodeAffinity, weight: heavy}]}}",
        "score.enabled[0].weight: expected an integer of 32 bits, got 'heavy'",
    ),
    (
        "{filter: {enabled: [{name: EBSLimits}]}}",
        "filter.enabled[0].name: EBSLimits was removed from Kubernetes, NodeVolumeLimits counts",
    ),
    ("{queueSort: {disabled: [{name: '*'}]}}", "queueSort: expected exactly one plugin, got 0"),
    ("{bind: {disabled: [{name: '*'}]}}", "bind: expected at least one plugin"),
]

SPREAD = "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}"
TERMS = "[{matchExpressions: [{key: a, operator: Maybe}]}]"
ARGS = [
    (
        "NodeResourcesFit",
        "{scoringStrategy: {type: Best}}",
        "args.scoringStrategy.type: expected LeastAllocated",
    ),
    (
        "NodeResourcesFit",
        "{scoringStrategy: {kind: LeastAllocated}}",
        "args.scoringStrategy.kind: unknown field",
    ),
    (
        "NodeResourcesFit",
        "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: -1}]}}",
        "args.scoringStrategy.resources[0].weight: expected a weight from 1 to 100, got -1",
    ),
    (
        "NodeResourcesFit",
        "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}}",
        "args.scoringStrategy.resources[0].weight: expected a weight from 1 to 100, got 101",
    ),
    (
        "NodeResourcesFit",
        "{scoringStrategy: {resources: cpu}}",
        "args.scoringStrategy.resources: expected a list, got 'cpu'",
    ),
    (
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio}}",
        "args.scoringStrategy.requestedToCapacityRatio.shape: expected at least one point",
    ),
    (
        "PodTopologySpread",
        f"{{defaultingType: List, defaultConstraints: [{SPREAD.replace('1', '0')}]}}",
        "args.defaultConstraints[0].maxSkew: expected a positive integer, got 0",
    ),
    (
        "PodTopologySpread",
        f"{{defaultingType: List, defaultConstraints: [{SPREAD.replace(' topologyKey: z,', '')}]}}",
        "args.defaultConstraints[0].topologyKey: expected a label key, got nothing",
    ),
    (
        "PodTopologySpread",
        f"{{defaultingType: List, defaultConstraints: [{SPREAD.replace('Schedule', 'Any')}]}}",
        (
            "args.defaultConstraints[0].whenUnsatisfiable: expected DoNotSchedule or "
            "ScheduleAnyway, got "
            "'AnyAnyway'"
        ),
    ),
    (
        "PodTopologySpread",
        f"{{defaultConstraints: [{SPREAD}]}}",
        "args.defaultConstraints: expected none with defaultingType System",
    ),
    (
        "PodTopologySpread",
        "{defaultingType: Some}",
        "args.defaultingType: expected List or System, got 'Some'",
    ),
    (
        "InterPodAffinity",
        "{hardPodAffinityWeight: 101}",
        "args.hardPodAffinityWeight: expected an integer from 0 to 100, got 101",
    ),
    (
        "InterPodAffinity",
        "{hardPodAffinityWeight: -1}",
        "args.hardPodAffinityWeight: expected an integer from 0 to 100, got -1",
    ),
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
    (b"", "expected one document, a KubeSchedulerConfiguration, got none"),
    (b"# nothing\n---\n", "expected one document, a KubeSchedulerConfiguration, got none"),
    (b"hello", "expected a KubeSchedulerConfiguration, got text"),
    (b"[1]", "expected a KubeSchedulerConfiguration, got a list"),
    (b"3", "expected a KubeSchedulerConfiguration, got a number"),
    (
        (HEAD + "---\n" + HEAD).encode(),
        "expected one document, a KubeSchedulerConfiguration, got 2",
    ),
    (b"\x00\x01\xff\xfe", "cannot be read: line 1: "),
    (b"\x7fELF\x02\x01\x01", "cannot be read: line 1: "),
    (b"\xff\xfe", "cannot be read: line 1: expected text in UTF-8, got the byte 0xff"),
    (b"a: [", "cannot be read: line "),
    (b"a: 1\na: 2\n", "cannot be read: line 2: the key a occurs twice in the mapping of line 1"),
    (b"[" * 100_000, "cannot be read: line 1: expected at most 100 nested collections"),
    (
        b"a: &a [*a]",
        "cannot be read: line 1: expected the anchor of the alias *a to end before it",
    ),
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


def refused_by(command: str, tmp_path: Path, config: Path) -> str:
    """The one line that a command says of a configuration."""
    if command == "run":
        result = CliRunner().invoke(
            run, ["--config", str(config), "--write-config-to", str(tmp_path / "written.yaml")]
        )
    else:
        (tmp_path / "cluster.yaml").write_text(POD)
        arguments = ["-f", str(tmp_path / "cluster.yaml"), "--pod", "p", "--config", str(config)]
        result = CliRunner().invoke(explain, arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize(("text", "problem"), HOSTILE)
def test_a_field_that_does_not_fit_is_named(
    command: str, text: str, problem: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    assert refused_by(command, tmp_path, config).startswith(f"Error: {config}: {problem}")


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize(("raw", "problem"), FILES, ids=range(len(FILES)))
def test_a_file_that_cannot_be_used_is_named(
    command: str, raw: bytes, problem: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_bytes(raw)
    assert refused_by(command, tmp_path, config).startswith(f"Error: {config}: {problem}")


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_file_that_is_not_there_is_named(command: str, tmp_path: Path) -> None:
    for path, why in (
        (tmp_path / "none", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        assert refused_by(command, tmp_path, path) == f"Error: {path}: cannot be read: {why}"


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
