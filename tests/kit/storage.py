"""Clusters with volumes, and the answers of one plugin about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from berth.actors.scheduling.decision.rules import Rules, rule_hooks
from berth.actors.scheduling.framework.interface import Plugin
from berth.actors.scheduling.framework.status import SKIP, SUCCESS, Status
from berth.actors.scheduling.kube.kinds import LOOKED_UP
from berth.actors.scheduling.model.snapshot import Snapshot
from berth.plugin import CycleState, Pod, PodInfo
from tests.kit.snapshots import snapshot_of

_API_VERSIONS = {kind.kind: kind.api_version for kind in LOOKED_UP}
_CLUSTER_WIDE = {"PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"}


def thing(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    """Returns a document; labels, annotations, namespace and ownerReferences are metadata."""
    metadata = {"name": name, "uid": name}
    if kind not in _CLUSTER_WIDE | {"Node"}:
        metadata["namespace"] = parts.pop("namespace", "ns")
    for field in ("labels", "annotations", "ownerReferences"):
        metadata |= {field: parts.pop(field)} if field in parts else {}
    api_version = _API_VERSIONS.get(kind, "v1")
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def node(name: str, **labels: str) -> dict[str, Any]:
    return thing("Node", name, labels=labels, status={"allocatable": {"pods": "110"}})


def pod(name: str, *volumes: dict[str, Any], on: str = "", namespace: str = "ns") -> dict[str, Any]:
    """Returns a pod with these volumes, which are named v0, v1, ..."""
    named = [{"name": f"v{i}", **volume} for i, volume in enumerate(volumes)]
    return thing("Pod", name, namespace=namespace, spec={"volumes": named, "nodeName": on})


def of_claim(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


def claim(name: str, volume: str = "", namespace: str = "ns", **parts: Any) -> dict[str, Any]:
    """Returns a claim bound to a volume; parts that are no metadata belong to the spec."""
    metadata = {
        field: parts.pop(field) for field in ("annotations", "ownerReferences") if field in parts
    }
    spec = {"volumeName": volume, **parts}
    return thing("PersistentVolumeClaim", name, namespace=namespace, spec=spec, **metadata)


def volume(name: str, labels: Mapping[str, str] | None = None, **source: Any) -> dict[str, Any]:
    return thing("PersistentVolume", name, labels=labels or {}, spec=source)


def storage_class(name: str, provisioner: str) -> dict[str, Any]:
    return thing("StorageClass", name, provisioner=provisioner)


def cluster(*objects: dict[str, Any]) -> Snapshot:
    return snapshot_of(objects)


def as_pod(document: dict[str, Any]) -> Pod:
    return msgspec.convert(document, Pod)


def answered(
    plugin: Plugin, document: dict[str, Any], snapshot: Snapshot, *, pre_filter: bool = True
) -> Status | dict[str, Status]:
    """Returns the plugin's answer about each node, or its PreFilter's if that ends it. Raises
    PluginError.

    Without `pre_filter`, only its Filter is asked.
    """
    rules = Rules(
        rule_hooks({"preFilter": [(plugin, 1)] if pre_filter else [], "filter": [(plugin, 1)]})
    )
    state, info = CycleState(), PodInfo(as_pod(document))
    prefiltered = rules.pre_filter(state, info, snapshot)
    if not prefiltered.status.ok:
        return prefiltered.status
    if plugin.name in state.skip_filter:
        return SKIP
    diagnosis = rules.filter(state, info, snapshot.rows(snapshot.columns.order))
    passing = rules.passing(state, info, snapshot.rows(snapshot.columns.order))
    feasible = diagnosis.feasible()
    assert bool(feasible.all()) if passing is None else passing.tolist() == feasible.tolist()
    names = [snapshot.columns.names[row] for row in snapshot.columns.order]
    return {name: diagnosis.status(position) for position, name in enumerate(names)}


def rejected(answer: Status | dict[str, Status]) -> dict[str, str]:
    """Returns the nodes that a plugin rejected, each with the message."""
    assert isinstance(answer, dict), answer
    return {name: status.message for name, status in answer.items() if status is not SUCCESS}
