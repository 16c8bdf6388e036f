"""Configurations that nobody should start with: both commands refuse them in one line, by the path
of the field.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.actors.run import run
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
        "profiles[0].plugins.score.enabled[0].name: expected a value",
    ),
    (
        "profiles: [{pluginConfig: [{args: {}}]}]",
        "profiles[0].pluginConfig[0].name: expected a value, got nothing",
    ),
    ("profiles: 3", "profiles: Expected `array`, got `int`"),
    ("profiles: [3]", "profiles[0]: Expected `object`, got `int`"),
    ("profiles: []", "profiles: expected at least one profile, got none"),
    (
        "profiles: [{plugins: {score: {enabled: NodeName}}}]",
        "profiles[0].plugins.score.enabled: Expected `array`",
    ),
    (
        "profiles: [{plugins: {score: [NodeName]}}]",
        "profiles[0].plugins.score: Expected `object`, got `array`",
    ),
    (
        "profiles: [{pluginConfig: {name: NodeName}}]",
        "profiles[0].pluginConfig: Expected `array`, got `object`",
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeName, args: 3}]}]",
        "profiles[0].pluginConfig[0].args: Expected `object`",
    ),
    ("leaderElection: [1]", "leaderElection: Expected `object`, got `array`"),
    (
        "leaderElection: {leaseDuration: 15}",
        "leaderElection.leaseDuration: expected a duration such as 15s, got 15",
    ),
    (
        "leaderElection: {leaderElect: maybe}",
        "leaderElection.leaderElect: Expected `bool`, got `str`",
    ),
    (
        "leaderElection: {retryPeriod: -2s}",
        "leaderElection.retryPeriod: expected more than 0s, got -2s",
    ),
    ("percentageOfNodesToScore: 101", "percentageOfNodesToScore: expected 0 to 100, got 101"),
    ("percentageOfNodesToScore: -1", "percentageOfNodesToScore: expected 0 to 100, got -1"),
    (
        "profiles: [{percentageOfNodesToScore: 101}]",
        "profiles[0].percentageOfNodesToScore: expected 0 to 100, got 101",
    ),
    ("parallelism: 0", "parallelism: expected a positive integer, got 0"),
    ("parallelism: 1.5", "parallelism: Expected `int`, got `float`"),
    ("parallelism: 99999999999999999999999", "parallelism: "),
    (
        "podInitialBackoffSeconds: -1",
        "podInitialBackoffSeconds: expected a positive integer, got -1",
    ),
    ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds: expected a positive integer, got 0"),
    (
        "podMaxBackoffSeconds: -1",
        "podMaxBackoffSeconds: expected at least podInitialBackoffSeconds (1), got -1",
    ),
    (
        "profiles: [{}, {}]",
        "profiles[1].schedulerName: expected a name of its own, got 'default-scheduler'",
    ),
    ("profiles: [{schedulerName: ''}]", "profiles[0].schedulerName: expected a name, got ''"),
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
        "{multiPoint: {disabled: [{name: NodNames}]}}",
        "multiPoint.disabled[0].name: unknown plugin 'NodNames', did you mean NodeName?",
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
        "{score: {enabled: [{name: NodeAffinity, weight: 0}]}}",
        "score.enabled[0].weight: expected a weight of at least 1, got 0",
    ),
    (
        "{multiPoint: {enabled: [{name: NodeAffinity, weight: 0}]}}",
        "multiPoint.enabled[0].weight: expected a weight of at least 1, got 0",
    ),
    (
        "{multiPoint: {enabled: [{name: NodeName, weight: -1}]}}",
        "multiPoint.enabled[0].weight: expected a weight of at least 1, got -1",
    ),
    (
        "{score: {enabled: [{name: NodeAffinity, weight: 2147483648}]}}",
        "score.enabled[0].weight: expected a weight of at most 2147483647",
    ),
    (
        "{score: {enabled: [{name: NodeAffinity, weight: heavy}]}}",
        "score.enabled[0].weight: Expected `int`, got `str`",
    ),
    ("{queueSort: {disabled: [{name: '*'}]}}", "queueSort: expected exactly one plugin, got 0"),
    ("{bind: {disabled: [{name: '*'}]}}", "bind: expected at least one plugin"),
]

SPREAD = "{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}"
TERMS = "[{matchExpressions: [{key: a, operator: Maybe}]}]"
ARGS = [
    (
        "NodeResourceFit",
        "{}",
        "name: unknown plugin 'NodeResourceFit', did you mean NodeResourcesFit?",
    ),
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
        "{scoringStrategy: {resources: [{name: cpu, weight: 0}]}}",
        "args.scoringStrategy.resources[0].weight: expected a weight from 1 to 100, got 0",
    ),
    (
        "NodeResourcesFit",
        "{scoringStrategy: {resources: [{name: cpu, weight: 101}]}}",
        "args.scoringStrategy.resources[0].weight: expected a weight from 1 to 100, got 101",
    ),
    (
        "NodeResourcesFit",
        "{scoringStrategy: {resources: cpu}}",
        "args.scoringStrategy.resources: Expected `array`, got `str`",
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
        "args.defaultConstraints[0].topologyKey: expected a value, got nothing",
    ),
    (
        "PodTopologySpread",
        f"{{defaultingType: List, defaultConstraints: [{SPREAD.replace('Schedule', 'Any')}]}}",
        (
            "args.defaultConstraints[0].whenUnsatisfiable: expected DoNotSchedule, "
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
        "args.defaultingType: expected List, System, got 'Some'",
    ),
    (
        "InterPodAffinity",
        "{hardPodAffinityWeight: 101}",
        "args.hardPodAffinityWeight: expected 0 to 100, got 101",
    ),
    (
        "InterPodAffinity",
        "{hardPodAffinityWeight: -1}",
        "args.hardPodAffinityWeight: expected 0 to 100, got -1",
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
    ("NodeName", "{a: 1}", "args.a: unknown field, NodeName takes no arguments"),
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
    ("{}", "apiVersion: expected kubescheduler.config.k8s.io/v1, got None"),
    (
        "{apiVersion: v1, kind: Pod}",
        "apiVersion: expected kubescheduler.config.k8s.io/v1, got 'v1'",
    ),
    (
        "{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: KubeSchedulerConfiguration}",
        (
            "apiVersion: expected kubescheduler.config.k8s.io/v1, got "
            "'kubescheduler.config.k8s.io/v1beta3'"
        ),
    ),
    (
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: Config}",
        "kind: expected KubeSchedulerConfiguration, got 'Config'",
    ),
    ("{apiVersion: [], kind: 3}", "apiVersion: expected kubescheduler.config.k8s.io/v1, got []"),
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
            run, ["--master", "http://127.0.0.1:9", "--config", str(config)]
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
    assert refused_by(command, tmp_path, config).startswith(f"Error: {problem}")


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
        # kube-scheduler writes a weight of 0 where there is none
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
