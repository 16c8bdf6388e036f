"""Hostile manifests: `berth explain` and `berth demo` refuse them in one line, with the field's
path.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from berth.config.load import from_mapping
from berth.tools.answers.explain.cluster_source import SourceError, from_manifests, question_about
from berth.tools.answers.explain.decider import answer
from berth.tools.answers.explain.decision import Explanation
from berth.tools.answers.explain.subject import Subject
from berth.tools.answers.manifests.manifests import ManifestError, Reading, read
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.testing.demo.command import demo
from berth.tools.views.commands.explain import explain
from tests.kit.cases import texts
from tests.kit.stores import fresh_store

NODE = (
    "{apiVersion: v1, kind: Node, metadata: {name: one}, status: {allocatable: {cpu: 4, "
    "memory: 8Gi, pods: 110}}}"
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = "maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule"


def pod(spec: str, *, resources: str = "{}", metadata: str = "name: p") -> str:
    container = f"{{name: c, image: i, resources: {resources}}}"
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{{metadata}}}, "
        f"spec: {{containers: [{container}], {spec}}}}}"
    )


def node_term(requirement: str) -> str:
    return pod(
        "affinity: "
        f"{{nodeAffinity: {{{REQUIRED}: "
        f"{{nodeSelectorTerms: [{{matchExpressions: [{requirement}]}}]}}}}}}"
    )


def pod_term(term: str, which: str = "podAffinity") -> str:
    return pod(f"affinity: {{{which}: {{{REQUIRED}: [{term}]}}}}")


def spread(constraint: str) -> str:
    return pod(f"topologySpreadConstraints: [{{{constraint}}}]")


IN_TERM = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
IN_AFFINITY = f"spec.affinity.podAffinity.{REQUIRED}[0]"
IN_SPREAD = "spec.topologySpreadConstraints[0]"
CPU = "spec.containers[0].resources.requests"
GARBAGE = "quantities must match the regular expression"

# A manifest, the path of the field, and the error.
FIELDS = [
    *(
        (pod(spec), path, problem)
        for spec, path, problem in texts("""
nodeSelectr: {a: b} => => unknown field "spec.nodeSelectr"
tolerations: {key: a} => spec.tolerations => cannot unmarshal object into Go struct field
tolerations: [a] => spec.tolerations[0] => cannot unmarshal string into Go struct field
nodeSelector: [a] => spec.nodeSelector => of type map[string]string
nodeSelector: {a: 1} => spec.nodeSelector.a => cannot unmarshal number
nodeSelector: {a: y} => spec.nodeSelector.a => cannot unmarshal bool
priority: high => spec.priority => of type int32
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule},
    {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}] =>
    spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable} => Duplicate value
tolerations: [{operator: Maybe}] => spec.tolerations[0].operator => Unsupported value
tolerations: [{key: a, effect: Never}] => spec.tolerations[0].effect => Unsupported value
tolerations: [{operator: Equal}] => spec.tolerations[0].operator =>
    operator must be Exists when `key` is
schedulingGates: [{name: ''}] => spec.schedulingGates[0] => name part must be non-empty
schedulingGates: [{name: a}, {name: a}] => spec.schedulingGates[1] => Duplicate value
priorityClassName: none-such => => no PriorityClass with name none-such was found
priority: 5 => => the integer value of priority (5) must not be provided in pod spec
runtimeClassName: none-such => => RuntimeClass "none-such" not found
""")
    ),
    *(
        (pod("", metadata=metadata), path, problem)
        for metadata, path, problem in texts("""
