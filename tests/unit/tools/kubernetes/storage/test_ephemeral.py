"""The claims of generic ephemeral volumes, and the CSINodes of hollow nodes."""

from __future__ import annotations

from berth.actors.scheduling.kube.storage import CSINode
from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.structs import Pod, read
from berth.tools.kubernetes.storage import csi_node, ephemeral
from tests.unit.tools.kubernetes.storage.objects import LATER, created, node, pod

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"storageClassName": "s"}}


def test_a_pod_owns_the_claim_of_its_ephemeral_volume() -> None:
    user = pod("p", "c", ephemeral=TEMPLATE)
    (document,) = created(ephemeral.reconcile(user, {"c"}))
    assert document["metadata"] == {
        "name": "p-scratch",
        "namespace": "n",
        "labels": {"a": "b"},
        "ownerReferences": [reference_to(user)],
    }
    assert document["spec"] == {"storageClassName": "s"}


def test_a_claim_of_that_name_and_a_pod_that_ends_are_left_alone() -> None:
    user = pod("p", ephemeral=TEMPLATE)
    assert ephemeral.reconcile(user, {"p-scratch"}) == []
    ending = pod("p", ephemeral=TEMPLATE, deletionTimestamp=LATER)
    assert ephemeral.reconcile(ending, set()) == []


def test_odd_volumes_are_tolerated() -> None:
    volumes = [{"name": "a", "ephemeral": {}}, {"name": "b", "emptyDir": {}}]
    for odd in (volumes, None):
        user = read({"metadata": {"name": "p"}, "spec": {"volumes": odd}}, Pod)
        assert ephemeral.reconcile(user, set()) == []


def test_a_node_gets_a_csi_node_unless_it_has_one() -> None:
    of = node("n1", "zone-a")
    (document,) = created(csi_node.reconcile(of, None))
    assert document["metadata"]["name"] == "n1"
    (owner,) = document["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], "controller" in owner) == ("Node", "uid-n1", False)
    (driver,) = document["spec"]["drivers"]
    assert (driver["name"], driver["nodeID"]) == ("hollow.csi.berth.dev", "n1")
    assert driver["topologyKeys"] == ["topology.kubernetes.io/zone"]
    assert csi_node.reconcile(of, read(document, CSINode)) == []
    assert csi_node.reconcile(node("n1", deletionTimestamp=LATER), None) == []
