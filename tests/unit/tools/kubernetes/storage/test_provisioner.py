"""The hollow provisioner and the capacity that it keeps up to date."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from berth.actors.scheduling.kube.annotations import (
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
)
from berth.actors.scheduling.kube.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.tools.kubernetes.objects.structs import read
from berth.tools.kubernetes.objects.writes import Again, Write
from berth.tools.kubernetes.storage import capacity, provisioner
from berth.tools.kubernetes.storage.capacity import PROVISIONED, quantity_of
from berth.tools.kubernetes.storage.provisioner import PROVISION_SECONDS, Place, Provisioner
from tests.kit.documents import Document
from tests.unit.tools.kubernetes.storage.objects import (
    LATER,
    NOW,
    ZONE,
    claim,
    created,
    deleted,
    metadata_of,
    node,
    patches,
    storage_class,
    volume,
)

PLACES = {
    "n1": Place(node("n1", "zone-a"), (ZONE,)),
    "n2": Place(node("n2", "zone-b"), (ZONE,)),
}
TRACKS = CSIDriver(spec=CSIDriverSpec(storage_capacity=True))


def asking(
    name: str = "c", on: str = "", size: str = "1Gi", metadata: Document | None = None, **spec: Any
) -> PersistentVolumeClaim:
    annotations = {PROVISIONER: "d", **({SELECTED_NODE: on} if on else {})}
    return claim(name, size, metadata={"annotations": annotations, **(metadata or {})}, **spec)


def waiting_class(*zones: str, **fields: Any) -> StorageClass:
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else []
    return storage_class(mode="WaitForFirstConsumer", allowedTopologies=terms, **fields)


def decide(
    of: StorageClass,
    *claims: PersistentVolumeClaim,
    volumes: tuple[PersistentVolume, ...] = (),
    places: dict[str, Place] = PLACES,
    capacities: tuple[CSIStorageCapacity, ...] | None = None,
) -> list[Write]:
    return Provisioner().reconcile(of, claims, volumes, places, capacities, NOW)


def zones(document: Document) -> list[str]:
    terms = document["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return [
        value
        for term in terms
        for expression in term["matchExpressions"]
        for value in expression["values"]
    ]


def test_a_volume_is_made_for_a_claim() -> None:
    pvc = asking(size="2Gi", accessModes=["ReadWriteOncePod"], volumeMode="Block")
    (document,) = created(decide(storage_class(reclaimPolicy="Retain"), pvc))
    assert document["metadata"] == {
        "name": "pvc-uid-c",
        "annotations": {PROVISIONED_BY: "d"},
    }
    spec = document["spec"]
    assert spec["capacity"] == {"storage": "2Gi"}
    assert (spec["accessModes"], spec["volumeMode"]) == (["ReadWriteOncePod"], "Block")
    assert (spec["storageClassName"], spec["persistentVolumeReclaimPolicy"]) == ("s", "Retain")
    assert spec["csi"] == {"driver": "d", "volumeHandle": "hollow-uid-c"}
    assert (spec["claimRef"]["name"], spec["claimRef"]["uid"]) == ("c", "uid-c")
    assert zones(document)[0] in ("zone-a", "zone-b")
    volumes = (read(document, PersistentVolume),)
    assert decide(storage_class(), pvc, volumes=volumes) == [], "it is made once"


@pytest.mark.parametrize(
    ("name", "driver"),
    [
        ("ebs.csi.aws.com", "ebs.csi.aws.com"),
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
        ("rancher.io/local-path", "hollow.csi.berth.dev"),
    ],
)
def test_every_provisioner_has_a_csi_driver(name: str, driver: str) -> None:
    pvc = claim(metadata={"annotations": {PROVISIONER: name}})
    (document,) = created(decide(storage_class(provisioner=name), pvc))
    assert document["spec"]["csi"]["driver"] == driver
    assert document["metadata"]["annotations"] == {PROVISIONED_BY: name}


@pytest.mark.parametrize(
    "other",
    [
        claim(),
        claim(metadata={"annotations": {PROVISIONER: "another"}}),
        asking(volumeName="v"),
        asking(selector={"matchLabels": {"a": "b"}}),
        asking(metadata={"deletionTimestamp": LATER}),
    ],
)
def test_no_volume_is_made_for_a_claim_that_does_not_ask(other: PersistentVolumeClaim) -> None:
    assert decide(storage_class(), other) == []


def test_the_volume_of_a_selected_node_belongs_to_its_zone() -> None:
    assert decide(waiting_class("zone-a", "zone-b"), asking()) == [], "no node is selected yet"
    (document,) = created(decide(waiting_class("zone-a", "zone-b"), asking(on="n2")))
    assert zones(document) == ["zone-b"]
    (document,) = created(decide(waiting_class(), asking(on="n1")))
    assert zones(document) == ["zone-a"], "the driver's topology keys"
    anywhere = {"n1": Place(node("n1", "zone-a"))}
    (document,) = created(decide(waiting_class(), asking(on="n1"), places=anywhere))
    assert "nodeAffinity" not in document["spec"]


@pytest.mark.parametrize(
    ("of", "on"), [(waiting_class("zone-a"), "n2"), (waiting_class("zone-a"), "gone")]
)
def test_a_node_that_cannot_get_the_volume_is_given_back_to_the_scheduler(
    of: StorageClass, on: str
) -> None:
    assert patches(decide(of, asking(on=on))) == [
        (
            "PersistentVolumeClaim",
            "",
            {"metadata": {"annotations": {SELECTED_NODE: None}}},
        )
    ]


def test_immediate_volumes_are_spread_over_the_allowed_zones() -> None:
    claims = [asking(f"c{i}") for i in range(20)]
    chosen = {tuple(zones(pv)) for pv in created(decide(storage_class(), *claims))}
    assert chosen == {("zone-a",), ("zone-b",)}
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-b"]}]}]
    only = storage_class(allowedTopologies=terms)
    assert {tuple(zones(pv)) for pv in created(decide(only, *claims))} == {("zone-b",)}
    assert decide(only, asking(), places={}) == []
    (document,) = created(decide(storage_class(), asking(), places={}))
    assert "nodeAffinity" not in document["spec"]


def test_a_provisioner_may_take_its_time_or_never_answer() -> None:
    slow = waiting_class(parameters={PROVISION_SECONDS: "5"})
    hollow = Provisioner()

    def after(seconds: float, *claims: PersistentVolumeClaim) -> list[Write]:
        now = NOW + timedelta(seconds=seconds)
        return hollow.reconcile(slow, claims, [], PLACES, None, now)

    assert after(0, asking(on="n1")) == [Again(5.0)]
    assert after(3, asking(on="n1"), asking("b", on="n1")) == [Again(2.0)]
    writes = after(5, asking(on="n1"), asking("b", on="n1"))
    assert [pv["metadata"]["name"] for pv in created(writes)] == ["pvc-uid-c"]
    assert writes[-1] == Again(3.0)
    assert after(6, asking(on="n2")) == [Again(5.0)], "another node is another request"
    never = waiting_class(parameters={PROVISION_SECONDS: "never"})
    assert decide(never, asking(on="n1")) == []
    with pytest.raises(ValueError, match="expected a number or never, got 'soon'"):
        decide(waiting_class(parameters={PROVISION_SECONDS: "soon"}), asking(on="n1"))


def test_a_released_volume_is_deleted_if_the_policy_says_so() -> None:
    mine = {"annotations": {PROVISIONED_BY: "d"}}
    released = volume(phase="Released", metadata=mine, persistentVolumeReclaimPolicy="Delete")
    assert deleted(provisioner.discard(released)) == ["v"]
    for other in (
        volume(phase="Bound", metadata=mine, persistentVolumeReclaimPolicy="Delete"),
        volume(phase="Released", metadata=mine),
        volume(phase="Released", persistentVolumeReclaimPolicy="Delete"),
        volume(
            phase="Released",
            metadata={**mine, "deletionTimestamp": LATER},
            persistentVolumeReclaimPolicy="Delete",
        ),
    ):
        assert provisioner.discard(other) == []


# -- capacity


def room(zone: str, left: str, provisioned: str | None = "0", **fields: Any) -> CSIStorageCapacity:
    annotations = {} if provisioned is None else {PROVISIONED: provisioned}
    document = {
        "metadata": metadata_of(zone, namespace="n", annotations=annotations),
        "storageClassName": "s",
        "nodeTopology": {"matchLabels": {ZONE: zone}},
        "capacity": left,
        **fields,
    }
    return read(document, CSIStorageCapacity)


def in_zone(zone: str, size: str, name: str = "v") -> PersistentVolume:
    affinity = {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
            ]
        }
    }
    mine = {"annotations": {PROVISIONED_BY: "d"}}
    return volume(name, size, metadata=mine, nodeAffinity=affinity)


def test_no_more_is_provisioned_than_is_left() -> None:
    claims = [asking(name, on="n1", size="2Gi") for name in ("a", "b", "c")]
    writes = decide(waiting_class(), *claims, capacities=(room("zone-a", "5Gi"),))
    assert [pv["metadata"]["name"] for pv in created(writes)] == ["pvc-uid-a", "pvc-uid-b"]
    ((_, _, body),) = patches(writes[2:])
    assert body == {"metadata": {"annotations": {SELECTED_NODE: None}}}
    not_yet_subtracted = (in_zone("zone-a", "3Gi"),)
    writes = decide(
        waiting_class(),
        *claims,
        volumes=not_yet_subtracted,
        capacities=(room("zone-a", "5Gi"),),
    )
    assert [pv["metadata"]["name"] for pv in created(writes)] == ["pvc-uid-a"]
    assert decide(waiting_class(), *claims, capacities=(room("zone-a", "5Gi", None),)) == []


def test_a_volume_is_no_larger_than_the_largest_allowed() -> None:
    of = room("zone-a", "5Gi", maximumVolumeSize="1Gi")
    writes = decide(
        waiting_class(),
        asking("a", on="n1"),
        asking("b", on="n1", size="2Gi"),
        capacities=(of,),
    )
    assert [pv["metadata"]["name"] for pv in created(writes)] == ["pvc-uid-a"]


def test_immediate_volumes_go_where_room_is_left() -> None:
    claims = [asking(f"c{i}") for i in range(4)]
    rooms = (room("zone-a", "0"), room("zone-b", "3Gi"))
    writes = decide(storage_class(), *claims, capacities=rooms)
    assert [zones(pv) for pv in created(writes)] == [["zone-b"]] * 3
    assert len(writes) == 3, "the last claim waits for room"


def test_capacity_falls_by_what_is_provisioned_and_rises_by_what_is_deleted() -> None:
    volumes = [in_zone("zone-a", "2Gi"), in_zone("zone-b", "4Gi"), volume("static", "9Gi")]
    assert patches(capacity.reconcile(room("zone-a", "5Gi"), volumes, TRACKS)) == [
        (
            "CSIStorageCapacity",
            "",
            {"metadata": {"annotations": {PROVISIONED: "2Gi"}}, "capacity": "3Gi"},
        )
    ]
    assert capacity.reconcile(room("zone-a", "3Gi", "2Gi"), volumes, TRACKS) == []
    assert patches(capacity.reconcile(room("zone-a", "3Gi", "2Gi"), [], TRACKS)) == [
        (
            "CSIStorageCapacity",
            "",
            {"metadata": {"annotations": {PROVISIONED: "0"}}, "capacity": "5Gi"},
        )
    ]
    assert patches(capacity.reconcile(room("zone-a", "5Gi", None), volumes, TRACKS)) == [
        ("CSIStorageCapacity", "", {"metadata": {"annotations": {PROVISIONED: "2Gi"}}})
    ], "a new capacity says what is left now"
    untracked = CSIDriver(spec=CSIDriverSpec(storage_capacity=False))
    for driver in (None, untracked, CSIDriver()):
        assert capacity.reconcile(room("zone-a", "5Gi"), volumes, driver) == []


def test_volumes_beyond_the_capacity_give_back_no_more_than_they_took() -> None:
    """Two controllers in turn, or one whose watch is late, may use the same room twice."""
    both = [in_zone("zone-a", "4Gi"), in_zone("zone-a", "4Gi", "w")]
    ((_, _, body),) = patches(capacity.reconcile(room("zone-a", "5Gi"), both, TRACKS))
    assert body == {"metadata": {"annotations": {PROVISIONED: "5Gi"}}, "capacity": "0"}
    full = room("zone-a", "0", "5Gi")
    assert capacity.reconcile(full, both, TRACKS) == []
    ((_, _, body),) = patches(capacity.reconcile(full, both[:1], TRACKS))
    assert body == {"metadata": {"annotations": {PROVISIONED: "4Gi"}}, "capacity": "1Gi"}


def test_the_largest_size_falls_with_the_capacity() -> None:
    of = room("zone-a", "5Gi", maximumVolumeSize="4Gi")
    ((_, _, body),) = patches(capacity.reconcile(of, [in_zone("zone-a", "2Gi")], TRACKS))
    assert (body["capacity"], body["maximumVolumeSize"]) == ("3Gi", "3Gi")


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (5 << 20, "5Mi"), (3 << 30, "3Gi"), (1500, "1500")]
)
def test_sizes_have_the_largest_suffix(size: int, text: str) -> None:
    assert quantity_of(10**9 * size) == text
