"""Attaches CSI volumes to the nodes of the pods that use them, and detaches them afterwards.

Mirrors Kubernetes' attach-detach controller, and the external attacher of each driver. A
VolumeAttachment of a user is attached too, but deleted only if its name has the prefix used here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from berth.actors.scheduling.kube.storage import PersistentVolume, VolumeAttachment

from ..documents import status_of
from ..objects import Document, deleting
from ..volumes import driver_in
from ..writes import Create, Write, delete, status_writes

PREFIX = "csi-"


def reconcile(
    node: str, volumes: Iterable[PersistentVolume], attachments: Iterable[VolumeAttachment]
) -> list[Write]:
    """Decides on a node. `volumes` are in use by pods there and need attachment.

    `attachments` are all of the node.
    """
    needed = {attachment_name(volume, node): volume for volume in volumes}
    creates: list[Write] = []
    deletes: list[Write] = []
    attached: list[Write] = []
    have = {attachment.metadata.name: attachment for attachment in attachments}
    for name, volume in needed.items():
        if name not in have:
            creates.append(Create("VolumeAttachment", new_attachment(volume, node)))
    for name, attachment in have.items():
        if name not in needed and name.startswith(PREFIX):
            deletes += [] if deleting(attachment) else [delete(attachment)]
        elif not attachment.status.attached:
            attached += status_writes(attachment, {**status_of(attachment), "attached": True})
    return [*creates, *deletes, *attached]


def attachment_name(volume: PersistentVolume, node: str) -> str:
    handle = volume.spec.csi.volume_handle if volume.spec.csi else ""
    text = f"{handle}{driver_in(volume)}{node}"
    return f"{PREFIX}{hashlib.sha256(text.encode()).hexdigest()}"


def new_attachment(volume: PersistentVolume, node: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": attachment_name(volume, node)},
        "spec": {
            "attacher": driver_in(volume),
            "nodeName": node,
            "source": {"persistentVolumeName": volume.metadata.name},
        },
    }
