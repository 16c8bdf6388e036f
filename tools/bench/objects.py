"""The objects that operations create: nodes with their strategies, pods, volumes and claims."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from ..kubernetes.api.types.resources import BY_KIND, Kind
from .opcodes import CreateNodes
from .pod_waits import UnsupportedError
from .templates import Document, Template, Value

NAMESPACES = BY_KIND["v1", "Namespace"]
NODES = BY_KIND["v1", "Node"]
PODS = BY_KIND["v1", "Pod"]
CLASSES = BY_KIND["scheduling.k8s.io/v1", "PriorityClass"]
CSI_NODES = BY_KIND["storage.k8s.io/v1", "CSINode"]
VOLUMES = BY_KIND["v1", "PersistentVolume"]
CLAIMS = BY_KIND["v1", "PersistentVolumeClaim"]
# Versions of an API that differ from the served version only in the name.
SAME_API = {"resource.k8s.io/v1beta2": "resource.k8s.io/v1"}
# Objects that no scheduler reads unless DRADeviceTaintRules is on, which is off by default.
UNREAD = ("resource.k8s.io", "DeviceTaintRule")
HOSTNAME = "kubernetes.io/hostname"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"

NAMESPACE: Document = {"apiVersion": "v1", "kind": "Namespace"}
BASE_POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  containers:
  - name: pause
    image: registry.k8s.io/pause:3.10.1
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: 100m, memory: 500Mi}, requests: {cpu: 100m, memory: 500Mi}}
"""
BASE_NODE = """
apiVersion: v1
kind: Node
metadata: {generateName: node-}
status:
  capacity: {pods: "110", cpu: "4", memory: 32Gi}
  conditions: [{type: Ready, status: "True"}]
"""


def node(
    operation: CreateNodes, template: Template, index: int, name_of: Mapping[str, Any]
) -> Document:
    """Returns the index-th node of an operation, with this name and the strategies applied."""
    values: dict[str, Value] = {
        **operation.template_params,
        "Index": index,
        "Count": operation.count,
    }
    document = template.document(values)
    metadata = document.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HOSTNAME: name_of["name"]}
    status = dict(document.get("status") or {})
    if operation.label_node_prepare_strategy is not None:
        strategy = operation.label_node_prepare_strategy
        labels[strategy.label_key] = strategy.label_values[index % len(strategy.label_values)]
    if operation.unique_node_label_strategy is not None:
        labels[operation.unique_node_label_strategy.label_key] = str(uuid.uuid4())
    if operation.node_allocatable_strategy is not None:
        more = operation.node_allocatable_strategy.node_allocatable
        status["allocatable"] = {
            **(status.get("allocatable") or status.get("capacity") or {}),
            **more,
        }
    return {**document, "metadata": {**metadata, **name_of, "labels": labels}, "status": status}


def csi_node(operation: CreateNodes, name: str) -> Document | None:
    """Returns the CSINode with the volume limits of a node; None if the operation sets none."""
    strategy = operation.node_allocatable_strategy
    if strategy is None or not strategy.csi_node_allocatable:
        return None
    drivers = [
        {"name": driver, "nodeID": driver, "allocatable": {"count": limit.get("count")}}
        for driver, limit in strategy.csi_node_allocatable.items()
    ]
    metadata: Document = {"name": name}
    if strategy.migrated_plugins:
        metadata["annotations"] = {MIGRATED: ",".join(strategy.migrated_plugins)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": drivers},
    }


def volume_and_claim(
    volume: Document, claim: Document, namespace: str, index: int
) -> Iterator[tuple[Kind, str, str, Document]]:
    """Yields a volume and a claim bound to each other: kind, namespace, name and document."""
    volume_name, claim_name = f"{namespace}-vol-{index}", f"pvc-{index}"
    spec = dict(volume.get("spec") or {})
    if "csi" in spec:
        spec["csi"] = {**spec["csi"], "volumeHandle": volume_name}
    elif "awsElasticBlockStore" in spec:
        spec["awsElasticBlockStore"] = {**spec["awsElasticBlockStore"], "volumeID": volume_name}
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": claim_name,
    }
    yield (
        VOLUMES,
        "",
        volume_name,
        {**volume, "spec": {**spec, "claimRef": reference}, "status": {"phase": "Bound"}},
    )
    bound = {**(claim.get("spec") or {}), "volumeName": volume_name}
    yield CLAIMS, namespace, claim_name, {**claim, "spec": bound, "status": {"phase": "Bound"}}


def with_claim(pod: Document, index: int) -> Document:
    claim = {"name": "vol", "persistentVolumeClaim": {"claimName": f"pvc-{index}"}}
    spec = pod.get("spec") or {}
    return {**pod, "spec": {**spec, "volumes": [*(spec.get("volumes") or ()), claim]}}


def is_unread(document: Document) -> bool:
    """True for an object that has no effect on scheduling, so that no cluster has to serve it."""
    group = str(document.get("apiVersion", "")).partition("/")[0]
    return (group, document.get("kind")) == UNREAD


def served(document: Document) -> tuple[Kind, Document]:
    """Returns the kind of a document, and the document in the version of its API that is served.

    Raises UnsupportedError.
    """
    api_version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
    served_version = SAME_API.get(api_version, api_version)
    served_kind = BY_KIND.get((served_version, kind))
    if served_kind is None:
        raise UnsupportedError(f"objects of kind {api_version} {kind}")
    if served_version != api_version:
        document = {**document, "apiVersion": served_version}
    return served_kind, document


def priority_class(value: int) -> tuple[str, Document]:
    """Returns the class that stands for a bare priority.

    Workloads give pods a bare priority, but an API server takes priorities only from classes.
    """
    name = f"bench-{value}" if value >= 0 else f"bench-minus-{-value}"
    return name, {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
