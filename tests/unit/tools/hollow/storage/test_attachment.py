"""Attaching volumes to the nodes of the pods that use them."""

from __future__ import annotations

from berth.actors.scheduling.kube.storage import VolumeAttachment
from berth.tools.hollow.objects import read
from berth.tools.hollow.storage import attachment
from berth.tools.hollow.storage.attachment import attachment_name, new_attachment
from tests.unit.tools.hollow.storage.objects import (
    LATER,
    created,
    deleted,
    patches,
    volume,
)

CSI = volume(csi={"driver": "d", "volumeHandle": "h"})


def existing(attached: bool, name: str = "", **metadata: str) -> VolumeAttachment:
    named = {"uid": "u", "resourceVersion": "1", "name": name or attachment_name(CSI, "n1")}
    document = {
        **new_attachment(CSI, "n1"),
        "metadata": {**named, **metadata},
        "status": {"attached": attached},
    }
    return read(document, VolumeAttachment)


def test_a_volume_is_attached_once_a_pod_uses_it_and_detached_when_none_does() -> None:
    (document,) = created(attachment.reconcile("n1", [CSI], []))
    assert document["spec"] == {
        "attacher": "d",
        "nodeName": "n1",
        "source": {"persistentVolumeName": "v"},
    }
    assert patches(attachment.reconcile("n1", [CSI], [existing(False)])) == [
        ("VolumeAttachment", "status", {"status": {"attached": True}})
    ]
    assert attachment.reconcile("n1", [CSI], [existing(True)]) == []
    name = attachment_name(CSI, "n1")
    assert deleted(attachment.reconcile("n1", [], [existing(True)])) == [name]
    assert attachment.reconcile("n1", [], [existing(True, deletionTimestamp=LATER)]) == []


def test_each_volume_has_one_attachment_to_a_node() -> None:
    other = volume("w", csi={"driver": "d", "volumeHandle": "other"})
    names = {attachment_name(each, node) for each in (CSI, other) for node in ("n1", "n2")}
    assert len(names) == 4


def test_an_attachment_made_by_hand_is_attached_and_stays() -> None:
    assert attachment.reconcile("n1", [], [existing(True, "mine")]) == []
    ((_, _, body),) = patches(attachment.reconcile("n1", [], [existing(False, "mine")]))
    assert body == {"status": {"attached": True}}
