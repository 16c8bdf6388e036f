"""Validation of an object: its metadata, and the rules of its kind.

Documents must have their defaults and values of the right types (see schema). A problem is a
field's path and a description, in the words of Kubernetes' field errors. The refusal lists each
problem once.
"""

from __future__ import annotations

from typing import Any

from berth.actors.scheduling.kube.names import dns_label, dns_subdomain, qualified_name

from .recall import recalled
from .rules import (
    access,
    autoscaling,
    cluster,
    device_claims,
    devices,
    limits,
    negotiation,
    pod_resize,
    pod_updates,
    pods,
    policies,
    quotas,
    storage,
    workloads,
)
from .rules.fields import Document, invalid, labels, required
from .schema import TYPES

_LABEL_NAMES = ("Namespace", "Service")
_PATH_NAMES = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_ANNOTATION_BYTES = 256 << 10
_REASONS = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Forbidden": "FieldValueForbidden",
}


def problems(kind: str, document: Document, before: Document | None = None) -> list[str]:
    """Returns the problems of an object of this kind; `before` is the stored object, if any."""
    return _metadata(kind, document.get("metadata") or {}) + _of_kind(kind, document, before)


def resize_problems(document: Document, before: Document, qos: str) -> list[str]:
    """Returns the problems of the resize of a pod. `qos` is the quality of service that the resized
    pod would have.
    """
    spec, metadata = document.get("spec") or {}, document.get("metadata") or {}
    own = _metadata("Pod", metadata) + _pod_spec(spec)
    return own + pod_resize.pod_resize(document, before, qos)


def status_problems(kind: str, document: Document, before: Document) -> list[str]:
    """Returns the problems of an update of an object's status; both documents are whole objects."""
    match kind:
        case "ResourceClaim":
            return device_claims.status(document, before)
        case "v1alpha2.ResourceClaim":
            return negotiation.claim_status(document, before)
        case "v1alpha2.PodSchedulingContext":
            return negotiation.context_status(document)
        case "ResourceQuota":
            return quotas.status(document.get("status") or {})
        case "ValidatingAdmissionPolicy":
            return policies.status(document.get("status") or {})
        case _:
            return []


def _of_kind(kind: str, document: Document, before: Document | None) -> list[str]:
    spec: Document = document.get("spec") or {}
    was: Document | None = None if before is None else before.get("spec") or {}
    match kind:
        case "Pod":
            own = _pod_spec(spec) + pod_updates.mirror_annotation(document, before)
            return own + (pods.new_pod(spec) if was is None else pod_updates.pod_update(spec, was))
        case "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController":
            return workloads.workload(kind, spec, was)
        case "Job":
            return workloads.job("spec", spec, was)
        case "PodDisruptionBudget":
            return workloads.disruption_budget(spec)
        case "PersistentVolumeClaim":
            return storage.claim(spec, was)
        case "PersistentVolume":
            return storage.volume(spec, was)
        case "CSINode":
            return storage.csi_node(spec, was)
        case "CSIDriver":
            return storage.csi_driver(spec, was)
        case "VolumeAttachment":
            return storage.volume_attachment(spec, was)
        case "ResourceClaim" | "ResourceClaimTemplate" | "ResourceSlice" | "DeviceClass":
            return _of_device_kind(kind, spec, was)
        case "v1alpha2.ResourceClaim":
            return negotiation.claim(spec, was)
        case "v1alpha2.PodSchedulingContext":
            return negotiation.context(spec)
        case "Service":
            return cluster.service(spec)
        case "Lease":
            return cluster.lease(spec)
        case _:
            return _of_flat_kind(kind, document, before)


def _of_device_kind(kind: str, spec: Document, was: Document | None) -> list[str]:
    match kind:
        case "ResourceClaim":
            return device_claims.claim(spec, was)
        case "ResourceClaimTemplate":
            return device_claims.template(spec, was)
        case "ResourceSlice":
            return devices.resource_slice(spec, was)
        case _:
            return devices.device_class(spec, was)


@recalled
def _pod_spec(spec: Document) -> list[str]:
    return pods.pod_spec("spec", spec)


