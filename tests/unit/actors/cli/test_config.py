"""`berth config`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from berth.actors.cli.config import config
from tests.docs.test_pages import configurations
from tests.golden.configurations import HEAD, answers, cases
from tests.kit.processes import install


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(config, [str(argument) for argument in arguments])


def file_with(folder: Path, text: str, head: str = HEAD) -> Path:
    path = folder / "scheduler.yaml"
    path.write_text(head + text)
    return path


def test_a_valid_file_is_one_line(tmp_path: Path) -> None:
    file = file_with(
        tmp_path,
        "profiles: [{schedulerName: a}, {schedulerName: b}]\nextenders: [{urlPrefix: 'http://h'}]",
    )
    result = run("check", file)
    assert result.exit_code == 0
    line = "valid: profiles a, b, 1 extender, lease kube-system/kube-scheduler"
    assert result.stdout == f"{file}: {line}\n"


def test_every_problem_is_a_line(tmp_path: Path) -> None:
    file = file_with(
        tmp_path, "paralelism: 3\nprofiles: [{pluginConfig: [{nam: a}]}]\nleaderElection: []"
    )
    result = run("check", file)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{file}: paralelism: unknown field, did you mean parallelism?",
        f"{file}: profiles[0].pluginConfig[0].nam: unknown field, did you mean name?",
        f"{file}: leaderElection: expected a mapping, got a list",
    ]
    assert result.stderr == ""


def test_a_package_that_cannot_be_imported_is_a_line_and_its_traceback_is_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "falling", "raise RuntimeError('fallen')", Falling="falling:Falling")
    file = file_with(tmp_path, "profiles: [{plugins: {multiPoint: {enabled: [{name: Falling}]}}}]")
    result = run("check", file)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"{file}: profiles[0].plugins: plugin Falling of package falling")
    assert line.endswith("cannot be loaded: RuntimeError: fallen")
    assert '"plugin cannot be loaded"' in result.stderr
    answer = json.loads(run("check", file, "-o", "json").stdout)
    assert answer["problems"] == [line.removeprefix(f"{file}: ")]


def test_the_problems_of_all_plugins_are_found_at_once(tmp_path: Path) -> None:
    file = file_with(
        tmp_path,
        "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: Nod}]}}, pluginConfig: ["
        "{name: NodeResourcesFit, args: {scoringStrategy: {}, ignoredResources: ['a b']}}]}, "
        "{schedulerName: b, pluginConfig: [{name: VolumeBinding, args: {bindTimeout: 3}}]}]",
    )
    result = run("check", file)
    assert [line.removeprefix(f"{file}: ") for line in result.stdout.splitlines()] == [
        "profiles[0].plugins.score.enabled[0].name: unknown plugin 'Nod'",
        (
            "profiles[0].pluginConfig[0].args.ignoredResources[0]: expected the name of a "
            "resource, got 'a b'"
        ),
        (
            "profiles[0].pluginConfig[0].args.scoringStrategy.type: expected one of "
            "LeastAllocated, MostAllocated, RequestedToCapacityRatio, got nothing"
        ),
        (
            "profiles[1].pluginConfig[0].args.bindTimeout: unknown field, did you mean "
            "bindTimeoutSeconds?"
        ),
    ]


def test_what_has_no_effect_is_a_warning(tmp_path: Path) -> None:
    file = file_with(tmp_path, "profiles: [{pluginConfig: [{name: NodeAfinity}]}]")
    result = run("check", file)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == (
        f"{file}: warning: profiles[0].pluginConfig[0].name: no effect: unknown plugin "
        "'NodeAfinity', did you mean NodeAffinity?"
    )


def test_documents_after_the_first_have_no_effect(tmp_path: Path) -> None:
    file = file_with(tmp_path, "---\nkind: ConfigMap\n")
    result = run("check", file)
    assert result.exit_code == 0
    line = "warning: the documents after the first have no effect, as in kube-scheduler"
    assert f"{file}: {line}\n" in result.stdout


ARGUMENTS = """
import msgspec
from berth.plugin import PreEnqueuePlugin, SUCCESS, read_args

class Args(msgspec.Struct, forbid_unknown_fields=True):
    percent: int = 10

class Judged(PreEnqueuePlugin):
    name = "Judged"
    args_type = Args

    def __init__(self, args, handle):
        super().__init__({}, handle)
        self.args = read_args(args, Args)

    def pre_enqueue(self, pod):
        return SUCCESS

class Bare(PreEnqueuePlugin):
    name = "Bare"

    def pre_enqueue(self, pod):
        return SUCCESS
