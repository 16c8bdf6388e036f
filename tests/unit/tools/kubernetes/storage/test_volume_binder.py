"""Binding of claims and volumes, step by step."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from berth.actors.scheduling.kube.annotations import (
    BETA_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
)
from berth.actors.scheduling.kube.storage import PersistentVolume, PersistentVolumeClaim
from berth.tools.kubernetes.objects.structs import read
from berth.tools.kubernetes.objects.writes import Again, Write
from berth.tools.kubernetes.storage.volume_binder import (
    QUARANTINE_SECONDS,
    UNRECYCLABLE,
    Binder,
    Surroundings,
    find_free,
    find_reserved,
)
from tests.kit.documents import Document
from tests.unit.tools.kubernetes.storage.objects import (
    LATER,
    NOW,
    claim,
    patches,
    reference,
    storage_class,
    volume,
)

CLASS, WAITING = storage_class(), storage_class(mode="WaitForFirstConsumer")
BOUND = {BIND_COMPLETED: "yes"}
NO_DELETER = 'error getting deleter volume plugin for volume "v":'


def decide(of: PersistentVolumeClaim, **around: Any) -> list[Write]:
    return Binder().reconcile_claim(of, Surroundings(**around))


def decide_volume(
    of: PersistentVolume, for_claim: PersistentVolumeClaim | None = None, *, is_gone: bool = True
) -> list[Write]:
    return Binder().reconcile_volume(of, for_claim, is_gone, NOW)


# -- the choice


def test_the_smallest_volume_that_is_large_enough_is_chosen() -> None:
    free = [volume("small", "1Gi"), volume("large", "3Gi"), volume("fits", "2Gi")]
    chosen = find_free(claim(size="1500Mi"), free)
    assert chosen is not None
    assert chosen.metadata.name == "fits"
    assert find_free(claim(size="4Gi"), free) is None


def test_few_access_modes_come_before_a_small_size() -> None:
    plenty = volume("plenty", "1Gi", accessModes=["ReadWriteOnce", "ReadOnlyMany"])
    chosen = find_free(claim(), [plenty, volume("plain", "2Gi")])
    assert chosen is not None
    assert chosen.metadata.name == "plain"


@pytest.mark.parametrize(
    ("of_volume", "of_claim"),
    [
        ({"phase": "Released"}, {}),
        ({"storageClassName": "other"}, {}),
        ({"storageClassName": None}, {}),
        ({"volumeMode": "Block"}, {}),
        ({"accessModes": ["ReadOnlyMany"]}, {}),
        ({"volumeAttributesClassName": "gold"}, {}),
        ({"metadata": {"deletionTimestamp": LATER}}, {}),
        ({"metadata": {"labels": {"disk": "slow"}}}, {"selector": {"matchLabels": {"disk": "x"}}}),
        ({"capacity": None}, {}),
    ],
)
def test_a_volume_that_does_not_match_is_not_chosen(
    of_volume: Document, of_claim: Document
) -> None:
    assert find_free(claim(**of_claim), [volume(**of_volume)]) is None


def test_class_selector_and_modes_match() -> None:
    pvc = claim(
        accessModes=["ReadWriteOnce"],
        volumeMode=None,
        storageClassName=None,
        selector={"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
    )
    fits = volume(storageClassName="", metadata={"labels": {"disk": "x"}}, volumeMode=None)
    assert find_free(pvc, [fits]) is fits
    old = claim(
        storageClassName=None,
        metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "s"}},
    )
    assert find_free(old, [fits, volume()]) == volume()


def test_an_empty_beta_annotation_counts_before_the_class() -> None:
    without = {"annotations": {"volume.beta.kubernetes.io/storage-class": ""}}
    pvc, free = claim(metadata=without, storageClassName="s"), volume(storageClassName="")
    assert find_free(pvc, [volume(), free]) is free


def test_a_reserved_volume_needs_neither_class_nor_labels_but_the_size() -> None:
    pvc = claim(size="2Gi")
    reserved = volume(
        size="2Gi", phase="Bound", storageClassName="x", claimRef=reference(pvc, uid=False)
    )
    assert find_reserved(pvc, [reserved]) is reserved
    assert find_reserved(claim(size="3Gi"), [reserved]) is None
    other = volume(size="2Gi", claimRef={**reference(pvc), "uid": "another"})
    assert find_reserved(pvc, [other]) is None


# -- claims


def test_binding_writes_the_volume_first_then_the_claim_then_its_status() -> None:
    pv, pvc = volume(size="2Gi"), claim()
    ((kind, _, body),) = patches(decide(pvc, storage_class=CLASS, free=(pv,)))
    assert kind == "PersistentVolume"
    assert body["metadata"] == {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    assert body["spec"]["claimRef"]["uid"] == "uid-c"
    pv = volume(
        size="2Gi",
        metadata={"annotations": {BOUND_BY_CONTROLLER: "yes"}},
        claimRef=body["spec"]["claimRef"],
    )
    assert patches(decide(pvc, storage_class=CLASS, reserved=(pv,))) == [
        ("PersistentVolume", "status", {"status": {"phase": "Bound"}}),
        (
            "PersistentVolumeClaim",
            "",
            {
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes", BIND_COMPLETED: "yes"}},
                "spec": {"volumeName": "v"},
            },
        ),
    ]
    pv = volume(size="2Gi", phase="Bound", claimRef=body["spec"]["claimRef"])
    pvc = claim(metadata={"annotations": BOUND}, volumeName="v")
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    assert patches(decide(pvc, named=pv)) == [
        ("PersistentVolumeClaim", "status", {"status": status})
    ]
    pvc = claim(metadata={"annotations": BOUND}, volumeName="v", status=status)
    assert decide(pvc, named=pv) == []


def test_claims_decided_at_the_same_time_choose_different_volumes() -> None:
    binder = Binder()
    around = Surroundings(free=(volume("v1"), volume("v2")))

    def chosen(name: str) -> list[str]:
        writes = binder.reconcile_claim(claim(name), around)
        return [write.name for write in writes if hasattr(write, "name")]

    assert [chosen("a"), chosen("b"), chosen("c")] == [["v1"], ["v2"], []]
    assert chosen("a") == ["v1"], "a decision may be repeated"
    binder.forget_claim("n/a")
    assert chosen("c") == ["v1"], "the volume of a claim that is gone is free again"
    binder.forget_claim("n/c")
    assert chosen("a") == ["v1"]
    newer = volume("v1", metadata={"resourceVersion": "2"})
    around = Surroundings(free=(newer, volume("v2")))
    assert chosen("d") == ["v1"], "a volume that has changed since is chosen anew"
    assert chosen("a") == []


def test_a_claim_that_waits_for_its_consumer_gets_only_a_volume_reserved_for_it() -> None:
    pvc = claim()
    assert decide(pvc, storage_class=WAITING, free=(volume(),)) == []
    reserved = volume(claimRef=reference(pvc))
    ((kind, subresource, _), (_, _, body)) = patches(
        decide(pvc, storage_class=WAITING, reserved=(reserved,), free=(volume("w"),))
    )
    assert (kind, subresource) == ("PersistentVolume", "status")
    assert body["spec"] == {"volumeName": "v"}


def test_a_volume_reserved_by_its_user_gets_the_uid_only() -> None:
    pvc = claim()
    reserved = volume(claimRef=reference(pvc, uid=False))
    ((_, _, body),) = patches(decide(pvc, storage_class=CLASS, reserved=(reserved,)))
    assert "metadata" not in body
    assert body["spec"]["claimRef"]["uid"] == "uid-c"


@pytest.mark.parametrize(
    ("named", "binds"),
    [
        (None, False),
        (volume(), True),
        (volume(size="1Mi"), False),
        (volume(storageClassName="other"), False),
        (volume(claimRef={"namespace": "n", "name": "other"}), False),
        (volume(claimRef={"namespace": "n", "name": "c", "uid": "older"}), False),
        (volume(claimRef={"namespace": "n", "name": "c"}), True),
    ],
)
def test_a_claim_that_names_its_volume_gets_it_or_waits(
    named: PersistentVolume | None, binds: bool
) -> None:
    writes = patches(decide(claim(volumeName="v"), named=named))
    assert [body["spec"]["claimRef"]["uid"] for _, _, body in writes] == ["uid-c"] * binds


def test_a_claim_that_names_its_volume_is_not_marked_as_bound_by_the_controller() -> None:
    pvc = claim(volumeName="v")
    ((_, _, body),) = patches(decide(pvc, named=volume(phase="Bound", claimRef=reference(pvc))))
    assert body == {"metadata": {"annotations": BOUND}}


@pytest.mark.parametrize(
    "named",
    [
        None,
        volume(claimRef={"namespace": "n", "name": "c", "uid": "older"}),
        volume(claimRef={"namespace": "n", "name": "c"}),
    ],
)
def test_a_bound_claim_without_its_volume_is_lost(named: PersistentVolume | None) -> None:
    mine: Document = {"metadata": {"annotations": BOUND}, "volumeName": "v"}
    status = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    pvc = claim(phase="Bound", status=status, **mine)
    lost = {"phase": "Lost", "capacity": None, "accessModes": None}
    assert patches(decide(pvc, named=named)) == [
        ("PersistentVolumeClaim", "status", {"status": lost})
    ]
    assert decide(claim(phase="Lost", **mine), named=named) == []


def test_a_claim_without_a_class_gets_the_default_class_if_no_volume_matches() -> None:
    pvc = claim(storageClassName=None)
    default = storage_class("usual")
    assert patches(decide(pvc, default_class=default)) == [
        ("PersistentVolumeClaim", "", {"spec": {"storageClassName": "usual"}})
    ]
    free = (volume(storageClassName=None),)
    ((kind, _, _),) = patches(decide(pvc, default_class=default, free=free))
    assert kind == "PersistentVolume"
    assert decide(claim(storageClassName=""), default_class=default) == []


def test_the_provisioner_is_asked_once_the_place_is_known() -> None:
    metadata = {"annotations": {PROVISIONER: "d", BETA_PROVISIONER: "d"}}
    assert patches(decide(claim(), storage_class=CLASS)) == [
        ("PersistentVolumeClaim", "", {"metadata": metadata})
    ]
    assert decide(claim(metadata=metadata), storage_class=CLASS) == []
    assert decide(claim(), storage_class=WAITING) == []
    selected = claim(metadata={"annotations": {SELECTED_NODE: "n1"}})
    assert patches(decide(selected, storage_class=WAITING)) == [
        ("PersistentVolumeClaim", "", {"metadata": metadata})
    ]
    static = storage_class(provisioner="kubernetes.io/no-provisioner")
    assert decide(claim(), storage_class=static) == []
    assert decide(claim(), storage_class=None) == []


# -- volumes


@pytest.mark.parametrize("reserved", [None, {"namespace": "n", "name": "c"}])
def test_a_new_volume_becomes_available(reserved: Document | None) -> None:
    pv = volume(phase="Pending", claimRef=reserved)
    assert patches(decide_volume(pv)) == [
        ("PersistentVolume", "status", {"status": {"phase": "Available"}})
    ]
    assert decide_volume(volume(claimRef=reserved)) == []


def test_a_volume_is_bound_once_the_claim_names_it() -> None:
    pv = volume(claimRef=reference(claim()))
    assert decide_volume(pv, claim()) == []
    assert patches(decide_volume(pv, claim(volumeName="v"))) == [
        ("PersistentVolume", "status", {"status": {"phase": "Bound"}})
    ]


@pytest.mark.parametrize("other", [None, claim(metadata={"uid": "newer"})])
def test_a_volume_is_released_when_its_claim_is_gone(other: PersistentVolumeClaim | None) -> None:
    pv = volume(phase="Bound", claimRef=reference(claim()))
    released = [("PersistentVolume", "status", {"status": {"phase": "Released"}})]
    assert patches(decide_volume(pv, other)) == released
    binder = Binder()
    assert binder.reconcile_volume(pv, other, False, NOW) == [Again(QUARANTINE_SECONDS)], (
        "the watch of claims may be late"
    )
    late = NOW + timedelta(seconds=QUARANTINE_SECONDS)
    assert patches(binder.reconcile_volume(pv, other, False, late)) == released
    assert decide_volume(volume(phase="Released", claimRef=reference(claim())), other) == []


@pytest.mark.parametrize(
    ("spec", "metadata", "message"),
    [
        ({"persistentVolumeReclaimPolicy": "Recycle"}, {}, UNRECYCLABLE),
        (
            {"persistentVolumeReclaimPolicy": "Delete", "local": {"path": "/d"}},
            {},
            f"{NO_DELETER} no deletable volume plugin matched",
        ),
        ({"persistentVolumeReclaimPolicy": "Delete", "csi": {"driver": "d"}}, {}, None),
        (
            {"persistentVolumeReclaimPolicy": "Delete"},
            {"annotations": {PROVISIONED_BY: "d"}},
            None,
        ),
    ],
)
def test_a_released_volume_that_nothing_can_reclaim_has_failed(
    spec: Document, metadata: Document, message: str | None
) -> None:
    pv = volume(phase="Released", claimRef=reference(claim()), metadata=metadata, **spec)
    failed = {"status": {"phase": "Failed", "message": message}}
    expected = [("PersistentVolume", "status", failed)] if message else []
    assert patches(decide_volume(pv)) == expected


def test_a_volume_whose_claim_is_bound_elsewhere_is_unbound_or_released() -> None:
    elsewhere = claim(volumeName="w")
    mine = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    pv = volume(phase="Bound", claimRef=reference(elsewhere), metadata=mine)
    assert patches(decide_volume(pv, elsewhere)) == [
        (
            "PersistentVolume",
            "",
            {
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
                "spec": {"claimRef": None},
            },
        )
    ]
    of_user = volume(phase="Bound", claimRef=reference(elsewhere))
    assert patches(decide_volume(of_user, elsewhere)) == [
        ("PersistentVolume", "", {"spec": {"claimRef": {"uid": None}}})
    ]
    provisioned = volume(
        phase="Bound",
        claimRef=reference(elsewhere),
        metadata={"annotations": {PROVISIONED_BY: "d"}},
        persistentVolumeReclaimPolicy="Delete",
    )
    assert patches(decide_volume(provisioned, elsewhere)) == [
        ("PersistentVolume", "status", {"status": {"phase": "Released"}})
    ]


def test_odd_claims_and_volumes_are_tolerated() -> None:
    bare_claim: Document = {
        "metadata": {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": None,
        "status": None,
    }
    bare_volume = {**bare_claim, "spec": {"claimRef": None, "capacity": None}}
    bare, empty = read(bare_claim, PersistentVolumeClaim), read(bare_volume, PersistentVolume)
    assert find_free(bare, [empty]) is None
    assert patches(decide(bare)) == [
        ("PersistentVolumeClaim", "status", {"status": {"phase": "Pending"}})
    ]
    assert patches(decide_volume(empty)) == [
        ("PersistentVolume", "status", {"status": {"phase": "Available"}})
    ]