name: p, lables: {a: b} => => unknown field "metadata.lables"
name: 3 => metadata.name => of type string
name: P => metadata.name => a lowercase RFC 1123 subdomain must consist of
labels: {a: b} => metadata.name => name or generateName is required
name: p, labels: {a: b c} => metadata.labels => a valid label must be
""")
    ),
    *(
        (pod("", resources=resources), f"{CPU}{path}", problem)
        for resources, path, problem in texts("""
{requests: {cpu: '-1'}} => [cpu] => must be greater than or equal to 0
{requests: {cpu: lots}} => .cpu => quantities must match the regular expression
{requests: {cpu: 1.2.3}} => .cpu => quantities must match the regular expression
{requests: {cpu: ''}} => .cpu => quantities must match the regular expression
{requests: {memory: 1GiB}} => .memory => quantities must match the regular expression
{requests: {memory: [1]}} => .memory => quantities must match the regular expression
{requests: {cpu: 2}, limits: {cpu: 1}} => => must be less than or equal to cpu limit of 1
{requests: {gpus: 1}} => [gpus] => must be a standard resource
{requests: {example.com/gpu: 1500m}} => [example.com/gpu] => must be an integer
""")
    ),
    *(
        (node_term(term), f"{IN_TERM}.{field}", problem)
        for term, field, problem in texts("""
{key: a, operator: Maybe, values: [b]} => operator => not a valid selector operator
{key: a, operator: In} => values => must be specified when `operator` is 'In' or 'NotIn'
{key: a, operator: Gt} => values => must be specified single value when `operator` is
{key: a, operator: Exists, values: [b]} => values => may not be specified when `operator`
""")
    ),
    *(
        (pod_term(term), f"{IN_AFFINITY}.{field}", problem)
        for term, field, problem in texts("""
{labelSelector: {}} => topologyKey => Required value: can not be empty
{topologyKey: a b} => topologyKey => name part must consist of
{topologyKey: z, labelSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}} =>
    labelSelector.matchExpressions[0].operator => not a valid selector operator
{topologyKey: z, labelSelector: {matchLabels: {a: b c}}} => labelSelector.matchLabels =>
    a valid label must be
{topologyKey: z, matchLabelKeys: [a]} => matchLabelKeys =>
    must not be specified when labelSelector is not set
""")
    ),
    *(
        (spread(constraint), f"{IN_SPREAD}.{field}", problem)
        for constraint, field, problem in texts("""
maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule => maxSkew =>
    must be greater than zero
maxSkew: -1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule => maxSkew =>
    must be greater than zero
maxSkew: 1, whenUnsatisfiable: DoNotSchedule => topologyKey => can not be empty
maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never => whenUnsatisfiable =>
    Unsupported value: "Never": supported values: "DoNotSchedule", "ScheduleAnyway"
maxSkew: 1, topologyKey: zone => whenUnsatisfiable => Unsupported value: ""
maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 0 => minDomains =>
    must be greater than zero
maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Sometimes =>
    nodeTaintsPolicy => Unsupported value
