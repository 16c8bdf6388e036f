"""What a demo creates before its cluster starts."""

from __future__ import annotations

import pytest

from berth.testing import pod
from berth.tools.answers.manifests.manifests import Findings, Manifest, ManifestError, read_objects
from berth.tools.cluster.controllers.embedded_access import EmbeddedAccess
from berth.tools.kubernetes.api.store import DEFINITIONS
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.testing.demo.creation import create, needs_class, standard_class
from tests.kit.custom_kinds import definition, kind_of, shirt
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

NAMESPACES, NODES = BY_KIND["v1", "Namespace"], BY_KIND["v1", "Node"]
CLASSES, PODS = BY_KIND["storage.k8s.io/v1", "StorageClass"], BY_KIND["v1", "Pod"]
BARE: Document = {"spec": {"resources": {}}}
CLASSED: Document = {"spec": {"storageClassName": ""}}
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


@pytest.mark.parametrize(
    ("document", "needs"),
    [
        ({"kind": "PersistentVolumeClaim", **BARE}, True),
        ({"kind": "PersistentVolumeClaim", **CLASSED}, False),
        ({"kind": "StatefulSet", "spec": {"volumeClaimTemplates": [CLASSED, BARE]}}, True),
        ({"spec": {"volumes": [{"ephemeral": {"volumeClaimTemplate": BARE}}]}}, True),
        ({"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]}}, False),
    ],
)
def test_claims_without_a_class_need_one(document: Document, needs: bool) -> None:
    assert needs_class(document) == needs


def test_there_is_a_standard_class_unless_the_manifests_have_a_default_one() -> None:
    def classes(name: str, annotations: dict[str, str]) -> list[Manifest]:
        metadata = {"name": name, "annotations": annotations}
        return standard_class([Manifest(CLASSES, {"metadata": metadata}, "f:1")])

    assert len(classes("fast", {})) == 1
    assert classes("fast", DEFAULT) == []
    assert classes("standard", {}) == []


@pytest.mark.anyio
async def test_what_every_cluster_has_is_changed_and_what_is_refused_is_told() -> None:
    store = fresh_store()
    Api(store).seed()
    access, findings = EmbeddedAccess(store), Findings()
    node = {"metadata": {"name": "node-1", "labels": {"mine": "yes"}}}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "new"}, "spec": {"containers": []}}
    manifests = [
        Manifest(PODS, pod, "pod.yaml:1"),
        Manifest(NODES, node, "nodes.yaml:1"),
        Manifest(NAMESPACES, {"metadata": {"name": "default", "labels": {"a": "b"}}}, "ns.yaml:1"),
    ]
    await create(access, 2, manifests, findings)
    listed = await access.call("GET", NODES.path(), dict)
    labels = {of["metadata"]["name"]: of["metadata"]["labels"] for of in listed["items"]}
    assert labels["node-1"]["mine"] == "yes"
    assert list(labels) == ["node-1", "node-2"]
    default = await access.call("GET", NAMESPACES.path("", "default"), dict)
    assert default["metadata"]["labels"]["a"] == "b"
    (problem,) = findings.problems
    assert problem.startswith('pod.yaml:1, Pod new/p: Pod "p" is invalid: spec.containers')
    with pytest.raises(ManifestError, match=r"pod\.yaml:1, Pod new/p: "):
        await create(EmbeddedAccess(fresh_store()), 0, manifests[:1], Findings(strict=True))


@pytest.mark.anyio
async def test_custom_resources_are_there_before_what_is_scheduled() -> None:
    """Also those that are written before their definition."""
    store = fresh_store()
    Api(store).seed()
    written = [shirt("a"), pod("p"), {**shirt("b"), "kind": "Trousers"}, definition()]
    read = read_objects(written, "test", everything=True)
    assert ([each["metadata"]["name"] for each in read.others], read.left_out) == (
        ["a"],
        {"Trousers": 1},
    )
    findings = Findings()
    await create(EmbeddedAccess(store), 0, read.objects, findings, read.others)
    assert findings.problems == []
    shirts = kind_of(store).stored_as
    assert shirts is not None
    assert store.latest(DEFINITIONS) < store.latest(shirts) < store.latest(PODS)
