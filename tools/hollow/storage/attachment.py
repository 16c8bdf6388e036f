"""Attaches CSI volumes to the nodes of the pods that use them, and detaches them afterwards.

Mirrors Kubernetes' attach-detach controller, and the external attacher of each driver. A
VolumeAttachment made by hand is attached, and deleted only if its name begins as those here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ..documents import Document, deleting, name_of, spec_of, status_of
from ..volumes import csi_driver
from ..writes import Create, Write, delete, status_writes

PREFIX = "csi-"


def reconcile(
    node: str, volumes: Iterable[Document], attachments: Iterable[Document]
) -> list[Write]:
    """`volumes` are those that pods on the node use and that need attachment.

    `attachments` are all of the node's.
    """
    wanted = {attachment_name(volume, node): volume for volume in volumes}
    creates: list[Write] = []
    deletes: list[Write] = []
    attached: list[Write] = []
    have = {name_of(attachment): attachment for attachment in attachments}
    for name, volume in wanted.items():
        if name not in have:
            creates.append(Create("VolumeAttachment", new_attachment(volume, node)))
    for name, attachment in have.items():
        if name not in wanted and name.startswith(PREFIX):
            deletes += [] if deleting(attachment) else [delete(attachment)]
        elif status_of(attachment).get("attached") is not True:
            attached += status_writes(attachment, {**status_of(attachment), "attached": True})
    return [*creates, *deletes, *attached]


def attachment_name(volume: Document, node: str) -> str:
    handle = (spec_of(volume).get("csi") or {}).get("volumeHandle", "")
    text = f"{handle}{csi_driver(volume)}{node}"
    return f"{PREFIX}{hashlib.sha256(text.encode()).hexdigest()}"


def new_attachment(volume: Document, node: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": attachment_name(volume, node)},
        "spec": {
            "attacher": csi_driver(volume),
            "nodeName": node,
            "source": {"persistentVolumeName": name_of(volume)},
        },
    }
