"""Claims without a class, for which a default StorageClass would do; and classes and claims that
are created anew.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.changes import fits_after, suggested
from tests.kit.daemon import node, pod
from tests.kit.documents import Document, thing

LATE = "WaitForFirstConsumer"


def claim(name: str, **spec: Any) -> Document:
    return thing(
        "PersistentVolumeClaim",
        name,
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    )


def storage_class(name: str, mode: str) -> Document:
    return thing("StorageClass", name, provisioner="csi.example.com", volumeBindingMode=mode)


def using(*names: str) -> Document:
    document = pod("web", "1")
    document["spec"]["volumes"] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names
    ]
    return document


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        ([claim("data")], "Add a default StorageClass, which the claim data then gets"),
        (
            [claim("data"), claim("log")],
            "Add a default StorageClass, which the claims data, log then get",
        ),
        (
            [claim("data"), storage_class("fast", LATE)],
            "Make fast the default StorageClass, which the claim data then gets",
        ),
        (
            [claim("data"), storage_class("fast", "Immediate")],
            "Make fast the default StorageClass, which the claim data then gets",
        ),
    ],
)
def test_a_default_class_would_do(objects: list[Document], sentence: str) -> None:
    claims = [each["metadata"]["name"] for each in objects if "Claim" in each["kind"]]
    pending, cluster = using(*claims), [node("n1"), *objects]
    changes = suggested(cluster, pending)
    assert changes is not None
    assert changes[0].sentence == f"{sentence}: it fits on n1."
    assert fits_after(changes[0], cluster, pending) == ["n1"]


@pytest.mark.parametrize(
    "objects", [[claim("data", storageClassName="")], [claim("data", storageClassName="gone")]]
)
def test_a_claim_that_names_its_class_does_not_get_the_default_one(objects: list[Document]) -> None:
    changes = suggested([node("n1"), *objects], using("data"))
    assert changes is not None
    assert [change.kind for change in changes] == ["volume"]


HERE = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gone"]}


def test_a_class_that_makes_volumes_on_other_nodes_alone_is_created_anew() -> None:
    topologies = [{"matchLabelExpressions": [{"key": HERE["key"], "values": HERE["values"]}]}]
    lvm = {**storage_class("lvm", LATE), "allowedTopologies": topologies}
    pending, cluster = using("data"), [node("n1"), lvm, claim("data", storageClassName="lvm")]
    changes = suggested(cluster, pending)
    assert changes is not None
    assert [change.sentence for change in changes] == [
        "Create the class lvm anew without allowedTopologies: it fits on n1."
    ]
    assert fits_after(changes[0], cluster, pending) == ["n1"]


@pytest.mark.parametrize("provisioner", ["csi.example.com", "kubernetes.io/no-provisioner"])
def test_a_claim_whose_volume_went_with_its_node_is_created_anew(provisioner: str) -> None:
    volume = thing(
        "PersistentVolume",
        "v",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/v"},
            "storageClassName": "disk",
            "claimRef": {"namespace": "default", "name": "data", "uid": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [HERE]}]}},
        },
        status={"phase": "Bound"},
    )
    bound = claim("data", storageClassName="disk", volumeName="v")
    bound["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    disk = {**storage_class("disk", LATE), "provisioner": provisioner}
    pending, cluster = using("data"), [node("n1"), disk, volume, bound]
    changes = suggested(cluster, pending)
    assert changes is not None
    expected = [
        "Create the claim data anew, without the data of its volume v: it fits on n1."
    ] * provisioner.startswith("csi")
    assert [change.sentence for change in changes] == expected
    assert all(fits_after(change, cluster, pending) == ["n1"] for change in changes)


def test_a_smaller_claim_fits_a_free_volume() -> None:
    static = {**storage_class("local", LATE), "provisioner": "kubernetes.io/no-provisioner"}
    volumes = [
        thing(
            "PersistentVolume",
            f"of-{size}",
            spec={
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": of,
                "hostPath": {"path": "/data"},
            },
            status={"phase": "Available"},
        )
        for size, of in (("1Gi", "local"), ("2Gi", "local"), ("4Gi", "other"))
    ]
    asked = {"requests": {"storage": "5Gi"}}
    data = claim("data", storageClassName="local", resources=asked)
    pending, cluster = using("data"), [node("n1"), static, *volumes, data]
    changes = suggested(cluster, pending)
    assert changes is not None
    assert changes[0].sentence == "Ask for 2Gi in the claim data: it fits on n1."
    assert fits_after(changes[0], cluster, pending) == ["n1"]
