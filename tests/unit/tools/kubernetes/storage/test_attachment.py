"""Attaching volumes to the nodes of the pods that use them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from berth.actors.scheduling.kube.storage import PersistentVolume, VolumeAttachment
from berth.tools.kubernetes.objects.structs import read
from berth.tools.kubernetes.objects.writes import Again, Write
from berth.tools.kubernetes.storage.attachment import (
    FORCE_SECONDS,
    Attachments,
    attachment_name,
    new_attachment,
)
from tests.unit.tools.kubernetes.storage.objects import (
    LATER,
    created,
    deleted,
    patches,
    pod,
    volume,
)

CSI = volume(csi={"driver": "d", "volumeHandle": "h"})


START = datetime(2026, 1, 1, tzinfo=UTC)


def decide(volumes: list[PersistentVolume], attachments: list[VolumeAttachment]) -> list[Write]:
    return Attachments().reconcile("n1", volumes, attachments, START)


def existing(attached: bool, name: str = "", **metadata: str) -> VolumeAttachment:
    named = {"uid": "u", "resourceVersion": "1", "name": name or attachment_name(CSI, "n1")}
    document = {
        **new_attachment(CSI, "n1"),
        "metadata": {**named, **metadata},
        "status": {"attached": attached},
    }
    return read(document, VolumeAttachment)


def test_a_volume_is_attached_once_a_pod_uses_it_and_detached_when_none_does() -> None:
    (document,) = created(decide([CSI], []))
    assert document["spec"] == {
        "attacher": "d",
        "nodeName": "n1",
        "source": {"persistentVolumeName": "v"},
    }
    assert patches(decide([CSI], [existing(False)])) == [
        ("VolumeAttachment", "status", {"status": {"attached": True}})
    ]
    assert decide([CSI], [existing(True)]) == []
    name = attachment_name(CSI, "n1")
    assert deleted(decide([], [existing(True)])) == [name]
    assert decide([], [existing(True, deletionTimestamp=LATER)]) == []


def test_each_volume_has_one_attachment_to_a_node() -> None:
    other = volume("w", csi={"driver": "d", "volumeHandle": "other"})
    names = {attachment_name(each, node) for each in (CSI, other) for node in ("n1", "n2")}
    assert len(names) == 4


def test_an_attachment_made_by_hand_is_attached_and_stays() -> None:
    assert decide([], [existing(True, "mine")]) == []
    ((_, _, body),) = patches(decide([], [existing(False, "mine")]))
    assert body == {"status": {"attached": True}}


def test_a_volume_stays_attached_to_a_silent_node_until_it_is_detached_by_force() -> None:
    attachments, attached = Attachments(), existing(True)

    def left(seconds: float, *used: PersistentVolume, mounted: bool = True) -> list[Write]:
        now = START + timedelta(seconds=seconds)
        return attachments.reconcile("n1", used, [attached], now, mounted=mounted)

    assert left(0) == [Again(FORCE_SECONDS)]
    assert left(60) == [Again(FORCE_SECONDS - 60)]
    assert left(70, CSI) == []
    assert left(80) == [Again(FORCE_SECONDS)], "it was needed meanwhile"
    assert deleted(left(80 + FORCE_SECONDS)) == [attached.metadata.name]
    assert deleted(left(90, mounted=False)) == [attached.metadata.name], (
        "the node is out of service"
    )


def test_a_volume_for_one_node_is_promised_to_one_node_only() -> None:
    attachments = Attachments()
    once = volume(csi={"driver": "d", "volumeHandle": "h"}, accessModes=["ReadWriteOnce"])
    both = volume(csi={"driver": "d", "volumeHandle": "h"}, accessModes=["ReadWriteMany"])
    assert attachments.admits(once, "n1", ())
    assert not attachments.admits(once, "n2", ()), "n1 is about to have it"
    assert attachments.admits(both, "n2", ())
    assert [attachments.admits(once, name, ["n1"]) for name in ("n1", "n2")] == [True, False]
    attachments.reconcile("n1", [], [], START)
    assert attachments.admits(once, "n2", ()), "n1 no longer wants it"
    assert not attachments.admits(once, "n1", ())


def test_a_pod_that_begins_to_wait_for_a_volume_gets_one_event() -> None:
    attachments, waiting = Attachments(), pod("p", "c", on="n2")

    def messages(*users: str) -> list[str]:
        writes = attachments.refuse("n2", {"v": (list(users), [waiting])}, START)
        return [str(document["message"]) for document in created(writes)]

    start = 'Multi-Attach error for volume "v" Volume is already '
    assert messages("a", "b") == [f"{start}used by pod(s) a, b"]
    assert messages("a") == []
    assert attachments.refuse("n2", {}, START) == []
    assert messages() == [
        f"{start}exclusively attached to one node and can't be attached to another"
    ]
