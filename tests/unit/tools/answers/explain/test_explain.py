"""`berth explain` from the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from berth.tools.views.commands.explain import explain
from tests.kit import documents
from tests.kit.cases import texts
from tests.kit.messages import no_room

CLUSTER = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: small, labels: {zone: a}}
  status: {allocatable: {cpu: "1", memory: 4Gi, pods: "10"}}
- apiVersion: v1
  kind: Node
  metadata: {name: large, labels: {zone: b}}
  status: {allocatable: {cpu: "8", memory: 32Gi, pods: "10"}}
- apiVersion: v1
  kind: Node
  metadata: {name: closed}
  spec: {unschedulable: true}
  status: {allocatable: {cpu: "8", memory: 32Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: "9"}}}]}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    return path


def test_the_decision_as_json(cluster: Path) -> None:
    result = CliRunner().invoke(explain, ["-f", str(cluster), "--pod", "web", "-o", "json"])
    assert result.exit_code == 0, result.output
    decision = json.loads(result.stdout)
    assert decision["hosts"] == decision["best"] == ["large"]
    assert decision["filter"]["small"] == {
        "code": "UnschedulableAndUnresolvable",
        "plugin": "NodeResourcesFit",
        "reasons": ["Insufficient cpu"],
        "causes": [
            {
                "code": "InsufficientResource",
                "message": "Insufficient cpu",
                "plugin": "NodeResourcesFit",
                "resource": "cpu",
                "requested": "2",
                "allocatable": "1",
                "free": "1",
                "shortage": "1",
            }
        ],
    }
    assert decision["codes"] == {"InsufficientResource": 1, "NodeUnschedulable": 1}
    assert decision["filter"]["closed"]["plugin"] == "NodeUnschedulable"
    assert decision["total"] == {
        "large": sum(scores["large"] for scores in decision["score"].values())
    }
    assert decision["message"] is None


def test_the_decision_as_text(cluster: Path) -> None:
    result = CliRunner().invoke(explain, ["-f", str(cluster), "--pod", "default/huge"])
    assert result.exit_code == 0
    message = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
    assert message in " ".join(result.stdout.split())


def test_the_decision_as_html(cluster: Path) -> None:
    result = CliRunner().invoke(explain, ["-f", str(cluster), "--pod", "huge", "-o", "html"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("<!DOCTYPE html>")
    assert "<h1>default/huge</h1>" in result.stdout
    assert "<p>what would change it</p>" in result.stdout
    assert "<td>closed</td><td>NodeUnschedulable: node(s) were unschedulable</td>" in result.stdout
    pending = CliRunner().invoke(explain, ["-f", str(cluster), "-o", "html"])
    assert "<td>default/web</td><td>goes to large</td>" in pending.stdout


def test_what_would_change_it_fits_80_columns(cluster: Path) -> None:
    runner = CliRunner(env={"COLUMNS": "80"})
    result = runner.invoke(explain, ["-f", str(cluster), "huge"])
    *_, last = result.stdout.partition("what would change it\n")
    assert last == "- Lower the cpu request of container c to 8: it fits on large.\n"
    text = CLUSTER.replace("name: large", f"name: large-{'x' * 60}")
    cluster.write_text(text)
    result = runner.invoke(explain, ["-f", str(cluster), "huge"])
    *_, last = result.stdout.partition("what would change it\n")
    lines = last.splitlines()
    assert [line[:2] for line in lines] == ["- ", "  "], lines
    assert max(map(len, lines)) <= 80


def test_what_would_change_it_as_json(cluster: Path) -> None:
    result = CliRunner().invoke(explain, ["-f", str(cluster), "huge", "-o", "json"])
    path = "/spec/containers/0/resources/requests/cpu"
    edit = {
        "action": "patch",
        "kind": "Pod",
        "name": "huge",
        "namespace": "default",
        "patch": [{"op": "replace", "path": path, "value": "8"}],
    }
    change = {"kind": "requests", "who": "owner", "edits": [edit], "nodes": ["large"]}
    sentence = "Lower the cpu request of container c to 8: it fits on large."
    assert json.loads(result.stdout)["changes"] == [{**change, "sentence": sentence}]
    placed = CliRunner().invoke(explain, ["-f", str(cluster), "web", "-o", "json"])
    assert "changes" not in json.loads(placed.stdout)


def test_nothing_is_tried_with_extenders(cluster: Path, tmp_path: Path) -> None:
    configuration = tmp_path / "scheduler.yaml"
    configuration.write_text(
        "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration,"
        " extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]}"
    )
    arguments = ["-f", str(cluster), "huge", "--config", str(configuration)]
    result = CliRunner().invoke(explain, arguments)
    assert "what would change it: no change is tried, as extenders" in result.stdout


def test_a_placed_pod_is_explained_as_if_it_were_pending(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER.replace("spec: {containers", "spec: {nodeName: small, containers"))
    result = CliRunner().invoke(explain, ["-f", str(path), "--pod", "web", "-o", "json"])
    assert json.loads(result.stdout)["hosts"] == ["large"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-f", "{cluster}", "job/web"], "Job default/web is not in the cluster"),
        (["-f", "{cluster}", "--pod", "shop/none"], "pod shop/none is not in the cluster"),
        (["--kubeconfig", "/nowhere", "--pod", "web"], "/nowhere: cannot be read"),
        (["--scenario", "/nowhere"], "/nowhere: cannot be read"),
    ],
)
def test_an_invalid_question_is_reported_in_one_line(
    cluster: Path, arguments: list[str], problem: str
) -> None:
    result = CliRunner().invoke(
        explain, [argument.format(cluster=cluster) for argument in arguments]
    )
    assert result.exit_code == 1
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("spec", "problem"),
    texts("""
