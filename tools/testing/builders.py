"""Objects in few words, as documents that manifests could hold.

The keyword arguments are the fields that tests set most. All others go to the object's spec as they
are (`**fields`), and to its metadata by `metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..kubernetes.api.rules.fields import is_extended
from ..kubernetes.kubelet.hollow_nodes import hollow_node

Document = dict[str, Any]
Amount = str | int | float


def _metadata(
    name: str,
    namespace: str | None,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    more: Mapping[str, Any] | None,
) -> Document:
    metadata: Document = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata | dict(more or {})


def _amounts(
    cpu: Amount | None, memory: Amount | None, more: Mapping[str, Amount] | None
) -> dict[str, str]:
    amounts = {"cpu": cpu, "memory": memory, **(more or {})}
    return {name: str(amount) for name, amount in amounts.items() if amount is not None}


def _pod_spec(
    cpu: Amount | None,
    memory: Amount | None,
    requests: Mapping[str, Amount] | None,
    image: str,
    devices: Sequence[Document],
    fields: Mapping[str, Any],
) -> Document:
    container: Document = {"name": "main", "image": image}
    amounts = _amounts(cpu, memory, requests)
    names = [claim["metadata"]["name"] for claim in devices]
    limits = {resource: amount for resource, amount in amounts.items() if is_extended(resource)}
    resources = {
        **({"requests": amounts} if amounts else {}),
        **({"limits": limits} if limits else {}),
        **({"claims": [{"name": name} for name in names]} if names else {}),
    }
    if resources:
        container["resources"] = resources
    claims = [_claim_of_pod(claim) for claim in devices]
    return {"containers": [container], **({"resourceClaims": claims} if claims else {}), **fields}


def _claim_of_pod(claim: Document) -> Document:
    name = claim["metadata"]["name"]
    is_template = claim["kind"] == "ResourceClaimTemplate"
    of = "resourceClaimTemplateName" if is_template else "resourceClaimName"
    return {"name": name, of: name}


def pod(
    name: str,
    *,
    cpu: Amount | None = None,
    memory: Amount | None = None,
    requests: Mapping[str, Amount] | None = None,
    image: str = "app",
    devices: Sequence[Document] = (),
    node: str = "",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Document:
    """Returns a pod of one container that requests this much, of extended resources with the limit
    that the API server wants. With `node`, it is on that node. `devices` are claims, or templates
    of claims, as by `device_claim`.
    """
    spec = _pod_spec(cpu, memory, requests, image, devices, fields)
    if node:
        spec["nodeName"] = node
    about = _metadata(name, namespace, labels, annotations, metadata)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def node(
    name: str,
    *,
    cpu: Amount = 8,
    memory: Amount = "32Gi",
    pods: int = 110,
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    resources: Mapping[str, Amount] | None = None,
    taints: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Document:
    """Returns a ready node with this much room. A taint is written as by kubectl:
    `key=value:NoSchedule`. Raises ValueError for a taint without an effect.
    """
    document = hollow_node(1)
    own = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone or "zone-a"}
    every = {**document["metadata"]["labels"], **own, **(labels or {})}
    more = {"pods": pods, **(resources or {})}
    amounts = {**document["status"]["allocatable"], **_amounts(cpu, memory, more)}
    status = {**document["status"], "capacity": amounts, "allocatable": amounts}
    spec = {**({"taints": [_taint(text) for text in taints]} if taints else {}), **fields}
    about = _metadata(name, None, every, annotations, metadata)
    return {**document, "metadata": about, "spec": spec, "status": status}


def _taint(text: str) -> Document:
    key_and_value, colon, effect = text.rpartition(":")
    if not colon:
        raise ValueError(f"taints: expected key=value:Effect, got {text!r}")
    key, _, value = key_and_value.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


def nodes(count: int, *, prefix: str = "node", zones: int = 1, **fields: Any) -> list[Document]:
    """Returns the nodes node-1, node-2 and so on, each as by `node`, in so many zones by turns.
    Raises ValueError for less than none.
    """
    if count < 0:
        raise ValueError(f"expected 0 nodes or more, got {count}")
    return [
        node(f"{prefix}-{number + 1}", zone=f"zone-{'abcdefghij'[number % zones]}", **fields)
        for number in range(count)
    ]


def _workload(
    kind: str,
    api_version: str,
    name: str,
    namespace: str,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    pods: Document,
    spec: Document,
) -> Document:
    of_pods = {"app": name, **(labels or {})}
    about: Document = {"labels": of_pods}
    if annotations:
        about["annotations"] = dict(annotations)
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
    template = {"metadata": about, "spec": pods}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": of_pods},
        "spec": {**selector, "template": template, **spec},
    }


def deployment(
    name: str,
    *,
    replicas: int = 1,
    cpu: Amount | None = None,
    memory: Amount | None = None,
    requests: Mapping[str, Amount] | None = None,
    image: str = "app",
    devices: Sequence[Document] = (),
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    strategy: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Document:
    """Returns a Deployment whose pods have its name as the label `app`. `annotations` and `fields`
    are those of the pods: of their metadata and of their spec.
    """
    pods = _pod_spec(cpu, memory, requests, image, devices, fields)
    spec = {"replicas": replicas, **({"strategy": dict(strategy)} if strategy else {})}
    return _workload("Deployment", "apps/v1", name, namespace, labels, annotations, pods, spec)


def stateful_set(
    name: str,
    *,
    replicas: int = 1,
    cpu: Amount | None = None,
    memory: Amount | None = None,
    requests: Mapping[str, Amount] | None = None,
    image: str = "app",
    devices: Sequence[Document] = (),
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    claims: Sequence[Document] = (),
    **fields: Any,
) -> Document:
    """Returns a StatefulSet; `claims` are its templates of volume claims, as by `claim`."""
    pods = _pod_spec(cpu, memory, requests, image, devices, fields)
    spec: Document = {"replicas": replicas, "serviceName": name}
    if claims:
        spec["volumeClaimTemplates"] = list(claims)
    return _workload("StatefulSet", "apps/v1", name, namespace, labels, annotations, pods, spec)


def job(
    name: str,
    *,
    completions: int = 1,
    parallelism: int | None = None,
    cpu: Amount | None = None,
    memory: Amount | None = None,
    requests: Mapping[str, Amount] | None = None,
    image: str = "app",
    devices: Sequence[Document] = (),
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> Document:
    """Returns a Job whose pods are not started again. All run at once unless `parallelism` says
    otherwise.
    """
    pods = {"restartPolicy": "Never", **_pod_spec(cpu, memory, requests, image, devices, fields)}
    spec = {"completions": completions, "parallelism": parallelism or completions}
    return _workload("Job", "batch/v1", name, namespace, labels, annotations, pods, spec)


def claim(
    name: str,
    *,
    size: Amount = "1Gi",
    storage_class: str | None = None,
    namespace: str = "default",
    **fields: Any,
) -> Document:
    """Returns a PersistentVolumeClaim; without `storage_class`, of the default class."""
    spec: Document = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(size)}},
        **({} if storage_class is None else {"storageClassName": storage_class}),
        **fields,
    }
    about = _metadata(name, namespace, None, None, None)
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": about, "spec": spec}


def device_claim(
    name: str,
    device_class: str | Mapping[str, str],
    *,
    count: int = 1,
    selector: str = "",
    capacity: Mapping[str, Amount] | None = None,
    same: str = "",
    template: bool = False,
    namespace: str = "default",
    **fields: Any,
) -> Document:
    """Returns a ResourceClaim for devices of a class, which `selector` (CEL) may narrow; of
    devices that claims share, as much as `capacity` says. With `template`, it is a
    ResourceClaimTemplate, which gives each pod a claim of its own.

    Classes by the names of requests make a claim with several requests. All its devices have the
    `same` value of this attribute.
    """
    requests = {"device": device_class} if isinstance(device_class, str) else device_class
    asked = [
        {"name": request, "exactly": _asked(of, count, selector, capacity)}
        for request, of in requests.items()
    ]
    constraints = {"constraints": [{"matchAttribute": same}]} if same else {}
    spec = {"devices": {"requests": asked, **constraints}, **fields}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate" if template else "ResourceClaim",
        "metadata": _metadata(name, namespace, None, None, None),
        "spec": {"spec": spec} if template else spec,
    }


def _asked(
    device_class: str, count: int, selector: str, capacity: Mapping[str, Amount] | None
) -> Document:
    asked: Document = {"deviceClassName": device_class, "count": count}
    if selector:
        asked["selectors"] = [{"cel": {"expression": selector}}]
    if capacity:
        asked["capacity"] = {"requests": _amounts(None, None, capacity)}
    return asked


def priority_class(
    name: str,
    value: int,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> Document:
    """Returns a PriorityClass; `fields` are its own, such as preemptionPolicy."""
    about = _metadata(name, None, labels, annotations, None)
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": about,
        "value": value,
        **fields,
    }


def budget(
    name: str,
    *,
    app: str,
    min_available: int | str | None = None,
    max_unavailable: int | str | None = None,
    namespace: str = "default",
) -> Document:
    """Returns a PodDisruptionBudget of the pods with this label `app`."""
    amounts = {"minAvailable": min_available, "maxUnavailable": max_unavailable}
    given = {field: amount for field, amount in amounts.items() if amount is not None}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}, **given},
    }
