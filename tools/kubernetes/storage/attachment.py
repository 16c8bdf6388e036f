"""Attaches CSI volumes to the nodes of the pods that use them, and detaches them afterwards.

Mirrors Kubernetes' attach-detach controller, and the external attacher of each driver. A
VolumeAttachment of a user is attached too, but deleted only if its name has the prefix used here.
The kubelet of a silent node unmounts nothing, so its volumes are detached by force after a while.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from berth.actors.scheduling.kube.storage import PersistentVolume, VolumeAttachment

from ..objects.documents import status_of
from ..objects.object_events import Reporter, event_about
from ..objects.properties import deleting
from ..objects.structs import Document, Pod
from ..objects.writes import Again, Create, Write, delete, status_writes
from .pod_volumes import driver_in

PREFIX = "csi-"
FORCE_SECONDS = 360.0
REPORTER = Reporter("attachdetach-controller")
_SEVERAL = {"ReadWriteMany", "ReadOnlyMany"}


class Attachments:
    """The attachments that no pod needs any more, and the volumes whose attachment was just
    decided.
    """

    def __init__(self) -> None:
        self._unneeded: dict[str, dict[str, datetime]] = {}  # since when, by node and name
        self._begun: dict[str, str] = {}  # the node, by volume, unless it allows several
        self._refused: dict[str, set[str]] = {}  # by node, the volumes that it has to wait for

    def admits(self, volume: PersistentVolume, node: str, nodes: Collection[str]) -> bool:
        """True if a volume may be attached to a node, given the `nodes` to which it is attached.

        If so, the volume counts as attached there, and may be attached to no other node.
        """
        name, modes = volume.metadata.name, volume.spec.access_modes
        if not modes or not _SEVERAL.isdisjoint(modes):
            return True
        if nodes:
            self._begun.pop(name, None)
            return node in nodes
        return self._begun.setdefault(name, node) == node

    def refuse(
        self, node: str, refused: Mapping[str, tuple[list[str], list[Pod]]], now: datetime
    ) -> list[Write]:
        """Writes events about the pods on a node that have just begun to wait for volumes.

        `refused` holds, by volume, the pods elsewhere that use it and the pods here.
        """
        before = self._refused.pop(node, set())
        if refused:
            self._refused[node] = set(refused)
        events: list[Write] = []
        for name, (users, pods) in refused.items():
            why = (
                f"already used by pod(s) {', '.join(users)}"
                if users
                else "already exclusively attached to one node and can't be attached to another"
            )
            message = f'Multi-Attach error for volume "{name}" Volume is {why}'
            for pod in pods if name not in before else ():
                event = event_about(pod, "Warning", "FailedAttachVolume", message, REPORTER, now)
                events.append(Create("Event", event))
        return events

    def reconcile(
        self,
        node: str,
        volumes: Iterable[PersistentVolume],
        attachments: Iterable[VolumeAttachment],
        now: datetime,
        *,
        mounted: bool = False,
    ) -> list[Write]:
        """Decides on a node. `volumes` are in use by pods there and need attachment.

        `attachments` are all of the node. `mounted` is true if its kubelet can unmount nothing.
        """
        needed = {attachment_name(volume, node): volume for volume in volumes}
        names = {volume.metadata.name for volume in needed.values()}
        self._begun = {
            volume: begun
            for volume, begun in self._begun.items()
            if begun != node or volume in names
        }
        have = {attachment.metadata.name: attachment for attachment in attachments}
        creates: list[Write] = [
            Create("VolumeAttachment", new_attachment(volume, node))
            for name, volume in needed.items()
            if name not in have
        ]
        deletes: list[Write] = []
        attached: list[Write] = []
        waits: list[float] = []
        before, unneeded = self._unneeded.pop(node, {}), dict[str, datetime]()
        for name, attachment in have.items():
            if name not in needed and name.startswith(PREFIX):
                unneeded[name] = since = before.get(name, now)
                left = FORCE_SECONDS - (now - since).total_seconds()
                if deleting(attachment):
                    continue
                if mounted and left > 0:
                    waits.append(left)
                else:
                    deletes.append(delete(attachment))
            elif not attachment.status.attached:
                status = {**status_of(attachment), "attached": True}
                attached += status_writes(attachment, status)
        if unneeded:
            self._unneeded[node] = unneeded
        return [*creates, *deletes, *attached, *([Again(min(waits))] if waits else [])]


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
