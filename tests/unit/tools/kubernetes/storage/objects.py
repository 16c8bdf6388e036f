"""Builders of volumes, claims, classes, nodes and pods for the tests of the storage controllers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from berth.actors.scheduling.kube.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.tools.kubernetes.objects.documents import reference_to
from berth.tools.kubernetes.objects.structs import Node, Pod, read
from berth.tools.kubernetes.objects.writes import Create, Delete, Patch, Write
from tests.kit.documents import Document

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = "2026-01-01T00:00:00Z"
ZONE = "topology.kubernetes.io/zone"


def metadata_of(name: str, **metadata: Any) -> Document:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **metadata}


def volume(
    name: str = "v",
    size: str = "1Gi",
    phase: str = "Available",
    metadata: Document | None = None,
    **spec: Any,
) -> PersistentVolume:
    usual = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
        "storageClassName": "s",
    }
    document = {
        "metadata": metadata_of(name, **(metadata or {})),
        "spec": {**usual, **spec},
        "status": {"phase": phase},
    }
    return read(document, PersistentVolume)


def claim(
    name: str = "c",
    size: str = "1Gi",
    phase: str = "Pending",
    metadata: Document | None = None,
    status: Document | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    usual = {
        "resources": {"requests": {"storage": size}},
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "storageClassName": "s",
    }
    document = {
        "metadata": metadata_of(name, namespace="n", **(metadata or {})),
        "spec": {**usual, **spec},
        "status": {"phase": phase, **(status or {})},
    }
    return read(document, PersistentVolumeClaim)


def reference(of: PersistentVolumeClaim, *, uid: bool = True) -> Document:
    """Returns the claimRef of a volume for a claim."""
    named = {"namespace": of.metadata.namespace, "name": of.metadata.name}
    return {**named, "uid": of.metadata.uid} if uid else named


def storage_class(
    name: str = "s", mode: str = "Immediate", metadata: Document | None = None, **fields: Any
) -> StorageClass:
    document = {
        "metadata": metadata_of(name, **(metadata or {})),
        "provisioner": "d",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
        **fields,
    }
    return read(document, StorageClass)


def node(name: str, zone: str = "", **metadata: Any) -> Node:
    labels = {ZONE: zone} if zone else {}
    return read({"metadata": metadata_of(name, labels=labels, **metadata)}, Node)


def pod(
    name: str = "p",
    *claims: str,
    on: str = "",
    phase: str = "Running",
    ephemeral: Document | None = None,
    **metadata: Any,
) -> Pod:
    volumes: list[Document] = [
        {"name": f"v-{claim}", "persistentVolumeClaim": {"claimName": claim}} for claim in claims
    ]
    if ephemeral is not None:
        volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": ephemeral}})
    document = {
        "metadata": metadata_of(name, namespace="n", **metadata),
        "spec": {"nodeName": on, "volumes": volumes},
        "status": {"phase": phase},
    }
    return read(document, Pod)


def owned_by(owner: Pod) -> Document:
    """Returns the metadata of an object that the pod controls."""
    return {"ownerReferences": [reference_to(owner)]}


def patches(writes: list[Write]) -> list[tuple[str, str, Document]]:
    """Returns kind, subresource and body of each patch, the body without its resourceVersion."""
    contents: list[tuple[str, str, Document]] = []
    for write in writes:
        assert isinstance(write, Patch)
        assert write.body["metadata"]["resourceVersion"], "the patch may undo another write"
        body = {**write.body, "metadata": dict(write.body["metadata"])}
        del body["metadata"]["resourceVersion"]
        if not body["metadata"]:
            del body["metadata"]
        contents.append((write.kind, write.subresource, body))
    return contents


def created(writes: list[Write]) -> list[Document]:
    return [write.document for write in writes if isinstance(write, Create)]


def deleted(writes: list[Write]) -> list[str]:
    return [write.name for write in writes if isinstance(write, Delete)]
