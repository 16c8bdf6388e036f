"""What-ifs as questions in JSON: what is refused, and that the objects stay as they are."""

from __future__ import annotations

import json
from contextlib import nullcontext
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from berth.config.feature_gates import DEFAULTS, defaults_of
from berth.config.load import from_mapping
from berth.config.versions import VERSIONS
from berth.tools.answers.explain.cluster_source import SourceError, from_scenario
from berth.tools.answers.terminal.feature_gates import gates_from
from berth.tools.answers.whatif.answer_worker import answer, schema
from berth.tools.answers.whatif.question import Question, RefusedError, question_of
from berth.tools.answers.whatif.tried_documents import Documents
from berth.tools.answers.whatif.weights import weights_of, with_weight
from berth.tools.kubernetes.api.types.api_documents import place_of
from berth.tools.views.commands.whatif import whatif
from tests.kit.documents import thing

SCHEMA = Path(__file__).parents[5] / "docs" / "whatif-schema.json"


def node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    return thing(
        "Node",
        name,
        labels={
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": f"z{number % 2}",
        },
        status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    )


def pod(name: str, cpu: int, on: str = "", **spec: Any) -> dict[str, Any]:
    requests = {"resources": {"requests": {"cpu": str(cpu)}}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}
    return thing(
        "Pod",
        name,
        labels={"app": "a"},
        ownerReferences=[{**owner, "controller": True}],
        spec={
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "nginx", **requests}],
            **({"nodeName": on} if on else {}),
            **spec,
        },
    )


def cluster() -> Documents:
    nodes = [node(number) for number in range(1, 6)]
    running = [pod(f"r-{number}", 2, f"node-{number}") for number in range(1, 6)]
    pending = [pod("big", 4), pod("high", 4, priority=9)]
    others = [pod("other", 1, schedulerName="other")]
    objects = [*nodes, *running, *pending, *others]
    return Documents(objects, from_mapping(None), gates_from(()))


def asked(documents: Documents, *steps: Any, seed: int = 0) -> bytes:
    body = json.dumps({"steps": steps, "seed": seed}).encode()
    return msgspec.json.encode(answer(documents, question_of(body)))


CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
MISTYPED = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, img: nginx}]}
"""
STEPS = (
    ["add 1 like node-2"],
    ["drain node-1", "remove node-1"],
    ["remove node-1", {"apply": [{**node(1), "status": {**node(1)["status"], "capacity": {}}}]}],
    ["cordon node-3", "taint node-2 a=b:NoExecute"],
    [{"apply": [{**pod("new", 2), "metadata": {"name": "new"}}]}, "delete new"],
    [{"configure": {**CONFIGURATION, "percentageOfNodesToScore": 50}}, "remove node-5"],
    ["uncordon node-1"],
    ["weight NodeResourcesFit 7", "weight default-scheduler/ImageLocality 0", "remove node-5"],
    [{"manifests": yaml.safe_dump_all([pod("a", 1), pod("b", 1)])}],
)


def test_a_question_changes_no_answer_of_another_one() -> None:
    documents = cluster()
    for steps in STEPS:
        assert asked(documents, *steps, seed=1) == asked(cluster(), *steps, seed=1), steps
        with pytest.raises(RefusedError):
            asked(documents, "remove node-2", "drain node-2")


@pytest.mark.parametrize(
    ("body", "field", "problem"),
    [
        ({"steps": 3}, "steps", "array"),
        ({"steps": ["flip node-1"]}, "steps[0]", "expected one of add, remove,"),
        ({"steps": ["drain node-1", "drain node-9"]}, "steps[1]", "node-9 does not exist"),
        ({"steps": [], "seed": "x"}, "seed", "int"),
        ({"steps": [], "sede": 1}, "sede", "unknown"),
        ({"steps": [], "nodes": "some"}, "nodes", "'some'"),
        ({"steps": ["apply /etc/passwd"]}, "steps[0]", '{"apply": [OBJECT, ...]}'),
        ({"steps": ["configure /etc/passwd"]}, "steps[0]", '{"configure":'),
        ({"steps": [{}]}, "steps[0]", '{"apply":'),
        ({"steps": [{"apply": [3]}]}, "steps[0].apply[0]", "object"),
        ({"steps": [{"apply": [{"kind": "Pod"}]}]}, "steps[0]", "apiVersion, kind and metadata"),
        ({"steps": [{"configure": {**CONFIGURATION, "profiles": 3}}]}, "steps[0]", "profiles"),
        ({"steps": [{"manifests": "kind: Pod"}]}, "steps[0]", "apiVersion, kind and metadata"),
        ({"steps": [{"manifests": ""}]}, "steps[0]", "manifests: expected an object"),
        ({"steps": [{"manifests": "a: [}"}]}, "steps[0]", "manifests: cannot be read: line 1"),
        (
            {"steps": [{"manifests": MISTYPED}]},
            "steps[0]",
            'Pod p: unknown field "spec.containers[0].img"',
        ),
        ({"steps": ["weight NodeName 5"]}, "steps[0]", "NodeName does not implement score"),
        ({"steps": ["weight ImageLocalty 5"]}, "steps[0]", "unknown plugin 'ImageLocalty'"),
        ({"steps": ["weight x/ImageLocality 5"]}, "steps[0]", "profile of default-scheduler"),
        ({"steps": ["weight ImageLocality -1"]}, "steps[0]", "expected a number, got '-1'"),
        ({"steps": [f"add {'9' * 5000} like n"]}, "steps[0]", "at most 5000 characters"),
        ({"steps": [f"add {'9' * 4500} like n"]}, "steps[0]", "at most 11 digits"),
        ({"steps": ["x" * 1_000_000]}, "steps[0]", "at most 5000 characters"),
        ({"steps": ["cordon node-1"] * 1001}, "steps", "length <= 1000"),
    ],
)
def test_a_wrong_question_is_refused_by_its_field(body: Any, field: str, problem: str) -> None:
    with pytest.raises(RefusedError) as refused:
        answer(cluster(), question_of(json.dumps(body).encode()))
    assert refused.value.status == HTTPStatus.BAD_REQUEST
    assert refused.value.refusal.field == field
    assert problem in refused.value.refusal.problem


def test_what_is_nested_too_deeply_is_refused() -> None:
    nested = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(RefusedError) as refused:
        question_of(b'{"steps": [{"apply": [{"a": %s}]}]}' % nested)
    assert refused.value.refusal.problem == "expected JSON that is nested less deeply"


@pytest.mark.parametrize("step", ["drain node-1", "cordon node-1", "uncordon node-1"])
def test_each_step_looks_at_the_time(step: str) -> None:
    documents = Documents([node(1)], from_mapping(None), gates_from(()))
    with pytest.raises(RefusedError) as refused:
        answer(documents, Question([step]), seconds=-1)
    assert refused.value.status == HTTPStatus.SERVICE_UNAVAILABLE


def test_weights_decide_where_a_pod_lands() -> None:
    """The image is on node-2, which is fuller than node-1."""
    image = {"names": ["nginx:latest"], "sizeBytes": 120 << 20}
    status = {**node(2)["status"], "images": [image]}
    objects = [node(1), {**node(2), "status": status}, pod("runs", 1, "node-2")]
    documents = Documents(objects, from_mapping(None), gates_from(()))
    new = {"manifests": yaml.safe_dump(pod("new", 1))}
    landed = [
        json.loads(asked(documents, *weights, new))["placed"][0]["node"]
        for weights in ([], ["weight ImageLocality 90"], ["weight ImageLocality 0"])
    ]
    assert landed == ["node-1", "node-2", "node-1"]


def test_the_weights_of_a_configuration_are_those_of_each_profile() -> None:
    weights = weights_of(from_mapping(None), DEFAULTS)["default-scheduler"]
    assert weights["TaintToleration"] == 3
    assert weights["ImageLocality"] == 1
    changed = with_weight(from_mapping(None), "ImageLocality", 4)
    changed = with_weight(changed, "default-scheduler/TaintToleration", 0)
    after = weights_of(changed, DEFAULTS)["default-scheduler"]
    kept = {name: weight for name, weight in weights.items() if name != "TaintToleration"}
    assert after == {**kept, "ImageLocality": 4}


def test_a_question_may_ask_for_the_nodes_that_change() -> None:
    steps: list[Any] = ["remove node-4", "add 1 like node-2", "cordon node-3"]
    every = answer(cluster(), Question(steps))
    some = answer(cluster(), Question(steps, nodes="changed"))
    assert (
        {"node-2-copy-1", "node-4"}
        <= {of.node for of in some.nodes}
        < {of.node for of in every.nodes}
    )
    assert some.nodes == [of for of in every.nodes if of.before != of.after]
    assert msgspec.structs.replace(some, nodes=every.nodes) == every


def test_a_question_that_takes_too_long_is_refused_and_changes_nothing() -> None:
    documents = cluster()
    before = sorted(documents.all(), key=place_of)
    with pytest.raises(RefusedError) as refused:
        answer(documents, Question(["add 100000 like node-1"]), seconds=0.02)
    assert refused.value.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert sorted(documents.all(), key=place_of) == before


@pytest.mark.parametrize("step", ["delete first", "drain node-1", "remove node-1"])
def test_after_a_question_the_pods_of_a_node_are_in_their_order(step: str) -> None:
    names = ("first", "second", "third")
    pods = [pod(name, 1, "node-1") for name in names]
    documents = Documents([node(1), node(2), *pods], from_mapping(None), gates_from(()))
    for _ in range(2):
        answer(documents, Question([step]))
        assert [name for _, _, name in documents.pods_on("node-1")] == list(names)


def test_the_schema_of_the_page_is_that_of_the_program() -> None:
    assert json.loads(SCHEMA.read_text()) == schema()


WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: w}
spec:
  replicas: 1
  selector: {matchLabels: {app: w}}
  template: {metadata: {labels: {app: w}}, spec: {containers: [{name: c, image: i}]}}
"""


