"""The real kubectl rolls daemon sets and stateful sets out and back through their revisions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit import documents
from tests.kit.documents import Document
from tests.kit.kubectl import Kubectl, bare_demo, until
from tests.kit.programs import needs

pytestmark = [pytest.mark.full, needs("kubectl")]


def workload(kind: str, name: str) -> Document:
    containers = [documents.container(image="first")]
    pods = documents.template(name, containers=containers, terminationGracePeriodSeconds=0)
    return documents.workload(kind, name, pods, revisionHistoryLimit=1)


def images(kubectl: Kubectl, name: str) -> set[str]:
    pods = kubectl.read("pods", "-l", f"app={name}")["items"]
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


def numbers(kubectl: Kubectl, name: str) -> list[int]:
    items = kubectl.read("controllerrevisions", "-l", f"app={name}")["items"]
    return sorted(item["revision"] for item in items)


def test_histories_of_workloads(tmp_path: Path) -> None:
    with bare_demo(tmp_path) as daemon:
        for kind in ("DaemonSet", "StatefulSet"):
            rolls_out_and_back(daemon.kubectl, kind, kind.lower())


def rolls_out_and_back(kubectl: Kubectl, kind: str, name: str) -> None:
    target = f"{kind}/{name}"
    kubectl("create", "-f", "-", stdin=json.dumps(workload(kind, name)))
    kubectl("rollout", "status", target, "--timeout=60s")
    kubectl("set", "image", target, "c=second")
    kubectl("rollout", "status", target, "--timeout=60s")
    assert images(kubectl, name) == {"second"}
    assert numbers(kubectl, name) == [1, 2]
    listed = kubectl("rollout", "history", target).splitlines()
    assert [line.split()[0] for line in listed[2:] if line] == ["1", "2"]
    assert "first" in kubectl("rollout", "history", target, "--revision=1")

    assert "rolled back" in kubectl("rollout", "undo", target)
    kubectl("rollout", "status", target, "--timeout=60s")
    assert images(kubectl, name) == {"first"}
    assert numbers(kubectl, name) == [2, 3], "the old revision has a new number"

    before = {pod["metadata"]["uid"] for pod in kubectl.read("pods", "-l", f"app={name}")["items"]}
    kubectl("rollout", "restart", target)
    kubectl("rollout", "status", target, "--timeout=60s")
    after = kubectl.read("pods", "-l", f"app={name}")["items"]
    assert not before & {pod["metadata"]["uid"] for pod in after}
    until(lambda: numbers(kubectl, name) == [3, 4])
    revisions = kubectl.read("controllerrevisions", "-l", f"app={name}")["items"]
    newest = max(revisions, key=lambda item: item["revision"])["metadata"]
    mark = newest["labels"]["controller-revision-hash"]
    assert newest["name"] == f"{name}-{mark}"
    label = mark if kind == "DaemonSet" else newest["name"]
    assert {pod["metadata"]["labels"]["controller-revision-hash"] for pod in after} == {label}
    if kind == "StatefulSet":
        status = kubectl.read(target)["status"]
        assert status["currentRevision"] == status["updateRevision"] == newest["name"]
    kubectl("delete", target)
    until(lambda: numbers(kubectl, name) == [])
