"""Folders of manifests are read as kubectl reads them: what is wrong leaves one object out."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from berth.tools.answers.manifests.manifests import (
    Findings,
    ManifestError,
    Manifests,
    Reading,
    read,
)
from berth.tools.views.commands.explain import explain
from berth.tools.views.commands.whatif import whatif
from tests.kit.calls import CallCounter

NODE = """
apiVersion: v1
kind: Node
metadata: {name: one}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
"""
SPEC = "spec: {containers: [{name: c, image: i}]}"
UNTYPED = '{"metadata": {"name": "%s"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}'


def pod(name: str, spec: str = SPEC, metadata: str = "") -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{metadata}}}\n{spec}\n"


def written(folder: Path, **files: str) -> Path:
    """Writes files; `_` in the name of one stands for a dot."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def lenient(*paths: Path, recursive: bool = False) -> Manifests:
    return read(paths, reading=Reading(recursive, Findings()))


def names(manifests: Manifests) -> list[str]:
    return [of.document["metadata"].get("name", "") for of in manifests.objects]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(explain, [str(argument) for argument in arguments])


def test_an_object_that_cannot_be_used_leaves_the_others(tmp_path: Path) -> None:
    bad = pod("bad", "spec: {containrs: []}", ", namespace: shop")
    written(
        tmp_path,
        a_yaml=f"# a comment\n{pod('one')}---\n{bad}---\na: [\n---\n{pod('two')}",
        b_yml="values: {replicas: 3}",
        c_json=f'{{"apiVersion": "v1", "kind": "List", "items": [3, {UNTYPED % "x"}]}}',
        d_yaml=pod("three"),
    )
    manifests = lenient(tmp_path)
    expected = "expected an object with apiVersion, kind and metadata"
    assert names(manifests) == ["one", "two", "three"]
    assert manifests.findings.problems == [
        f'{tmp_path}/a.yaml:7, Pod shop/bad: unknown field "spec.containrs"',
        f"{tmp_path}/a.yaml: cannot be read: line 13: did not find expected node content",
        f"{tmp_path}/b.yml:1: {expected}",
        f"{tmp_path}/c.json:1, items[0]: {expected}",
        f"{tmp_path}/c.json:1, items[1]: {expected}",
    ]


def test_all_problems_are_told_before_the_answer_and_the_exit_code_is_one(tmp_path: Path) -> None:
    priced = pod("dear", "spec: {containers: [{name: c, image: i}], priorityClassName: none}")
    written(tmp_path, a_yaml=f"{NODE}---\n{priced}---\n{pod('fine')}", b_yaml="a: b")
    result = run("-f", tmp_path)
    assert result.exit_code == 1
    assert "default/fine" in result.stdout
    assert result.stderr.splitlines() == [
        f"{tmp_path}/b.yaml:1: expected an object with apiVersion, kind and metadata",
        (
            f'{tmp_path}/a.yaml:7: Pod dear: pods "dear" is forbidden: no PriorityClass with name '
            "none was found"
        ),
    ]
    strict = run("-f", tmp_path, "--strict")
    assert (strict.exit_code, strict.stdout) == (1, "")
    assert strict.stderr.startswith(f"Error: {tmp_path}/b.yaml:1: expected an object")


def test_a_step_applies_what_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(NODE)
    (tmp_path / "more").mkdir()
    written(tmp_path / "more", a_yaml=f"{pod('bad', 'spec: {}')}---\n{pod('good')}", b_yaml="a: b")
    arguments = ["-f", str(tmp_path / "cluster.yaml"), f"apply {tmp_path}/more"]
    result = CliRunner().invoke(whatif, arguments)
    assert result.exit_code == 1
    assert "default/good" in result.stdout
    assert f"{tmp_path}/more/b.yaml:1: expected an object" in result.stderr
    assert f"{tmp_path}/more/a.yaml:1: " in result.stderr
    assert CliRunner().invoke(whatif, [*arguments, "--strict"]).exit_code == 2


def test_objects_without_a_name_are_as_many_as_there_are(tmp_path: Path) -> None:
    hatched = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: bee-}\n" + SPEC
    written(tmp_path, a_yaml=f"{NODE}---\n{hatched}\n---\n{hatched}\n---\n{pod('bee-2')}")
    result = run("-f", tmp_path)
    assert result.exit_code == 0
    assert all(f"default/bee-{number}" in result.stdout for number in (1, 2, 3))
    assert run("-f", tmp_path, "--pod", "bee-1").exit_code == 0


def test_a_custom_resource_may_be_called_as_a_kind_of_kubernetes(tmp_path: Path) -> None:
    written(
        tmp_path,
        a_yaml="apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: hello}",
        b_yaml="apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}",
        c_yaml="apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: old}",
        d_yaml=pod("plain"),
    )
    manifests = lenient(tmp_path)
    assert names(manifests) == ["plain"]
    assert list(manifests.left_out) == [
        "serving.knative.dev/v1 Service",
        "batch.volcano.sh/v1alpha1 Job",
    ]
    assert manifests.findings.problems == [
        (
            f"{tmp_path}/c.yaml:1, Deployment old: unknown kind extensions/v1beta1 Deployment: "
            "expected apps/v1"
        )
    ]