""")
    ),
    (spread(f"{SPREAD}, skew: 3"), "", 'unknown field "spec.topologySpreadConstraints[0].skew"'),
    (pod("", resources=f"{{requests: {{cpu: '{'9' * 5000}x'}}}}"), f"{CPU}.cpu", GARBAGE),
    (
        pod(f"affinity: {{nodeAffinity: {{{REQUIRED}: {{nodeSelectorTerms: []}}}}}}"),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        "must have at least one node selector term",
    ),
    (
        pod(f"affinity: {{nodeAffinity: {{{PREFERRED}: [{{weight: 0, preference: {{}}}}]}}}}"),
        f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight",
        "must be in the range 1-100",
    ),
    (
        pod(
            f"affinity: {{podAffinity: {{{PREFERRED}: "
            "[{weight: 101, podAffinityTerm: {topologyKey: z}}]}}"
        ),
        f"spec.affinity.podAffinity.{PREFERRED}[0].weight",
        "must be in the range 1-100",
    ),
    (
        pod_term("{}", "podAntiAffinity"),
        f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey",
        "can not be empty",
    ),
    (
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}",
        "spec.containers",
        "Required value",
    ),
    ("{apiVersion: v1, kind: Pod, metadata: {name: p}}", "spec.containers", "Required value"),
    (
        NODE.replace("cpu: 4", "cpu: -4"),
        "status.allocatable[cpu]",
        "must be greater than or equal to 0",
    ),
    (NODE.replace("cpu: 4", "cpu: much"), "status.allocatable.cpu", GARBAGE),
    (
        NODE.replace("status", "spec: {taints: [{key: a, effect: Never}]}, status"),
        "spec.taints[0].effect",
        "Unsupported value",
    ),
    (
        NODE.replace("name: one", "name: one, labels: {'a b': c}"),
        "metadata.labels",
        "name part must consist of",
    ),
    (
        (
            "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: c}, "
            "value: 2000000000}"
        ),
        "value",
        "maximum allowed value",
    ),
]

# Twelve lists, each of nine aliases of the one before.
BILLION = b"a: &a [x, x]\n" + b"".join(
    b"b%d: &b%d [%s]\n" % (i, i, b", ".join([b"*b%d" % (i - 1) if i else b"*a"] * 9))
    for i in range(12)
)
FILES = [
    (b"", "expected an object with apiVersion, kind and metadata, got nothing"),
    (
        b"---\n# nothing\n---\n",
        "expected an object with apiVersion, kind and metadata, got nothing",
    ),
    (b"hello", ":1: expected an object with apiVersion, kind and metadata"),
    (b"{}", ":1: expected an object with apiVersion, kind and metadata"),
    (b"{apiVersion: v1, kind: Pod}", ":1: metadata: expected an object with a name"),
    (
        b"{apiVersion: v1, kind: Pod, metadata: p}",
        ":1: metadata: expected an object with a name",
    ),
    (b"{apiVersion: v2, kind: Pod, metadata: {name: b}}",
     ":1, Pod b: unknown kind v2 Pod: expected v1"),
    (
        b"{apiVersion: [], kind: {a: b}, metadata: {name: b}}",
        ":1: expected an object with apiVersion",
    ),
    (
        b"{apiVersion: [1], kind: {a: b}, metadata: {name: b}}",
        ":1: expected an object with apiVersion",
    ),
    (
        b"{apiVersion: v1, kind: List, items: [3]}",
        ":1, items[0]: expected an object with apiVersion",
    ),
    (b"{apiVersion: v1, kind: List, items: 3}", ":1: items: expected a list"),
    (
        NODE.encode() + b"\n---\nhello",
        ":3: expected an object with apiVersion, kind and metadata",
    ),
    (b"\x00\x01\xff\xfe", "cannot be read: line 1: "),
    (b"\x7fELF\x02\x01\x01", "cannot be read: line 1: "),
    (b"a: [", "cannot be read: line "),
    (b"apiVersion: v1\napiVersion: v1\n",
     "cannot be read: line 2: the key apiVersion occurs twice in the mapping of line 1"),
    (b"[" * 200_000, "cannot be read: line 1: expected at most 100 nested collections"),
    (b"a: &a [*a]", "cannot be read: line 1: expected the anchor of the alias *a to end before it"),
    (BILLION, "expected aliases to expand to at most 16 MiB"),
]  # fmt: skip


def refused_by(command: str, *manifests: Path) -> str:
    """Returns why a command does not take the manifests."""
    take = explained if command == "explain" else created
    with pytest.raises((ManifestError, RefusedError, SourceError)) as refused:
        take(*manifests)
    return str(refused.value)


def created(*manifests: Path) -> None:
    api = Api(fresh_store())
    api.seed()
    for kind, document, _ in read(manifests).objects:
        api.create(kind, "default" if kind.namespaced else "", document)


def explained(*manifests: Path) -> Explanation:
    documents = from_manifests(manifests)
    return answer(question_about(Subject.parse("p"), documents, from_mapping(None)))


@pytest.mark.parametrize("command", ["explain", "demo"])
def test_an_invalid_field_is_named(command: str, tmp_path: Path) -> None:
    for text, path, problem in FIELDS:
        manifest = tmp_path / "m.yaml"
        manifest.write_text(text)
        line = refused_by(command, manifest)
        assert "\n" not in line, text
        assert problem in line, text
        assert f" {path}: " in line.replace("[spec", " spec") or not path, text


@pytest.mark.parametrize("command", ["explain", "demo"])
def test_a_file_that_cannot_be_used_is_named(command: str, tmp_path: Path) -> None:
    for raw, problem in FILES:
        manifest = tmp_path / "m.yaml"
        manifest.write_bytes(raw)
        line = refused_by(command, manifest)
        assert line.startswith(str(manifest)), raw
        assert problem in line, raw


def test_a_command_says_in_one_line_what_it_does_not_take(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    for command, more in ((explain, ["--pod", "p"]), (demo, ["--nodes", "0"])):
        result = CliRunner().invoke(command, ["-f", str(tmp_path), *more])
        assert (result.exit_code, result.stdout) == (1, "")
        expected = "expected a folder with *.yaml, *.yml, *.json files"
        assert result.stderr == f"Error: {tmp_path}: {expected}\n"


@pytest.mark.parametrize("text", ["", "---\n# nothing\n---\n"])
def test_a_file_of_a_folder_may_hold_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text(pod(""))
    assert [of.kind.kind for of in read([tmp_path]).objects] == ["Pod"]
    with pytest.raises(ManifestError, match=r"a\.yaml: expected an object"):
        read([tmp_path, tmp_path / "a.yaml"])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding.endswith("-be") else ""
    (tmp_path / "a.yaml").write_bytes(f"{mark}{pod('')}\n---\n{pod('')}".encode(encoding))
    objects = read([tmp_path], reading=Reading()).objects
    assert [of.kind.kind for of in objects] == ["Pod"], "the second is the same"


@pytest.mark.parametrize("text", ["# nothing\n", "{apiVersion: v1, kind: List, items: []}"])
def test_a_file_without_objects_does_not_stop_the_others(tmp_path: Path, text: str) -> None:
    """kubectl writes an empty List of objects that do not exist, and applies it beside others."""
    (tmp_path / "budgets.yaml").write_text(text)
    (tmp_path / "pod.yaml").write_text(pod(""))
    paths = [tmp_path / "budgets.yaml", tmp_path / "pod.yaml"]
    manifests = read(paths, reading=Reading())
    assert [of.kind.kind for of in manifests.objects] == ["Pod"]
    (line,) = manifests.findings.untold()
    assert line.startswith(f"{paths[0]}: expected an object")
    assert line.endswith("got nothing: the others are read")
    with pytest.raises(ManifestError, match=r"budgets\.yaml: expected an object"):
        read(paths[:1], reading=Reading())


def test_some_file_of_a_folder_holds_an_object(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("")
    (tmp_path / "b.yaml").write_text("# nothing\n")
    expected = f"{tmp_path}: expected an object with apiVersion, kind and metadata, got nothing"
    assert refused_by("explain", tmp_path) == expected


def test_a_duplicate_object_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(pod(""))
    (tmp_path / "b.yaml").write_text(pod(""))
    expected = f"{tmp_path}/b.yaml:1: Pod default/p is in {tmp_path}/a.yaml:1 too"
    for command in ("explain", "demo"):
        assert refused_by(command, tmp_path) == expected


def test_nulls_are_absent(tmp_path: Path) -> None:
    spec = (
        "nodeSelector: null, tolerations: ~, affinity: null, topologySpreadConstraints: , "
        "nodeName: null"
    )
    (tmp_path / "m.yaml").write_text(
        f"{NODE}\n---\n{pod(spec, metadata='name: p, labels: null, namespace: ~')}"
    )
    result = CliRunner().invoke(explain, ["-f", str(tmp_path), "--pod", "p", "-o", "json"])
    assert result.exit_code == 0, result.output
    assert '"hosts":["one"]' in result.stdout


def test_fields_set_by_admission_count(tmp_path: Path) -> None:
    """The overhead of the pod's runtime class leaves no room for it on a node of four cores."""
    overhead = "handler: vm, overhead: {podFixed: {cpu: 3}}"
    runtime = (
        f"{{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {{name: vm}}, {overhead}}}"
    )
    asks = pod("runtimeClassName: vm", resources="{requests: {cpu: 2}}")
    (tmp_path / "m.yaml").write_text(f"{asks}\n---\n{NODE}\n---\n{runtime}")
    result = CliRunner().invoke(explain, ["-f", str(tmp_path), "--pod", "p", "-o", "json"])
    assert result.exit_code == 0, result.output
    assert "Insufficient cpu" in result.stdout