def _of_flat_kind(kind: str, document: Document, before: Document | None) -> list[str]:
    """Returns the problems of kinds that have no spec, or rules beyond their spec."""
    match kind:
        case "Node":
            return cluster.node(document)
        case "CronJob":
            return workloads.cron_job(document)
        case "PriorityClass":
            return cluster.priority_class(document, before)
        case "StorageClass":
            return storage.storage_class(document, before)
        case "CSIStorageCapacity":
            return storage.storage_capacity(document, before)
        case "v1alpha2.ResourceClass":
            return negotiation.resource_class(document, before)
        case "RuntimeClass":
            return cluster.runtime_class(document, before)
        case "Event":
            return cluster.event(document, "reportingComponent")
        case "events.Event":
            return cluster.event(document, "reportingController") + cluster.strict_event(
                document, before
            )
        case "ConfigMap":
            return cluster.config_map(document, before)
        case "v2.HorizontalPodAutoscaler" | "autoscaling.HorizontalPodAutoscaler":
            return autoscaling.autoscaler(document.get("spec") or {})
        case "LimitRange":
            return limits.limit_range(document.get("spec") or {})
        case "ResourceQuota":
            return quotas.quota(document, before)
        case "ControllerRevision":
            return workloads.revision(document, before)
        case _:
            return _of_access_kind(kind, document, before)


def _of_access_kind(kind: str, document: Document, before: Document | None) -> list[str]:
    """Returns the problems of kinds that say who may do what."""
    spec: Document = document.get("spec") or {}
    match kind:
        case "Role" | "ClusterRole":
            return access.role(kind, document)
        case "RoleBinding" | "ClusterRoleBinding":
            return access.binding(kind, document, before)
        case "ValidatingAdmissionPolicy":
            return policies.policy(document["metadata"].get("name") or "", spec)
        case "ValidatingAdmissionPolicyBinding":
            return policies.binding(spec)
        case _:
            return []


def _metadata(kind: str, metadata: Document) -> list[str]:
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    form = (
        dns_label
        if kind in _LABEL_NAMES
        else access.path_segment
        if kind in _PATH_NAMES
        else dns_subdomain
    )
    problems: list[str] = []
    if prefix:
        # a prefix may end in a dash, since the suffix ends the name with a letter or a digit
        problems += [
            invalid("metadata.generateName", prefix, message)
            for message in form(prefix.rstrip("-") or "-")
        ]
    if name:
        problems += [invalid("metadata.name", name, message) for message in form(name)]
    elif not prefix:
        problems.append(required("metadata.name", "name or generateName is required"))
    if metadata.get("labels"):
        problems += labels("metadata.labels", metadata["labels"])
    if metadata.get("annotations"):
        problems += _annotations(metadata["annotations"])
    for i, finalizer in enumerate(metadata.get("finalizers") or ()):
        problems += [
            invalid(f"metadata.finalizers[{i}]", finalizer, message)
            for message in qualified_name(finalizer)
        ]
    for i, owner in enumerate(metadata.get("ownerReferences") or ()):
        problems += _owner(f"metadata.ownerReferences[{i}]", owner)
    return problems


def _annotations(annotations: dict[str, str]) -> list[str]:
    problems: list[str] = []
    size = 0
    for key, value in annotations.items():
        problems += [
            invalid("metadata.annotations", key, message) for message in qualified_name(key.lower())
        ]
        size += len(key.encode()) + len((value or "").encode())
    if size > _ANNOTATION_BYTES:
        problems.append(
            f"metadata.annotations: Too long: may not be more than {_ANNOTATION_BYTES} bytes"
        )
    return problems


def _owner(path: str, owner: Document) -> list[str]:
    words = {"apiVersion": "version", "kind": "kind", "name": "name", "uid": "uid"}
    return [
        invalid(f"{path}.{field}", "", f"{word} must not be empty")
        for field, word in words.items()
        if not owner.get(field)
    ]


def invalid_message(kind: str, name: str, problems: list[str]) -> str:
    """Returns the message that refuses an object with these problems."""
    group, _, version = TYPES[kind].api_version.partition("/")
    name_of_kind = TYPES[kind].name
    full = name_of_kind if not version or group == "core" else f"{name_of_kind}.{group}"
    unique = list(dict.fromkeys(problems))
    listed = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
    return f'{full} "{name}" is invalid: {listed}'


def invalid_details(kind: str, name: str, problems: list[str]) -> dict[str, Any]:
    """Returns the details of the metav1.Status that refuses the object."""
    group = TYPES[kind].api_version.partition("/")[0]
    causes = []
    for problem in problems:
        field, _, message = problem.partition(": ")
        causes.append(
            {"reason": _REASONS[message.partition(":")[0]], "message": message, "field": field}
        )
    return {
        "name": name,
        **({} if group == "core" else {"group": group}),
        "kind": TYPES[kind].name,
        "causes": causes,
    }
