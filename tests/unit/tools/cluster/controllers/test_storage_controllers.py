"""Changes of storage reach the controllers, whatever the objects lack."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.kube.annotations import PROVISIONER
from berth.actors.scheduling.kube.meta import HasMetadata
from berth.tools.cluster.controllers.controller_table import ControllerTable
from berth.tools.cluster.controllers.storage_controllers import StorageControllers
from berth.tools.kubernetes.object_index import ObjectChange, ObjectIndex
from berth.tools.kubernetes.objects.structs import TYPES, read
from berth.tools.kubernetes.objects.writes import Create, Patch, Write
from berth.tools.kubernetes.storage.attachment import new_attachment
from berth.tools.kubernetes.work_items import Item
from tests.kit.documents import Document
from tests.unit.tools.kubernetes.storage.objects import (
    NOW,
    claim,
    node,
    pod,
    reference,
    storage_class,
    volume,
)

ASKING = {"annotations": {PROVISIONER: "d"}}
VOLUME = volume(csi={"driver": "d", "volumeHandle": "h"}, claimRef=reference(claim()))


def of_storage(kind: str, name: str = "x", **fields: Any) -> Document:
    metadata = {"name": name, "uid": f"uid-{kind}", "resourceVersion": "1"}
    return {"kind": kind, "metadata": metadata, **fields}


def document_of(obj: HasMetadata) -> Document:
    return {"kind": type(obj).__name__, **msgspec.to_builtins(obj)}


OBJECTS: list[HasMetadata] = [
    storage_class(
        parameters={"a": "b"},
        allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    ),
    node("n1", "zone-a"),
    claim(metadata=ASKING),
    claim("bound", phase="Bound", volumeName="v"),
    VOLUME,
    volume("free"),
    pod("p", "c", on="n1", ephemeral={"metadata": {"labels": {"a": "b"}}, "spec": {}}),
]
DOCUMENTS = [
    *map(document_of, OBJECTS),
    of_storage("CSINode", spec={"drivers": [{"name": "d", "topologyKeys": ["zone"]}]}),
    of_storage("CSIDriver", "d", spec={"storageCapacity": True, "attachRequired": True}),
    of_storage(
        "CSIStorageCapacity",
        storageClassName="s",
        capacity="1Gi",
        nodeTopology={"matchLabels": {"zone": "a"}},
    ),
    {
        **of_storage("VolumeAttachment", spec=new_attachment(VOLUME, "n1")["spec"]),
        "status": {"attached": False},
    },
]
NAMES = {row.name for row in StorageControllers().rows}
REQUIRED = ("name", "uid", "resourceVersion", "kind", "metadata")


def without(value: Any) -> Iterator[Any]:
    """Copies of a document in each of which one optional field is null."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from ([*value[:i], less, *value[i + 1 :]] for less in without(item))
    if isinstance(value, dict):
        for field, inner in value.items():
            if field not in REQUIRED:
                yield {**copy.deepcopy(value), field: None}
            yield from ({**copy.deepcopy(value), field: less} for less in without(inner))


def decisions(documents: list[Document]) -> list[Write]:
    cluster, controllers = ObjectIndex(), ControllerTable(lambda: NOW, names=NAMES)
    items: dict[Item, None] = {}
    objects = [read(document, TYPES[document["kind"]]) for document in documents]
    changes = [cluster.put(obj) for obj in objects]
    changes += [ObjectChange(obj, None) for obj in objects]
    for change in changes:
        if change is not None:
            items.update(dict.fromkeys(controllers.touched(cluster, change)))
    return [write for item in items for write in controllers.reconcile(cluster, item, NOW)]


def test_every_controller_has_something_to_do() -> None:
    writes = decisions(DOCUMENTS)
    created = {write.kind for write in writes if isinstance(write, Create)}
    assert created == {"CSINode", "PersistentVolumeClaim"}
    patched = {write.kind for write in writes if isinstance(write, Patch)}
    assert {"PersistentVolumeClaim", "PersistentVolume", "CSIStorageCapacity"} <= patched
    assert "VolumeAttachment" in patched


@pytest.mark.parametrize("at", range(len(DOCUMENTS)), ids=lambda at: DOCUMENTS[at]["kind"])
def test_no_missing_field_stops_the_controllers(at: int) -> None:
    for less in without(DOCUMENTS[at]):
        decisions([*DOCUMENTS[:at], less, *DOCUMENTS[at + 1 :]])