def test_the_later_of_two_that_differ_wins_and_both_files_are_named(tmp_path: Path) -> None:
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: forest}\n---\n"
    written(
        tmp_path, a_yaml=space + pod("elm"), b_yaml=space + pod("elm", metadata=", labels: {a: b}")
    )
    manifests = lenient(tmp_path)
    assert [of.where for of in manifests.objects] == [
        f"{tmp_path}/b.yaml:1",
        f"{tmp_path}/b.yaml:5",
    ]
    assert manifests.findings.warnings == [
        f"{tmp_path}/b.yaml:5: Pod default/elm is in {tmp_path}/a.yaml:5 too: the later one counts"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'{{"apiVersion": "v1", "kind": "PodList", "items": [{UNTYPED % "a"}]}}', ["a"]),
        ('{"apiVersion": "v1", "kind": "PodList", "items": null}', []),
        (
            "".join(
                UNTYPED.replace("{", '{"apiVersion": "v1", "kind": "Pod", ', 1) % n for n in "ab"
            ),
            ["a", "b"],
        ),
        (f"{pod('a')}--- # next\n{pod('b')}...\n---\t\r\n\r\n---\n# nothing\n", ["a", "b"]),
        (f"%YAML 1.1\n---\n{pod('a')}", ["a"]),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a}, " + SPEC + "}", ["a"]),
    ],
)
def test_other_forms_of_texts(tmp_path: Path, text: str, expected: list[str]) -> None:
    written(tmp_path, a_json=text, b_yaml=pod("last"))
    assert names(lenient(tmp_path)) == [*expected, "last"]


@pytest.mark.parametrize(
    "text",
    [
        pod("a", metadata=", name: b"),
        (
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "name": "b"}, '
            '"spec": {"containers": [{"name": "c", "image": "i"}]}}'
        ),
    ],
)
def test_a_key_that_occurs_twice_is_told(tmp_path: Path, text: str) -> None:
    manifests = lenient(written(tmp_path, a_yaml=text))
    assert names(manifests) == ["b"]
    (warning,) = manifests.findings.warnings
    assert warning.startswith(f"{tmp_path}/a.yaml:")
    assert "the key name occurs twice" in warning
    assert warning.endswith(": the later value counts")
    with pytest.raises(ManifestError, match="occurs twice"):
        read([tmp_path])


def test_sub_folders_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "base" / "db").mkdir(parents=True)
    written(tmp_path / "base" / "db", a_yaml=pod("deep"))
    with pytest.raises(ManifestError, match="its sub-folders have some: add -R"):
        lenient(tmp_path)
    written(tmp_path, b_yaml=pod("near"), c_txt="no manifest", d_YAML="nor this")
    assert names(lenient(tmp_path)) == ["near"]
    assert names(lenient(tmp_path, recursive=True)) == ["near", "deep"]


def test_a_url_is_called_one(tmp_path: Path) -> None:
    result = run("-f", "https://k8s.io/examples/pod.yaml")
    assert result.exit_code == 2
    assert "https://k8s.io/examples/pod.yaml is a URL, and only files are read" in result.stderr
    step = CliRunner().invoke(whatif, ["-f", str(written(tmp_path, a_yaml=NODE)), "apply ftp://x"])
    assert (step.exit_code, "ftp://x is a URL" in step.stderr) == (2, True)
    assert "nowhere.yaml does not exist" in run("-f", tmp_path / "nowhere.yaml").stderr


def test_patterns_and_commas_name_files(tmp_path: Path) -> None:
    written(tmp_path, node_yaml=NODE, a_yaml=pod("a"), b_yaml=pod("b"))
    result = run("-f", f"{tmp_path}/node.yaml,{tmp_path}/[ab].yaml")
    assert result.exit_code == 0
    assert "default/a" in result.stdout
    assert "default/b" in result.stdout


def test_a_long_document_of_a_kind_that_nobody_reads_is_not_parsed(tmp_path: Path) -> None:
    fields = "".join(f"  field{number}: {{type: string}}\n" for number in range(20_000))
    definition = (
        f"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n{fields}"
    )
    written(tmp_path, a_yaml=f"{definition}---\n{pod('a')}---\n{definition}")
    with CallCounter() as counter:
        manifests = lenient(tmp_path)
    assert manifests.left_out == {"CustomResourceDefinition": 2}
    assert names(manifests) == ["a"]
    assert counter.calls < 5_000


@pytest.mark.parametrize("text", ['{"a": ' * 200 + "1" + "}" * 200, '{"a": [' * 100_000, '{"a": 1'])
def test_hostile_json_is_a_problem_like_any_other(tmp_path: Path, text: str) -> None:
    manifests = lenient(written(tmp_path, a_json=text, b_yaml=pod("b")))
    assert names(manifests) == ["b"]
    (problem,) = manifests.findings.problems
    assert problem.startswith(f"{tmp_path}/a.json: cannot be read: line ")


def test_the_namespace_of_an_object_that_is_in_none_does_not_count(tmp_path: Path) -> None:
    """As in Kubernetes; charts write the namespace of their release everywhere."""
    high = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nvalue: 9\n"
    classes = f"{high}metadata: {{name: high, namespace: shop}}"
    spec = "spec: {containers: [{name: c, image: i}], priorityClassName: high}"
    written(tmp_path, a_yaml=f"{NODE}---\n{classes}\n---\n{pod('p', spec)}")
    result = run("-f", tmp_path)
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_file_without_end_is_read_until_it_is_no_text() -> None:
    with pytest.raises(ManifestError, match="/dev/zero: cannot be read: line 1: "):
        lenient(Path("/dev/zero"))


def test_the_image_of_a_disk_is_not_read_whole(tmp_path: Path) -> None:
    image = tmp_path / "disk.yaml"
    with image.open("wb") as file:
        file.truncate(1 << 40)
    written(tmp_path, pod_yaml=pod("one"))
    manifests = lenient(tmp_path)
    assert names(manifests) == ["one"]
    assert len(manifests.findings.problems) == 1