containers: [{name: c, image: i, resources: {requests: {cpu: '-1'}}}] =>
    must be greater than or equal to 0
{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector:
    {}}]}}, containers: [{name: c, image: i}]} => topologyKey: Required value
{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms:
  [{matchExpressions: [{key: a, operator: Near}]}]}}}, containers: [{name: c, image: i}]} =>
    operator: Invalid value: "Near"
{containers: [{name: c, image: i}], nodeSelector: [a]} =>
    cannot unmarshal array into Go struct field
"""),
)
def test_a_hostile_manifest_is_refused_by_the_path_of_its_field(
    tmp_path: Path, spec: str, problem: str
) -> None:
    path = tmp_path / "pod.yaml"
    body = spec if spec.startswith("{") else "{" + spec + "}"
    path.write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {body}\n")
    result = CliRunner().invoke(explain, ["-f", str(path), "--pod", "web", "--strict"])
    assert result.exit_code == 1
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_object_in_an_impossible_namespace_does_not_stop_the_others(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    pods = (documents.pod("a", namespace="my_space"), documents.pod("b"), documents.node("n1"))
    path.write_text(yaml.safe_dump_all(pods))
    result = CliRunner().invoke(explain, ["-f", str(path), "--pod", "b"])
    assert "metadata.namespace: Invalid value" in result.stderr
    assert "goes to n1" in result.stdout


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [
        ("default: {cpu: 2}", "0/1 nodes are available"),
        ("maxLimitRequestRatio: {cpu: 2}", 'Pod p: pods "p" is forbidden: cpu max limit'),
        ("default: {cpu: 100m}", "default/p goes to node"),
    ],
)
def test_limit_ranges_of_the_files_hold(tmp_path: Path, limit: str, outcome: str) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(f"""
apiVersion: v1
kind: Node
metadata: {{name: node}}
status: {{allocatable: {{cpu: 1, pods: 9}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec: {{containers: [{{name: c, image: i}}]}}
---
apiVersion: v1
kind: LimitRange
metadata: {{name: l}}
spec: {{limits: [{{type: Container, {limit}}}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: j}}
spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: s}}
spec: {{ports: [{{port: 80}}]}}
""")
    result = CliRunner().invoke(explain, ["-f", str(path), "--pod", "p"])
    assert outcome in result.output


def test_a_file_of_scenarios_is_answered_line_by_line_in_its_order(tmp_path: Path) -> None:
    def scenario(name: str, cpu: int) -> str:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        spec = {
            "schedulerName": "default-scheduler",
            "containers": [{"resources": {"requests": {"cpu": cpu}}}],
        }
        return json.dumps(
            {
                "name": name,
                "config": None,
                "objects": [
                    {**node, "status": {"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 10}}}
                ],
                "pod": {"metadata": {"name": "p", "namespace": "default"}, "spec": spec},
            }
        )

    path = tmp_path / "scenarios.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join([scenario("b", 1), scenario("a", 5), json.dumps({"name": "broken"})]))
    result = CliRunner().invoke(explain, ["--scenario", str(path)])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["name"] for line in lines[:2]] == ["b", "a"]
    assert lines[0]["expect"]["hosts"] == ["n"]
    assert lines[1]["expect"]["message"] == no_room(1, "1 Insufficient cpu")
    assert "expected a scenario" in lines[2]["expect"]["error"]


APART = """
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: team-a, labels: {app: web, rev: "1"}}
spec: {nodeName: large, containers: [{name: c, image: nginx}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mine, namespace: WHERE, labels: {app: web, rev: "REV"}}
spec:
  nodeSelector: {zone: b}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: zone
        labelSelector: {matchLabels: {app: web}}
        matchLabelKeys: [rev]
        namespaceSelector:
          matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team-b]}]
  containers: [{name: c, image: nginx}]
