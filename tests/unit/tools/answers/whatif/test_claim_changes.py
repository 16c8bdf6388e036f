"""Claims that a controller would create from ResourceClaimTemplates, in `whatif` and `explain`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from berth.config.load import from_mapping
from berth.tools.answers.explain.cluster_source import from_manifests
from berth.tools.answers.terminal.feature_gates import gates_from
from berth.tools.answers.whatif.answer_worker import answer as answered
from berth.tools.answers.whatif.question import Content, Question, Written
from berth.tools.answers.whatif.tried_documents import Documents
from berth.tools.views.commands.explain import explain
from berth.tools.views.commands.whatif import whatif

DEVICES = """
apiVersion: v1
kind: Node
metadata: {name: NODE, labels: {kubernetes.io/hostname: NODE}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: NODE-slice}
spec:
  driver: gpu.example.com
  nodeName: NODE
  pool: {name: NODE, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
"""
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
"""
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
"""
POD = """
    spec:
      containers: [{name: c, image: busybox, resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
"""
TRAINING = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: training}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: training}}}}
  template:
    metadata: {{labels: {{app: training}}}}
{POD}"""
ALONE = f"""
apiVersion: v1
kind: Pod
metadata: {{name: alone}}
{POD.replace("    spec", "spec")}"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    one, two = (DEVICES.replace("NODE", f"node-{number}") for number in (1, 2))
    (tmp_path / "one.yaml").write_text("---".join((one, CLASS, TEMPLATE)))
    (tmp_path / "two.yaml").write_text(two)
    (tmp_path / "training.yaml").write_text(TRAINING)
    (tmp_path / "alone.yaml").write_text(ALONE)
    (tmp_path / "without.yaml").write_text("---".join((one, CLASS)))
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tried(files: str, *steps: str, code: int = 0) -> Any:
    paths = [part for file in files.split() for part in ("-f", f"{file}.yaml")]
    result = CliRunner().invoke(whatif, [*paths, "-o", "json", *steps])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def told(files: str, *arguments: str) -> str:
    paths = [part for file in files.split() for part in ("-f", f"{file}.yaml")]
    result = CliRunner().invoke(explain, [*paths, *arguments])
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_a_pod_of_a_file_has_its_claim(folder: Path) -> None:
    assert [of["node"] for of in tried("one alone")["placed"]] == ["node-1"]
    assert "default/alone goes to node-1" in told("one alone", "alone")
    assert "default/alone │ goes to node-1" in told("one alone")


def test_the_next_pod_of_a_workload_has_its_claim(folder: Path) -> None:
    assert "default/training-new goes to node-1" in told("one training", "deployment/training")
    assert "Deployment default/training │ 3 │ goes to node-1" in told("one training")


def test_each_pod_of_a_workload_has_a_device_of_its_own(folder: Path) -> None:
    answer = tried("one", "apply training.yaml", code=1)
    assert len(answer["placed"]) == 2
    (pending,) = answer["pending"]
    assert (pending["pods"], "claims" in pending["reason"]) == (["default/training-new-3"], True)
    assert tried("one two", "apply training.yaml")["allPlaced"]


def test_a_pod_that_leaves_gives_its_device_back(folder: Path) -> None:
    steps = ("apply training.yaml", "scale deployment/training 2", "scale deployment/training 1")
    answer = tried("one", *steps, "apply alone.yaml")
    assert [of["pod"] for of in answer["placed"]][-1] == "default/alone"
    moved = tried("one", "apply alone.yaml", "apply two.yaml", "delete alone", "apply alone.yaml")
    assert moved["allPlaced"]
    drained = tried("one two", "apply training.yaml", "drain node-1", code=1)
    assert len(drained["placed"]) == 2


def test_a_template_that_comes_later_helps(folder: Path) -> None:
    before = tried("without alone", code=1)
    assert "ResourceClaim" in before["pending"][0]["reason"]
    assert tried("without alone", "apply template.yaml")["allPlaced"]


SHARED = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
"""


def test_pods_of_one_claim_share_its_device(folder: Path) -> None:
    named = POD.replace("resourceClaimTemplateName: one-gpu", "resourceClaimName: shared")
    (folder / "sharing.yaml").write_text(f"{SHARED}---{TRAINING.replace(POD, named)}")
    answer = tried("one two", "apply sharing.yaml")
    assert len({of["node"] for of in answer["placed"]}) == 1
    # Once nobody uses the claim, its device is free: the drained node is left.
    node = answer["placed"][0]["node"]
    moved = tried("one two", "apply sharing.yaml", f"drain {node}")
    assert {of["node"] for of in moved["placed"]} == {"node-1", "node-2"} - {node}


EXTENDED = CLASS.replace("spec: {", "spec: {extendedResourceName: example.com/gpu, ")
ASKS = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  containers:
  - {name: c, image: i, resources: {limits: {example.com/gpu: "2"}}}
"""


def test_a_question_leaves_no_device_in_use(folder: Path) -> None:
    one = DEVICES.replace("NODE", "node-1")
    (folder / "cluster.yaml").write_text("---".join((one, EXTENDED, TEMPLATE)))
    documents = Documents(
        from_manifests([folder / "cluster.yaml"]), from_mapping(None), gates_from(())
    )
    asks = ASKS.replace("NAME", "asks")
    again = asks.replace("asks", "more")
    first: list[Written] = [Content(manifests=TRAINING), "scale deployment/training 2"]
    second: list[Written] = [Content(manifests=asks), "delete asks", Content(manifests=again)]
    for steps in (first, second) * 2:
        answer = answered(documents, Question(steps))
        assert not answer.pending
        assert [of.step for of in answer.placed][-1] in (1, 3)
