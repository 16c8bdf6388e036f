"""The volumes that VolumeAttachments attach to nodes, by node.

Only VolumeAttachments of CSI PersistentVolumes count. Invariant: the entry of each VolumeAttachment
equals what it and its PersistentVolume said at the last `follow`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from berth.plugin import PersistentVolume, VolumeAttachment

from ...model.cluster_objects import ClusterObjects

T = TypeVar("T")


class _Attachment(msgspec.Struct, frozen=True):
    """A VolumeAttachment. `volume` is the unique driver/handle; "" if it does not count."""

    node: str
    driver: str
    source: str
    volume: str


class Attachments:
    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._attachments: dict[str, _Attachment] = {}
        # Node -> the name of the VolumeAttachment -> the attachment.
        self._on: dict[str, dict[str, _Attachment]] = {}
        self._of_volume: dict[str, dict[str, None]] = {}
        for item in objects.every(VolumeAttachment):
            self._read_attachment(item.metadata.name)

    def on(self, node: str) -> dict[str, str]:
        """Returns the drivers of the volumes attached to a node, by the volume's name."""
        return {a.volume: a.driver for a in self._on.get(node, {}).values()}

    def follow(self, attachments: Iterable[str], volumes: Iterable[str]) -> list[str]:
        """Reads the VolumeAttachments that changed, and those whose PersistentVolume changed.

        Returns the nodes on which other volumes are attached now.
        """
        names = dict.fromkeys(attachments)
        for volume in volumes:
            names |= self._of_volume.get(volume, {})
        nodes = []
        for name in names:
            before = self._attachments.get(name)
            self._forget(name)
            after = self._read_attachment(name)
            if before != after:
                nodes += [a.node for a in (before, after) if a is not None]
        return nodes

    def _read_attachment(self, name: str) -> _Attachment | None:
        item = self._objects.get(VolumeAttachment, name)
        if item is None:
            return None
        driver, source = item.spec.attacher, item.spec.source.persistent_volume_name or ""
        volume = self._objects.get(PersistentVolume, source) if driver and source else None
        csi = None if volume is None else volume.spec.csi
        attaches = "" if csi is None else f"{driver}/{csi.volume_handle}"
        attachment = _Attachment(item.spec.node_name, driver, source, attaches)
        self._attachments[name] = attachment
        self._of_volume.setdefault(source, {})[name] = None
        if attaches:
            self._on.setdefault(attachment.node, {})[name] = attachment
        return attachment

    def _forget(self, name: str) -> None:
        attachment = self._attachments.pop(name, None)
        if attachment is None:
            return
        _drop(self._of_volume, attachment.source, name)
        if attachment.volume:
            _drop(self._on, attachment.node, name)


def _drop(index: dict[str, dict[str, T]], key: str, name: str) -> None:
    """Removes a name from the set of a key."""
    del index[key][name]
    if not index[key]:
        del index[key]