"""


@pytest.mark.parametrize(
    ("where", "revision", "hosts"),
    [("team-a", "1", []), ("team-a", "2", ["large"]), ("team-b", "1", [])],
)
def test_the_terms_of_a_pod_as_the_api_server_stores_them(
    cluster: Path, where: str, revision: str, hosts: list[str]
) -> None:
    """The files have no Namespaces: those of their pods have their names as labels."""
    cluster.write_text(CLUSTER + APART.replace("WHERE", where).replace("REV", revision))
    result = CliRunner().invoke(explain, ["-f", str(cluster), "--pod", "mine", "-o", "json"])
    assert json.loads(result.stdout)["hosts"] == hosts


def test_a_label_without_a_value_is_an_empty_one(tmp_path: Path) -> None:
    files = tmp_path / "all.yaml"
    files.write_text(NULLS)
    for pod, hosts in (("p", ["n1"]), ("q", [])):
        result = CliRunner().invoke(explain, ["-f", str(files), "--pod", pod, "-o", "json"])
        assert json.loads(result.stdout)["hosts"] == hosts


NULLS = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {role: }}
status: {capacity: {cpu: 4, memory: 4Gi, pods: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {capacity: {cpu: 4, memory: 4Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeSelector: {role: }, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: q}
spec: {nodeSelector: {other: }, containers: [{name: c, image: i}]}
"""


@pytest.mark.parametrize(("node", "missing", "unplaced"), [("small", False, 0), ("gone", True, 1)])
def test_a_workload_whose_template_names_a_node_asks_no_scheduler(
    tmp_path: Path, node: str, missing: bool, unplaced: int
) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(f"""{CLUSTER}---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: named}}
spec:
  selector: {{matchLabels: {{app: named}}}}
  template:
    metadata: {{labels: {{app: named}}}}
    spec:
      nodeName: {node}
      containers: [{{name: c, image: x, resources: {{requests: {{cpu: 99}}}}}}]
""")
    said = f"names its node {node}{', which does not exist' * missing}, so that no scheduler is"
    one = CliRunner().invoke(explain, ["-f", str(path), "deployment/named"]).stdout
    words = " ".join(one.split())
    assert words.startswith(f"default/named-new {said} asked. If it were tried now:"), words
    assert "which the pod's spec.nodeName names" in words
    listed = CliRunner().invoke(explain, ["-f", str(path)]).stdout
    words = " ".join(listed.replace("│", " ").split())
    assert f"1 workload has no pods here: of one pod of each, {unplaced} could not be" in words
    assert said in words


def test_a_job_with_a_selector_of_its_own_is_refused_in_the_words_of_the_api(
    tmp_path: Path,
) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(f"""{CLUSTER}---
apiVersion: batch/v1
kind: Job
metadata: {{name: own}}
spec:
  selector: {{matchLabels: {{app: own}}}}
  template:
    metadata: {{labels: {{app: own}}}}
    spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}
""")
    problem = CliRunner().invoke(explain, ["-f", str(path)]).stderr
    assert 'Job.batch "own" is invalid: spec.selector: Invalid value: ' in problem
    assert "`selector` not auto-generated" in problem
    assert "Required value" not in problem