@pytest.mark.parametrize(
    "steps",
    [
        ["add 99999999999 like node-1"],
        [{"manifests": WORKLOAD}, "scale deployment/w 1000000"],
        [{"manifests": WORKLOAD.replace("replicas: 1", "replicas: 2147483647")}],
    ],
)
def test_a_question_that_asks_for_too_much_is_refused_at_once(steps: list[Any]) -> None:
    documents = cluster()
    question = question_of(json.dumps({"steps": steps}).encode())
    with pytest.raises(RefusedError) as refused:
        answer(documents, question)
    assert "expected at most 100000 new nodes and pods" in str(refused.value)
    assert refused.value.refusal.field == f"steps[{len(steps) - 1}]"


OF_1_37 = {**CONFIGURATION, "profiles": [{"plugins": {"podGroupPostFilter": {}}}]}


def test_a_configuration_is_read_for_the_version_of_the_answers(tmp_path: Path) -> None:
    """Of the body of a question, of a file, and of a recorded scenario."""
    question = question_of(json.dumps({"steps": [{"configure": OF_1_37}]}).encode())
    path = tmp_path / "new.yaml"
    path.write_text(yaml.safe_dump(OF_1_37))
    line = json.dumps({"name": "s", "config": OF_1_37, "objects": [], "pod": {}})
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(yaml.safe_dump(node(1)))
    asked_with = ["-f", str(nodes), f"configure {path}"]
    for minor, known in ((36, False), (37, True)):
        gates = defaults_of(VERSIONS[minor])
        documents = Documents([node(1)], from_mapping(None), gates)
        with nullcontext() if known else pytest.raises(RefusedError):
            answer(documents, question)
        with nullcontext() if known else pytest.raises(SourceError):
            from_scenario(line, gates)
        result = CliRunner().invoke(whatif, [*asked_with, f"--emulated-version=1.{minor}"])
        assert (result.exit_code == 0) is known, result.output
        assert ("podGroupPostFilter" in result.output) is not known
