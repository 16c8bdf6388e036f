"""`berth explain`'s words about the volumes of a pod."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from berth.actors.scheduling.kube.annotations import BIND_COMPLETED
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.answers.explain.decider import Explainer
from berth.tools.answers.explain.pending_pods import pending
from berth.tools.answers.explain.volume_words import Demand, demands
from berth.tools.views.commands.explain import explain
from tests.kit.documents import Document
from tests.kit.storage import as_pod, claim, cluster, node, of_claim, pod, thing, volume

HOST, ZONE, REGION = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
NODES = [
    node("n1", **{HOST: "n1", ZONE: "a"}),
    node("n2", **{HOST: "n2", ZONE: "b"}),
    node("n3", **{HOST: "n3", ZONE: "c"}),
]
DRIVER = "csi.example.com"


def only_in(key: str, *values: str) -> Document:
    requirement = {"key": key, "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


def bound(name: str, to: str, **parts: Any) -> Document:
    return claim(name, to, annotations={BIND_COMPLETED: "yes"}, **parts)


def waiting(
    name: str = "data", of_class: str = "local", size: str = "10Gi", **parts: Any
) -> Document:
    fields = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return claim(name, storageClassName=of_class, **(fields | parts))


def free(name: str, size: str = "10Gi", on: str = "", **parts: Any) -> Document:
    """Returns an available volume of the class local, for one node if that is named."""
    fields: Document = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
    }
    if on:
        fields["nodeAffinity"] = only_in(HOST, on)
    return {**volume(name, **(fields | parts)), "status": {"phase": "Available"}}


def storage_class(name: str, provisioner: str = DRIVER, *zones: str, **parts: Any) -> Document:
    expressions = [{"key": ZONE, "values": list(zones)}]
    topologies = [{"matchLabelExpressions": expressions}] if zones else []
    fields = {
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": topologies,
    }
    return thing("StorageClass", name, **(fields | parts))


LOCAL = storage_class("local", "kubernetes.io/no-provisioner")
FAST = storage_class("fast", DRIVER, "a")
IMMEDIATE = storage_class("local", volumeBindingMode="Immediate")
MANUAL = storage_class("local", "kubernetes.io/no-provisioner", volumeBindingMode="Immediate")
LIMITED = thing("CSIDriver", DRIVER, spec={"storageCapacity": True})


def room(name: str, size: str, zone: str) -> Document:
    return thing(
        "CSIStorageCapacity",
        name,
        storageClassName="fast",
        capacity=size,
        nodeTopology={"matchLabels": {ZONE: zone}},
    )


def in_words(
    *objects: Document,
    document: Document | None = None,
    plugins: Iterable[str] = IN_TREE,
    nodes: Iterable[Document] = NODES,
) -> list[Demand]:
    info = PodInfo(as_pod(pod("p", of_claim("data")) if document is None else document))
    return demands(info, cluster(*nodes, *objects), set(plugins))


def the(rows: list[Demand]) -> tuple[str, str, str, str]:
    """Returns the only demand, with the nodes that it leaves out in one text."""
    (demand,) = rows
    return (demand.volume, demand.state, demand.meaning, shown(demand))


def shown(demand: Demand) -> str:
    return "all" if demand.left_out is None else " ".join(demand.left_out)


# ----------------------------------------------------------------------- claims that are not usable


def deleted(document: Document) -> Document:
    document["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    return document


@pytest.mark.parametrize(
    ("objects", "state", "meaning"),
    [
        ([], "does not exist", "the pod waits until the claim is created"),
        ([deleted(waiting())], "being deleted", "no other pod may use the claim"),
        (
            [{**claim("data", "pv-1"), "status": {"phase": "Lost"}}],
            "lost: pv-1 does not exist any more",
            "the claim can never be used again; a new one is needed",
        ),
        (
            [claim("data", "pv-1", storageClassName="local"), LOCAL, free("pv-1")],
            "names pv-1, but is not bound to it yet",
            "the volume controller has to bind the two first",
        ),
        (
            [claim("data", "pv-1", storageClassName="local"), LOCAL],
            "names pv-1, which does not exist",
            "pv-1 has to be created first",
        ),
        (
            [waiting(), IMMEDIATE],
            "not bound, and its class local binds immediately",
            f"{DRIVER} has to make a volume first; the claim's events say why it has not",
        ),
        (
            [waiting(), IMMEDIATE, free("pv-1", "1Gi"), free("pv-2")],
            "not bound, and its class local binds immediately",
            "the volume controller has to bind pv-2 to it first",
        ),
        (
            [waiting(), MANUAL, free("pv-1", "1Gi")],
            "not bound, and its class local has no provisioner",
            "a volume that suits it has to be created first",
        ),
        (
            [waiting()],
            "not bound, and its class local does not exist",
            "the class, or a volume of it that suits, has to be created first",
        ),
        (
            [claim("data")],
            "not bound, and has no class",
            "a default StorageClass, or a volume that suits the claim, has to be created",
        ),
        (
            [claim("data", storageClassName="")],
            "not bound, and asks for no class",
            "a volume that suits it has to be created first",
        ),
        (
            [waiting(), storage_class("local", volumeBindingMode=None)],
            "cannot be decided",
            'VolumeBindingMode not set for StorageClass "local"',
        ),
    ],
)
def test_a_claim_that_keeps_its_pod_waiting(
    objects: list[Document], state: str, meaning: str
) -> None:
    assert the(in_words(*objects)) == ("claim data", state, meaning, "all")


def test_claims_of_ephemeral_volumes() -> None:
    document = pod("p", {"ephemeral": {"volumeClaimTemplate": {}}})
    assert the(in_words(document=document))[:2] == ("claim p-v0 (ephemeral)", "not created yet")
    foreign = waiting("p-v0")
    assert the(in_words(foreign, LOCAL, document=document))[1] == "not made for this pod"
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}]
    own = waiting("p-v0", ownerReferences=owner)
    assert the(in_words(own, LOCAL, document=document))[1:] == (
        "waits for its first consumer, class local",
        "there is no volume of class local; class local has no provisioner",
        "n1 n2 n3",
    )


# ------------------------------------------------------------------------------------- bound claims


def test_a_bound_volume_with_node_affinity() -> None:
    rows = in_words(bound("data", "pv-1"), volume("pv-1", nodeAffinity=only_in(ZONE, "b", "a")))
    assert the(rows) == (
        "claim data",
        "bound to pv-1",
        f"pv-1 can only be used on nodes with {ZONE} in (a, b)",
        "n3",
    )


@pytest.mark.parametrize(
    ("affinity", "meaning", "left_out"),
    [
        ({"required": {"nodeSelectorTerms": []}}, "on no node", "n1 n2 n3"),
        ({"required": {"nodeSelectorTerms": [{}]}}, "on no node", "n1 n2 n3"),
        (
            {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]},
                        {
                            "matchExpressions": [
                                {"key": "fast", "operator": "Exists"},
                                {"key": "old", "operator": "DoesNotExist"},
                                {"key": "disks", "operator": "Gt", "values": ["2"]},
                            ]
                        },
                    ]
                }
            },
            f"on nodes with {ZONE} not in (a) or the label fast and no label old and disks > 2",
            "n1",
        ),
        (
            only_in(ZONE, *"abcdefghij"),
            f"on nodes with {ZONE} in (a, b, c, d, e, f, g, h and 2 more)",
            "",
        ),
    ],
)
def test_node_affinity_in_words(affinity: Document, meaning: str, left_out: str) -> None:
    rows = in_words(bound("data", "pv-1"), volume("pv-1", nodeAffinity=affinity))
    assert the(rows)[2:] == (f"pv-1 can only be used {meaning}", left_out)


def test_a_bound_volume_that_is_gone() -> None:
    rows = in_words(bound("data", "pv-1"), plugins={"VolumeBinding"})
    expected = ("bound to pv-1, which does not exist", "pv-1 has to exist", "n1 n2 n3")
    assert the(rows)[1:] == expected


def test_a_volume_that_a_csi_driver_took_over() -> None:
    disk = volume("pv-1", gcePersistentDisk={"pdName": "d"}, nodeAffinity=only_in(ZONE, "a", "b"))
    migrated = thing(
        "CSINode",
        "n1",
        annotations={"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"},
    )
    rows = in_words(bound("data", "pv-1"), disk, migrated)
    assert the(rows)[2:] == (
        (
            f"pv-1 can only be used on nodes with {ZONE} in (a, b); where a CSI driver serves "
            "kubernetes.io/gce-pd, on nodes with topology.gke.io/zone in (a, b)"
        ),
        "n1 n3",
    )


def test_the_zone_labels_of_a_volume() -> None:
    rows = in_words(bound("data", "pv-1"), volume("pv-1", {ZONE: "a__b", REGION: "r"}))
    assert the(rows)[2:] == (
        (
            f"the labels of pv-1 ask for {ZONE} in (a, b) and {REGION} in (r) on nodes that name a "
            "zone or region"
        ),
        "n1 n2 n3",
    )


# ----------------------------------------------------------------------------------- static volumes


def test_the_volumes_that_match_and_what_is_wrong_with_the_others() -> None:
    rows = in_words(
        waiting(),
        LOCAL,
        free("pv-1", "5Gi", "n1"),
        free("pv-2", "20Gi", "n2"),
        free("pv-3", "10Gi", "n3"),
        free("pv-4", on="n1", volumeMode="Block"),
        volume("pv-5", storageClassName="other"),
    )
    assert the(rows) == (
        "claim data",
        "waits for its first consumer, class local",
        (
            f"pv-3 (10Gi) matches on nodes with {HOST} in (n3); "
            f"pv-2 (20Gi) matches on nodes with {HOST} in (n2); "
            "of the others, 1 of another volume mode, 1 too small; class local has no provisioner"
        ),
        "n1",
    )


def test_no_volume_matches() -> None:
    other = {"namespace": "shop", "name": "other"}
    earlier = {"namespace": "ns", "name": "data", "uid": "earlier"}
    rows = in_words(
        waiting(selector={"matchLabels": {"tier": "db"}}),
        LOCAL,
        free("pv-1", "5Gi"),
        free("pv-2", "5Gi"),
        free("pv-3", accessModes=["ReadOnlyMany"]),
        free("pv-4", claimRef=other),
        free("pv-5", claimRef=earlier),
        {
            **free("pv-6", accessModes=["ReadOnlyMany"]),
            "metadata": {"name": "pv-6", "labels": {"tier": "db"}},
        },
        {
            **free("pv-7"),
            "metadata": {"name": "pv-7", "labels": {"tier": "db"}},
            "status": {"phase": "Failed"},
        },
    )
    assert the(rows)[2:] == (
        (
            "no available volume of class local matches: 2 too small, 1 in phase Failed, "
            "1 reserved for an earlier claim of this name, 1 reserved for shop/other, "
            "1 with labels that the claim does not select, 1 without an access mode of the claim; "
            "class local has no provisioner"
        ),
        "n1 n2 n3",
    )


def test_a_long_list_of_volumes_is_cut() -> None:
    (demand,) = in_words(waiting(), LOCAL, *(free(f"pv-{i:02}", on=f"x{i}") for i in range(11)))
    assert "pv-07" in demand.meaning
    assert "pv-08" not in demand.meaning
    assert "; 3 more match; class local has no provisioner" in demand.meaning
    assert shown(demand) == "n1 n2 n3"


def test_a_volume_that_is_reserved_for_the_claim() -> None:
    mine = {"namespace": "ns", "name": "data"}
    rows = in_words(waiting(), LOCAL, free("pv-1", on="n2", claimRef=mine), free("pv-2", on="n1"))
    assert the(rows)[2:] == (
        (
            f"pv-1, which is reserved for the claim, can only be used on nodes with {HOST} in "
            "(n2); "
            "class local has no provisioner"
        ),
        "n1 n3",
    )


def test_two_claims_and_one_volume() -> None:
    rows = in_words(
        waiting("a"),
        waiting("b"),
        LOCAL,
        free("pv-1", on="n1"),
        free("pv-2", on="n2"),
        free("pv-3", on="n2"),
        document=pod("p", of_claim("a"), of_claim("b")),
    )
    expected = [("claim a", "n3"), ("claim b", "n3"), ("all claims", "n1")]
    assert [(demand.volume, shown(demand)) for demand in rows] == expected


# ------------------------------------------------------------------------------------- provisioning


def test_a_class_makes_volumes_in_some_topology_only() -> None:
    assert the(in_words(waiting(of_class="fast"), FAST))[1:] == (
        "waits for its first consumer, class fast",
        f"{DRIVER} makes volumes of class fast only on nodes with {ZONE} in (a)",
        "n2 n3",
    )


def test_a_driver_reports_too_little_room() -> None:
    rows = in_words(
        waiting(of_class="fast"),
        storage_class("fast"),
        LIMITED,
        room("r1", "20Gi", "a"),
        room("r2", "5Gi", "b"),
    )
    assert the(rows)[2:] == (
        (
            f"{DRIVER} reports room for 20Gi on nodes with {ZONE} in (a), "
            f"5Gi on nodes with {ZONE} in "
            "(b); 10Gi are asked for"
        ),
        "n2 n3",
    )


def test_topology_and_room_are_separate() -> None:
    rows = in_words(waiting(of_class="fast"), FAST, LIMITED)
    assert [(demand.meaning, shown(demand)) for demand in rows] == [
        (f"{DRIVER} makes volumes of class fast only on nodes with {ZONE} in (a)", "n2 n3"),
        (f"{DRIVER} reports no room for class fast; 10Gi are asked for", "n1"),
    ]


def test_a_node_was_selected_already() -> None:
    chosen = waiting(of_class="fast", annotations={"volume.kubernetes.io/selected-node": "n1"})
    assert the(in_words(chosen, FAST))[1:] == (
        "a node was selected already: n1",
        (
            "its volume is being made for n1 alone; "
            f"{DRIVER} makes volumes of class fast only on nodes with {ZONE} in (a)"
        ),
        "n2 n3",
    )


def test_a_node_was_selected_for_a_claim_with_a_selector() -> None:
    chosen = waiting(
        of_class="fast",
        annotations={"volume.kubernetes.io/selected-node": "n1"},
        selector={"matchLabels": {"disk": "mine"}},
    )
    meaning = the(in_words(chosen, storage_class("fast")))[2]
    assert meaning == (
        "nothing makes its volume on n1: the claim has a selector, and provisioners refuse those"
    )


# ------------------------------------------------------------------------------------ other plugins


def test_another_pod_uses_a_claim_for_one_pod() -> None:
    exclusive = bound("data", "pv-1", accessModes=["ReadWriteOncePod"])
    holder = pod("db-0", of_claim("data"), on="n2")
    namesake = pod("db-0", of_claim("data"), on="n1", namespace="shop")
    assert the(in_words(exclusive, volume("pv-1"), holder, namesake))[2:] == (
        "only one pod may use the claim (ReadWriteOncePod), and pod ns/db-0 on n2 uses it already",
        "all",
    )


def test_another_pod_uses_a_disk() -> None:
    disk = {"gcePersistentDisk": {"pdName": "logs"}}
    reading = {"gcePersistentDisk": {"pdName": "logs", "readOnly": True}}
    image = {"rbd": {"monitors": ["m1", "m2"], "pool": "rbd", "image": "logs"}}
    others = [pod("a", disk, on="n1"), pod("b", reading, on="n2"), pod("c", image, on="n3")]
    assert the(in_words(*others, document=pod("p", disk))) == (
        "GCE disk logs",
        "named by the pod, to write",
        "pods ns/a on n1, ns/b on n2 use it already",
        "n1 n2",
    )
    expected = ("named by the pod, only to read", "pod ns/a on n1 uses it already", "n1")
    assert the(in_words(*others, document=pod("p", reading)))[1:] == expected
    assert the(in_words(*others, document=pod("p", image)))[0] == "RBD image rbd/logs"


def disk(number: int, **parts: Any) -> Document:
    return volume(f"pv-{number}", csi={"driver": DRIVER, "volumeHandle": f"h{number}"}, **parts)


LIMIT = thing(
    "CSINode",
    "n1",
    spec={"drivers": [{"name": DRIVER, "nodeID": "1", "allocatable": {"count": 2}}]},
)
# Two claims whose volumes are attached to n1, which has no room for the volume of the third.
HELD = [*(bound(name, f"pv-{i}") for i, name in enumerate(("data", "x", "y"))), disk(1), disk(2)]
HOLDER = pod("h", of_claim("x"), of_claim("y"), on="n1")


def test_a_node_has_attached_as_many_volumes_as_it_can() -> None:
    expected = (f"volumes of {DRIVER}", "the pod needs 1", "attached to n1: 2 of at most 2", "n1")
    assert the(in_words(disk(0), *HELD, LIMIT, HOLDER)) == expected


@pytest.mark.parametrize(
    ("document", "objects"),
    [
        (pod("p", {"emptyDir": {}}, {"configMap": {"name": "c"}}), []),
        (pod("p", of_claim("data")), [bound("data", "pv-1"), volume("pv-1")]),
        (pod("p", of_claim("data")), [waiting(of_class="any"), storage_class("any")]),
        (pod("p", of_claim("data")), [waiting(), LOCAL, free("pv-1")]),
        (pod("p", {"gcePersistentDisk": {"pdName": "logs"}}), []),
        (pod("p", {"rbd": {"monitors": [], "image": "i"}}), []),
    ],
)
def test_volumes_that_ask_nothing_are_left_out(document: Document, objects: list[Document]) -> None:
    assert in_words(*objects, document=document) == []


def test_only_plugins_of_the_profile_count() -> None:
    objects = [bound("data", "pv-1"), volume("pv-1", {ZONE: "a"}, nodeAffinity=only_in(ZONE, "a"))]
    assert len(in_words(*objects)) == 2
    assert len(in_words(*objects, plugins={"VolumeZone"})) == 1
    assert in_words(plugins=()) == []


def test_a_selector_that_cannot_be_read() -> None:
    odd = waiting(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]})
    (demand,) = in_words(odd, LOCAL)
    assert "matchExpressions[0].operator: expected one of" in demand.meaning


def test_a_capacity_with_an_odd_topology_does_not_count() -> None:
    odd = room("r1", "20Gi", "a")
    odd["nodeTopology"] = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    rows = in_words(waiting(of_class="fast"), storage_class("fast"), LIMITED, odd)
    assert the(rows)[2] == f"{DRIVER} reports no room for class fast; 10Gi are asked for"


# -------------------------------------------------------------------------------------- the command


CLUSTER: list[Document] = list(
    yaml.safe_load_all("""
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec:
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /disks/1}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n2]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 8Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  containers: [{name: c, image: i}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
""")
)


def explained(tmp_path: Path, *extra: str, objects: Iterable[Document] = (*NODES, *CLUSTER)) -> str:
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(objects))
    arguments = ["-f", str(tmp_path / "cluster.yaml"), "--pod", "db", *extra]
    result = CliRunner().invoke(explain, arguments, env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_new_manifests_get_the_default_class_and_their_volumes_are_available(
    tmp_path: Path,
) -> None:
    printed = explained(tmp_path)
    assert f"pv-1 (10Gi) matches on nodes with {HOST} in (n2)" in printed
    assert "n1, n3" in printed
    assert "default/db goes to n2" in printed
    assert printed.index("nodes that do not fit") < printed.index("volumes, and what they ask")
    assert printed.index("default/db goes to") < printed.index("nodes that do not fit")


def decision_of(*objects: Document) -> str:
    """Returns the decision about a pending pod with the claim data, as the list of pending pods
    words it.
    """
    database = pod("db", of_claim("data"))
    database["spec"]["schedulerName"] = "default-scheduler"
    configuration = from_mapping(None)
    explainer = Explainer(configuration, DEFAULTS)
    (only,) = pending(explainer, configuration, [*NODES, *objects, database], "ns").pods
    return only.decision


def test_the_decision_names_a_claim_that_binds_immediately() -> None:
    assert decision_of(waiting()) == (
        "stays pending: VolumeBinding says: claim data (not bound, and its class local does not "
        "exist): the class, or a volume of it that suits, has to be created first"
    )


def test_a_claim_that_binds_immediately_has_no_table_of_nodes() -> None:
    document = pod("p", of_claim("data"))
    document["spec"]["schedulerName"] = "default-scheduler"
    objects = [*NODES, waiting(), IMMEDIATE]
    scenario = {"name": "odd", "config": None, "objects": objects, "pod": document}
    result = CliRunner().invoke(
        explain, ["--scenario", "-"], input=json.dumps(scenario), env={"COLUMNS": "300"}
    )
    assert "ns/p stays pending: VolumeBinding says: claim data (not bound, " in result.stdout
    assert "nodes that do not fit" not in result.stdout


def test_the_decision_names_the_volume_and_where_it_can_be_used() -> None:
    there = volume("pv-1", nodeAffinity=only_in(ZONE, "z"))
    assert decision_of(bound("data", "pv-1"), there) == (
        "stays pending: of 3 nodes, 3 are left out by claim data, as pv-1 can only be used on "
        f"nodes with {ZONE} in (z)"
    )


def test_the_decision_names_the_labels_of_a_volume() -> None:
    there = volume("pv-1", {ZONE: "z"})
    assert decision_of(bound("data", "pv-1"), there) == (
        "stays pending: of 3 nodes, 3 are left out by claim data, as the labels of pv-1 ask for "
        f"{ZONE} in (z) on nodes that name a zone or region"
    )


def test_the_decision_says_how_many_volumes_are_attached() -> None:
    assert decision_of(disk(0, nodeAffinity=only_in(HOST, "n1")), *HELD, LIMIT, HOLDER) == (
        "stays pending: of 3 nodes, 2 are left out by claim data, as pv-0 can only be used on "
        f"nodes with {HOST} in (n1), 1 lacks room for volumes of {DRIVER}: the pod needs 1, "
        "attached to n1: 2 of at most 2"
    )


def test_the_words_are_also_given_if_the_attempt_fails() -> None:
    document = pod("p", of_claim("data"))
    document["spec"]["schedulerName"] = "default-scheduler"
    objects = [*NODES, waiting(), storage_class("local", volumeBindingMode=None)]
    scenario = {"name": "odd", "config": None, "objects": objects, "pod": document}
    result = CliRunner().invoke(
        explain, ["--scenario", "-"], input=json.dumps(scenario), env={"COLUMNS": "300"}
    )
    assert result.exit_code == 0, result.output
    assert "claim data" in result.stdout
    assert "ns/p stays pending, as the attempt fails: " in result.stdout


def test_the_json_has_no_volumes(tmp_path: Path) -> None:
    decision = json.loads(explained(tmp_path, "-o", "json"))
    assert decision["hosts"] == ["n2"]
    assert "volumes" not in decision
