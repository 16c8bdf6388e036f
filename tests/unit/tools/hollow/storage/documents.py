"""Builders of volumes, claims, classes, nodes and pods for the tests of the storage controllers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from berth.tools.hollow.documents import reference_to
from berth.tools.hollow.writes import Create, Delete, Patch, Write

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = "2026-01-01T00:00:00Z"
ZONE = "topology.kubernetes.io/zone"
Document = dict[str, Any]


def _made(kind: str, name: str, version: str = "v1", **metadata: Any) -> Document:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **metadata},
    }


def volume(
    name: str = "v",
    size: str = "1Gi",
    phase: str = "Available",
    metadata: Document | None = None,
    **spec: Any,
) -> Document:
    given = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
        "storageClassName": "s",
    }
    made = _made("PersistentVolume", name, **(metadata or {}))
    return {**made, "spec": {**given, **spec}, "status": {"phase": phase}}


def claim(
    name: str = "c",
    size: str = "1Gi",
    phase: str = "Pending",
    metadata: Document | None = None,
    **spec: Any,
) -> Document:
    given = {
        "resources": {"requests": {"storage": size}},
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "storageClassName": "s",
    }
    made = _made("PersistentVolumeClaim", name, namespace="n", **(metadata or {}))
    return {**made, "spec": {**given, **spec}, "status": {"phase": phase}}


def reference(of: Document, *, uid: bool = True) -> Document:
    """The claimRef of a volume for a claim."""
    metadata = of["metadata"]
    named = {"namespace": metadata["namespace"], "name": metadata["name"]}
    return {**named, "uid": metadata["uid"]} if uid else named


def storage_class(
    name: str = "s", mode: str = "Immediate", metadata: Document | None = None, **fields: Any
) -> Document:
    return {
        **_made("StorageClass", name, "storage.k8s.io/v1", **(metadata or {})),
        "provisioner": "d",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
        **fields,
    }


def node(name: str, zone: str = "", **labels: str) -> Document:
    zones = {ZONE: zone} if zone else {}
    return {**_made("Node", name, labels={**zones, **labels}), "spec": {}}


def pod(
    name: str = "p",
    *claims: str,
    on: str = "",
    phase: str = "Running",
    ephemeral: Document | None = None,
) -> Document:
    volumes: list[Document] = [
        {"name": f"v-{one}", "persistentVolumeClaim": {"claimName": one}} for one in claims
    ]
    if ephemeral is not None:
        volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": ephemeral}})
    made = _made("Pod", name, namespace="n")
    return {
        **made,
        "spec": {"nodeName": on, "volumes": volumes},
        "status": {"phase": phase},
    }


def owned_by(document: Document, owner: Document) -> Document:
    metadata = {**document["metadata"], "ownerReferences": [reference_to(owner)]}
    return {**document, "metadata": metadata}


def patches(writes: list[Write]) -> list[tuple[str, str, Document]]:
    """Kind, subresource and body of each patch, the body without the resourceVersion."""
    found: list[tuple[str, str, Document]] = []
    for write in writes:
        assert isinstance(write, Patch)
        assert write.body["metadata"]["resourceVersion"], "the patch may undo another write"
        body = {**write.body, "metadata": dict(write.body["metadata"])}
        del body["metadata"]["resourceVersion"]
        if not body["metadata"]:
            del body["metadata"]
        found.append((write.kind, write.subresource, body))
    return found


def made(writes: list[Write]) -> list[Document]:
    return [write.document for write in writes if isinstance(write, Create)]


def deleted(writes: list[Write]) -> list[str]:
    return [write.name for write in writes if isinstance(write, Delete)]
