"""The objects that operations create: node strategies, volumes, priorities."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.tools.bench.objects import (
    BASE_NODE,
    HOSTNAME,
    MIGRATED,
    csi_node,
    node,
    priority_class,
    volume_and_claim,
    with_claim,
)
from berth.tools.bench.opcodes import CreateNodes
from berth.tools.bench.templates import Template


def operation(**fields: Any) -> CreateNodes:
    return msgspec.convert({"count": 4, **fields}, CreateNodes)


def labels_of(create: CreateNodes, text: str = BASE_NODE) -> list[dict[str, str]]:
    nodes = [
        node(create, Template("t", text), index, {"name": f"n{index}"})
        for index in range(create.count)
    ]
    return [each["metadata"]["labels"] for each in nodes]


def test_every_node_has_its_name_as_hostname() -> None:
    assert labels_of(operation()) == [{HOSTNAME: f"n{i}"} for i in range(4)]


def test_label_values_are_assigned_in_turn() -> None:
    create = operation(
        labelNodePrepareStrategy={"labelKey": "zone", "labelValues": ["a", "b", "c"]}
    )
    assert [labels["zone"] for labels in labels_of(create)] == ["a", "b", "c", "a"]


def test_unique_labels_are_unique_and_labels_of_the_template_stay() -> None:
    create = operation(uniqueNodeLabelStrategy={"labelKey": "id"})
    labelled = labels_of(create, "metadata: {labels: {team: x}}")
    assert len({labels["id"] for labels in labelled}) == 4
    assert {labels["team"] for labels in labelled} == {"x"}


def test_allocatable_resources_are_added_and_drivers_are_limited() -> None:
    strategy = {
        "nodeAllocatable": {"attachable-volumes-csi-d": "39"},
        "csiNodeAllocatable": {"d": {"count": 39}},
        "migratedPlugins": ["kubernetes.io/aws-ebs"],
    }
    create = operation(nodeAllocatableStrategy=strategy)
    status = node(create, Template("t", BASE_NODE), 0, {"name": "n"})["status"]
    assert status["allocatable"] == {**status["capacity"], "attachable-volumes-csi-d": "39"}
    limits = csi_node(create, "n")
    assert limits is not None
    assert limits["metadata"] == {"name": "n", "annotations": {MIGRATED: "kubernetes.io/aws-ebs"}}
    assert limits["spec"]["drivers"] == [{"name": "d", "nodeID": "d", "allocatable": {"count": 39}}]
    assert csi_node(operation(), "n") is None


def test_a_node_template_sees_its_index_and_parameters() -> None:
    text = "metadata: {labels: {i: 'i{{.Index}}', of: 'of{{.Count}}', p: 'p{{.P}}'}}"
    labelled = labels_of(operation(templateParams={"P": 5}), text)
    assert [(labels["i"], labels["of"], labels["p"]) for labels in labelled][3] == (
        "i3",
        "of4",
        "p5",
    )


def test_volumes_and_claims_are_bound_to_each_other() -> None:
    volume, claim = {"spec": {"csi": {"driver": "d"}}}, {"spec": {"accessModes": ["ReadOnlyMany"]}}
    (pv, pvc) = volume_and_claim(volume, claim, "ns", 7)
    assert (pv[1], pv[2], pv[3]["spec"]["csi"]["volumeHandle"]) == ("", "ns-vol-7", "ns-vol-7")
    assert (pvc[1], pvc[2], pvc[3]["spec"]["volumeName"]) == ("ns", "pvc-7", "ns-vol-7")
    assert pv[3]["spec"]["claimRef"]["name"] == "pvc-7"
    assert {pv[3]["status"]["phase"], pvc[3]["status"]["phase"]} == {"Bound"}
    pod = with_claim({"spec": {"volumes": [{"name": "other"}]}}, 7)
    assert pod["spec"]["volumes"][1] == {
        "name": "vol",
        "persistentVolumeClaim": {"claimName": "pvc-7"},
    }
    aws = {"spec": {"awsElasticBlockStore": {"volumeID": "<volume-id>"}}}
    (pv, _) = volume_and_claim(aws, claim, "ns", 1)
    assert pv[3]["spec"]["awsElasticBlockStore"]["volumeID"] == "ns-vol-1"


def test_a_priority_without_a_class_gets_one() -> None:
    name, document = priority_class(10)
    assert (document["metadata"]["name"], document["value"]) == (name, 10)
    assert priority_class(-1)[0] == "bench-minus-1"
