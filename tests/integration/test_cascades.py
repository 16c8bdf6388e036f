"""The real kubectl deletes owners in the foreground, in the background, and without dependents."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.kit.kubectl import Kubectl, bare_demo, until
from tests.kit.programs import needs

pytestmark = [pytest.mark.full, needs("kubectl")]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("cascades")
    with bare_demo(folder) as daemon:
        yield daemon.kubectl


def owners(kubectl: Kubectl, kind: str, app: str) -> list[list[str]]:
    items = kubectl.read(kind, "-l", f"app={app}")["items"]
    return [[o["name"] for o in item["metadata"].get("ownerReferences", ())] for item in items]


def roll_out(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "deployment", name, "--image=i", "--replicas=2")
    kubectl("rollout", "status", f"deployment/{name}", "--timeout=60s")


def test_a_foreground_deletion_ends_after_the_dependents(kubectl: Kubectl) -> None:
    roll_out(kubectl, "front")
    (pod, *_) = kubectl.read("pods", "-l", "app=front")["items"]
    name = pod["metadata"]["name"]
    kubectl("patch", "pod", name, "--type=merge", "-p", '{"metadata":{"finalizers":["x.y/hold"]}}')
    kubectl("delete", "deployment", "front", "--cascade=foreground", "--wait=false")
    until(lambda: len(owners(kubectl, "pods", "front")) == 1)
    for kind in ("deployment", "replicaset"):
        (item,) = kubectl.read(kind, "-l", "app=front")["items"]
        assert item["metadata"]["finalizers"] == ["foregroundDeletion"]
    kubectl("patch", "pod", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    until(lambda: not kubectl.read("deployments,replicasets,pods", "-l", "app=front")["items"])


def test_orphans_stay(kubectl: Kubectl) -> None:
    roll_out(kubectl, "lone")
    kubectl("delete", "deployment", "lone", "--cascade=orphan")
    assert owners(kubectl, "replicasets", "lone") == [[]]
    assert [len(each) for each in owners(kubectl, "pods", "lone")] == [1, 1]
    kubectl("delete", "replicasets", "-l", "app=lone", "--cascade=orphan")
    assert owners(kubectl, "pods", "lone") == [[], []]
    kubectl("delete", "pods", "-l", "app=lone")


def test_dependents_of_any_kind_go_with_the_last_owner(kubectl: Kubectl) -> None:
    references = []
    for name in ("first", "second"):
        kubectl("create", "configmap", name)
        uid = kubectl.read("configmap", name)["metadata"]["uid"]
        references.append({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
    for name, owner in (("both", references), ("nobody", [{**references[0], "uid": "x"}])):
        metadata = {"name": name, "labels": {"app": "maps"}, "ownerReferences": owner}
        document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        kubectl("create", "-f", "-", stdin=json.dumps(document))
    until(lambda: owners(kubectl, "secrets", "maps") == [["first", "second"]])
    kubectl("delete", "configmap", "first")
    until(lambda: owners(kubectl, "secrets", "maps") == [["second"]])
    kubectl("delete", "configmap", "second")
    until(lambda: owners(kubectl, "secrets", "maps") == [])
