"""Documents of objects as manifests write them, in few words; tests.kit.structs reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.tools.kubernetes.api.types.resources import KINDS

Document = dict[str, Any]

_LATEST = {kind.kind: kind for kind in KINDS if kind.stored_as is None}


def thing(kind: str, name: str, namespace: str = "default", **parts: Any) -> Document:
    """Returns an object of the latest version; its uid is its name. Labels, annotations and other
    fields of the metadata may stand in `parts` as they are, beside `metadata`.
    """
    served = _LATEST[kind]
    metadata: Document = {"name": name, "uid": name}
    if served.namespaced:
        metadata["namespace"] = namespace
    metadata |= parts.pop("metadata", None) or {}
    for field in _METADATA & parts.keys():
        metadata[field] = parts.pop(field)
    present = {field: part for field, part in parts.items() if part is not None}
    return {"apiVersion": served.api_version, "kind": kind, "metadata": metadata, **present}


def container(name: str = "c", cpu: str | int = "", **fields: Any) -> Document:
    """Returns a container that requests `cpu`, and more in `requests`."""
    requests = {**({"cpu": cpu} if cpu else {}), **fields.pop("requests", {})}
    resources = {"resources": {"requests": requests}} if requests else {}
    return {"name": name, "image": "i", **resources, **fields}


def pod(
    name: str = "p",
    cpu: str | int = "",
    node: str = "",
    priority: int | None = None,
    *,
    namespace: str = "default",
    requests: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    metadata: Document | None = None,
    status: Document | None = None,
    **spec: Any,
) -> Document:
    """Returns a pod of one container that requests `cpu` and `requests`; its uid is its name.
    Fields of the metadata may stand among those of the spec, as in `thing`.
    """
    fields = {
        "schedulerName": "default-scheduler",
        "containers": [container("c", cpu, requests=requests or {})],
        **({"nodeName": node} if node else {}),
        **({} if priority is None else {"priority": priority}),
    }
    about = {field: spec.pop(field) for field in _METADATA & spec.keys()}
    return thing(
        "Pod",
        name,
        namespace,
        metadata={"labels": {**(labels or {})}, **about, **(metadata or {})},
        spec={**fields, **spec},
        status=status or {},
    )


def node(
    name: str = "n",
    cpu: str | int = "4",
    *,
    memory: str = "8Gi",
    pods: str | int = "110",
    labels: Mapping[str, str] | None = None,
    metadata: Document | None = None,
    allocatable: Mapping[str, Any] | None = None,
    status: Document | None = None,
    **spec: Any,
) -> Document:
    """Returns a node with this much allocatable; its uid is its name."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(allocatable or {})}
    return thing(
        "Node",
        name,
        metadata={"labels": {**(labels or {})}, **(metadata or {})},
        spec=spec,
        status={"allocatable": amounts, **(status or {})},
    )


def template(app: str, **spec: Any) -> Document:
    """Returns a template of pods of one container, with the label `app`. Fields of the metadata may
    stand among those of the spec, as in `thing`.
    """
    about = {field: spec.pop(field) for field in _METADATA & spec.keys()}
    fields = {"containers": [container()], **spec}
    return {"metadata": {"labels": {"app": app}, **about}, "spec": fields}


def workload(kind: str, name: str, of_pods: Document | None = None, **spec: Any) -> Document:
    """Returns a workload whose pods have its name as the label `app`."""
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
    return thing(kind, name, spec={**selector, "template": of_pods or template(name), **spec})


def condition(document: Document, kind: str = "Ready") -> str:
    """Returns the status of a condition, or "" without it."""
    conditions = document["status"].get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")


_METADATA = {
    "annotations",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "labels",
    "ownerReferences",
    "resourceVersion",
    "uid",
}
