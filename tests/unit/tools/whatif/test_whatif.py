"""`berth whatif` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from berth.tools.whatif.command import whatif

CLUSTER = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: node-1, labels: {kubernetes.io/hostname: node-1}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
- apiVersion: v1
  kind: Node
  metadata: {name: node-2, labels: {kubernetes.io/hostname: node-2}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
- apiVersion: v1
  kind: Pod
  metadata:
    name: old
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: old, uid: x, controller: true}]
  spec:
    nodeName: node-1
    containers: [{name: c, image: nginx, resources: {requests: {cpu: "3"}}}]
"""
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      priorityClassName: high
      containers: [{name: c, image: nginx, resources: {requests: {cpu: "2"}}}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "web.yaml").write_text(WEB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tried(*steps: str, code: int = 0) -> Any:
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "-o", "json", *steps])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_a_pod_of_lower_priority_makes_room_and_its_replacement_waits(folder: Path) -> None:
    answer = tried("apply web.yaml", code=1)
    assert len(answer["placed"]) == 3
    assert [(e["pod"], e["node"], e["reason"]) for e in answer["evicted"]] == [
        ("default/old", "node-1", "preempted by default/web-new-3")
    ]
    assert [pending["pods"] for pending in answer["pending"]] == [["default/old-new-1"]]
    assert "of 2 nodes, 2 lack cpu" in answer["pending"][0]["reason"]


def test_a_node_like_another_one_holds_what_was_left_over(folder: Path) -> None:
    answer = tried("apply web.yaml", "add 1 like node-1")
    assert answer["allPlaced"]
    last = answer["placed"][-1]
    assert (last["pod"], last["node"], last["step"]) == (
        "default/old-new-1",
        "node-1-copy-1",
        2,
    )


def test_a_drained_node_is_left_by_its_pods(folder: Path) -> None:
    answer = tried("drain node-1")
    assert [e["replacement"] for e in answer["evicted"]] == ["default/old-new-1"]
    assert [p["node"] for p in answer["placed"]] == ["node-2"]
    fullness = {node["node"]: node["after"]["cpu"] for node in answer["nodes"]}
    assert fullness == {"node-1": 0, "node-2": 75}


@pytest.mark.parametrize("step", ["remove node-1", "taint node-1 a=b:NoExecute", "drain node-1"])
def test_a_pod_moves_from_a_node_that_is_gone(folder: Path, step: str) -> None:
    assert [p["node"] for p in tried(step)["placed"]] == ["node-2"]


def test_a_scaled_workload_loses_its_last_pods(folder: Path) -> None:
    answer = tried("apply web.yaml", "scale deployment/web 1")
    assert "default/web-new-1" in [p["pod"] for p in answer["placed"]]
    assert "default/web-new-3" not in [p["pod"] for p in answer["placed"]]
    assert answer["allPlaced"]  # the pod that was preempted fits again


def test_the_same_seed_gives_the_same_answer(folder: Path) -> None:
    steps = ("apply web.yaml", "add 3 like node-2", "scale deployment/web 7", "--seed", "7")
    assert tried(*steps) == tried(*steps)


def test_the_table_fits_80_columns(folder: Path) -> None:
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", "apply web.yaml"])
    assert result.exit_code == 1
    assert result.stdout.startswith("1 pod stays pending: 3 placed, 1 evicted\n")
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("flip node-1", "expected one of add, remove,"),
        ("add few like node-1", "expected a number, got 'few'"),
        ("drain", "expected 'drain NODE'"),
        ("drain node-9", "Node node-9 does not exist"),
        ("taint node-1 a=b", "expected KEY[=VALUE]:EFFECT"),
        ("scale daemonset/x 3", "expected KIND/NAME of a workload"),
    ],
)
def test_a_wrong_step_is_a_usage_error(folder: Path, step: str, problem: str) -> None:
    result = CliRunner().invoke(whatif, ["-f", "cluster.yaml", step])
    assert result.exit_code == 2
    assert problem in result.output


def test_the_result_as_html(folder: Path) -> None:
    result = CliRunner().invoke(
        whatif, ["-f", "cluster.yaml", "-o", "html", "apply web.yaml", "add 1 like node-1"]
    )
    assert result.exit_code == 0, result.output
    assert "<h1>what if: apply web.yaml; add 1 like node-1</h1>" in result.stdout
    assert "<p>all pods have a node: 4 placed, 1 evicted</p>" in result.stdout
