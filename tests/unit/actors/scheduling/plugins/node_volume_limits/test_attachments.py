"""Which VolumeAttachments are read again."""

from __future__ import annotations

from typing import Any

from berth.actors.scheduling.kube.kinds import decode
from berth.actors.scheduling.model.cluster_objects import ClusterObjects
from berth.actors.scheduling.plugins.node_volume_limits.attachments import Attachments
from berth.plugin import VolumeAttachment
from tests.kit.storage import thing


class Objects(ClusterObjects):
    """Objects that note the names of those that are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_up: list[str] = []

    def get(self, kind: type[Any], name: str, namespace: str = "") -> Any:
        self.looked_up.append(name)
        return super().get(kind, name, namespace)


def test_a_volume_that_changes_asks_for_its_present_attachments_alone() -> None:
    objects = Objects()
    items = []
    for name in ("kept", "gone"):
        spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
        item = decode(thing("VolumeAttachment", name, spec=spec))
        assert isinstance(item, VolumeAttachment)
        objects.put(item)
        items.append(item)
    attachments = Attachments(objects)
    objects.remove(items[1])
    assert attachments.follow(["gone"], []) == ["n"]
    objects.looked_up.clear()
    assert attachments.follow([], ["v"]) == []
    assert "gone" not in objects.looked_up
    assert "kept" in objects.looked_up