"""


@pytest.mark.parametrize(
    ("plugin", "args", "problem"),
    [
        ("Judged", "{percent: 3}", ""),
        ("Judged", "{percent: many}", "percent: Expected `int`, got `str`"),
        ("Judged", "{precent: 3}", "precent: unknown field"),
        ("Bare", "{percent: 3}", "percent: unknown field, Bare takes no arguments"),
    ],
)
def test_the_arguments_of_plugins_of_packages_are_judged(
    plugin: str, args: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    names = {name: f"with_arguments:{name}" for name in ("Judged", "Bare")}
    install(tmp_path, "with_arguments", ARGUMENTS, **names)
    enabled = f"plugins: {{multiPoint: {{enabled: [{{name: {plugin}}}]}}}}"
    configured = f"pluginConfig: [{{name: {plugin}, args: {args}}}]"
    file = file_with(tmp_path, f"profiles: [{{{enabled}, {configured}}}]")
    result = run("check", file)
    assert result.exit_code == bool(problem)
    assert f"profiles[0].pluginConfig[0].args.{problem}" in result.stdout or not problem


def test_a_check_in_json(tmp_path: Path) -> None:
    good = file_with(tmp_path, "profiles: [{schedulerName: a}]")
    expected = {"file": str(good), "valid": True, "problems": [], "warnings": [], "profiles": ["a"]}
    assert json.loads(run("check", good, "-o", "json").stdout) == expected
    bad = tmp_path / "none.yaml"
    result = run("check", bad, "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == ["cannot be read: No such file or directory"]


def test_gates_decide_what_is_valid(tmp_path: Path) -> None:
    shape = "{shape: [{utilization: 0, score: 1}]}"
    text = f"profiles: [{{pluginConfig: [{{name: VolumeBinding, args: {shape}}}]}}]"
    file = file_with(tmp_path, text)
    assert run("check", file).exit_code == 1
    assert run("check", file, "--feature-gates", "StorageCapacityScoring=true").exit_code == 0
    assert run("check", file, "--feature-gates", "Storage=true").exit_code == 2


def test_a_file_is_checked_for_a_version(tmp_path: Path) -> None:
    file = file_with(tmp_path, "profiles: [{plugins: {podGroupPostFilter: {}}}]")
    older = run("check", file, "--for", "1.36")
    assert older.exit_code == 1
    assert "podGroupPostFilter: unknown field, Kubernetes has it since 1.37" in older.output
    assert run("check", file, "--for", "1.37").exit_code == 0
    gates = run("check", file, "--for", "1.37", "--feature-gates", "GangScheduling=true")
    assert "GangScheduling, a gate of Kubernetes 1.35 and 1.36" in gates.output
    assert run("check", file, "--for", "1.12").exit_code == 2


def test_a_file_is_checked_for_a_version_older_than_berth_decides_as(tmp_path: Path) -> None:
    file = file_with(tmp_path, "profiles: [{plugins: {placementScore: {}}}]")
    assert run("check", file).exit_code == 0
    older = run("check", file, "--for", "1.35")
    assert older.exit_code == 1
    assert "placementScore: unknown field, Kubernetes has it since 1.36" in older.output
    file = file_with(tmp_path, "profiles: [{schedulerName: a}]")
    removed = ("check", file, "--feature-gates", "InPlacePodVerticalScalingAllocatedStatus=true")
    assert run(*removed, "--for", "1.35").exit_code == 0
    newer = run(*removed)
    assert newer.exit_code == 2
    assert "a gate of Kubernetes 1.35" in newer.output
    added = run("check", file, "--feature-gates", "AtomicFIFO=true", "--for", "1.35")
    assert "AtomicFIFO, a gate of Kubernetes 1.36 and 1.37 and 1.38" in added.output


def test_the_default_of_an_older_version_lacks_what_came_later() -> None:
    older = yaml.safe_load(run("default", "--for", "1.35").stdout)["profiles"][0]
    newer = yaml.safe_load(run("default").stdout)["profiles"][0]
    assert {*newer["plugins"]} - {*older["plugins"]} == {"placementGenerate", "placementScore"}
    names = [
        [plugin["name"] for plugin in profile["plugins"]["multiPoint"]["enabled"]]
        for profile in (older, newer)
    ]
    assert names[1] == [*names[0], "NodeDeclaredFeatures"]


def test_the_default_is_what_kube_scheduler_writes() -> None:
    (default,) = (
        answer.written
        for case, answer in zip(cases(), answers(), strict=True)
        if not case.text and not case.gates
    )
    assert run("default").stdout == yaml.safe_dump(default)


def test_a_file_is_converted_and_the_changes_are_named(tmp_path: Path) -> None:
    head = HEAD.replace("/v1\n", "/v1beta3\n")
    file = file_with(tmp_path, "healthzBindAddress: ':1'\n", head)
    result = run("convert", file)
    assert result.exit_code == 0
    assert result.stdout == HEAD
    assert result.stderr.splitlines() == [
        f"{file}: apiVersion: kubescheduler.config.k8s.io/v1",
        (
            f"{file}: healthzBindAddress: removed, --bind-address and --secure-port say where "
            "health is served"
        ),
    ]
    file.write_text(result.stdout)
    again = run("convert", file)
    assert (again.exit_code, again.stdout) == (0, HEAD)
    assert again.stderr == f"{file}: it is in v1 already\n"


def test_a_file_is_converted_for_a_version_that_has_its_fields(tmp_path: Path) -> None:
    text = "profiles: [{plugins: {podGroupPostFilter: {}}}]\n"
    file = file_with(tmp_path, text, HEAD.replace("/v1\n", "/v1beta3\n"))
    older, newer = run("convert", file), run("convert", file, "--for", "1.37")
    assert (older.exit_code, newer.exit_code) == (1, 0)
    assert older.stderr.endswith("unknown field, Kubernetes has it since 1.37\n")
    assert newer.stdout == older.stdout
    assert "podGroupPostFilter: {}" in newer.stdout


@pytest.mark.parametrize(
    ("text", "head", "line"),
    [
        (
            "profiles: [{plugins: {filter: {enabled: [{name: NodeLabel}]}}}]",
            HEAD.replace("/v1\n", "/v1beta1\n"),
            "by hand: profiles[0].plugins.filter: NodeLabel",
        ),
        ("parallelism: 0", HEAD.replace("/v1\n", "/v1beta3\n"), "parallelism: expected"),
        ("{kind: Policy, apiVersion: v1}", "", "kind: Policy was removed"),
        ("3", "", "expected a KubeSchedulerConfiguration, got a number"),
    ],
)
def test_what_cannot_be_converted_is_named(text: str, head: str, line: str, tmp_path: Path) -> None:
    file = file_with(tmp_path, text, head)
    result = run("convert", file)
    assert result.exit_code == 1
    assert any(text.startswith(f"{file}: {line}") for text in result.stderr.splitlines())


# -------------------------------------------------------------------------------------- the schema


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(run("schema").stdout)


def test_the_schema_accepts_what_is_valid(schema: Any) -> None:
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for block in configurations():
        if block.page == "configuration.md":
            assert not list(validator.iter_errors(yaml.safe_load(block.text))), str(block)
    for case, answer in zip(cases(), answers(), strict=True):
        if answer.written is not None and not case.stricter:
            assert not list(validator.iter_errors(_set_fields(answer.written)))


def _set_fields(value: Any) -> Any:
    """Returns a document without the nulls that kube-scheduler writes."""
    if isinstance(value, dict):
        return {name: _set_fields(item) for name, item in value.items() if item is not None}
    return [_set_fields(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "text",
    [
        "paralelism: 3",
        "parallelism: 0",
        "parallelism: many",
        "percentageOfNodesToScore: 101",
        "leaderElection: {leaderElected: true}",
        "leaderElection: {leaseDuration: 15}",
        "leaderElection: {leaseDuration: soon}",
        "profiles: [{plugins: {scoring: {}}}]",
        "profiles: [{plugins: {score: {enabled: [{weight: 1}]}}}]",
        "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAfinity: {}}}]}]",
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {typ: A}}}]}]",
        "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: Some}}]}]",
        "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {kind: NodeAffinityArgs}}]}]",
        "extenders: [{urlprefix: a}]",
        "extenders: [{httpTimeout: 5}]",
    ],
)
def test_the_schema_refuses_what_is_not(text: str, schema: Any) -> None:
    validator = Draft202012Validator(schema)
    assert list(validator.iter_errors(yaml.safe_load(HEAD + text)))
    assert not validator.is_valid({"kind": "KubeSchedulerConfiguration"})


def test_the_schema_completes_in_editors(schema: Any) -> None:
    definitions = schema["$defs"]
    for name, component in definitions.items():
        if name.endswith("Args") or name in ("KubeSchedulerConfiguration", "Extender", "Plugins"):
            assert component["description"]
            for field in component["properties"].values():
                assert field["description"], name
    names = definitions["PluginRef"]["properties"]["name"]["anyOf"][0]["enum"]
    assert {"NodeAffinity", "DefaultBinder"} <= set(names)
    assert definitions["DynamicResourcesArgs"]["properties"]["filterTimeout"]["default"] == "10s"
    assert definitions["KubeSchedulerConfiguration"]["properties"]["parallelism"]["default"] == 16
