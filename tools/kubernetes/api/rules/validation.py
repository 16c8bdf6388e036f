"""Validation of an object: its metadata, and the rules of its kind.

Documents must have their defaults and values of the right types (see schema). A problem is a
field's path and a description, in the words of Kubernetes' field errors. The refusal lists each
problem once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from berth.actors.scheduling.kube.names import dns_label, dns_subdomain, qualified_name

from ..types.document_cache import cached_by_document
from ..types.schema import TYPES
from . import (
    autoscaler_rules,
    certificate_rules,
    cluster_rules,
    container_rules,
    data_rules,
    device_claim_rules,
    device_rules,
    endpoint_rules,
    ephemeral_containers,
    flow_rules,
    limit_rules,
    negotiation_rules,
    network_rules,
    placement_rules,
    pod_resize,
    pod_rules,
    pod_updates,
    policy_rules,
    quota_rules,
    role_rules,
    security_rules,
    service_rules,
    storage_rules,
    volume_rules,
    webhook_rules,
    workload_rules,
)
from .field_marks import Marks, Rule
from .fields import Document, annotation_rules, invalid, label_selector, labels, required

KindRule = Callable[[Document, Document | None], Iterable[str]]
_LABEL_NAMES = ("Namespace", "Service")
_PATH_NAMES = (
    *("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    *("APIService", "CertificateSigningRequest", "IPAddress"),
)
_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_REASONS = {
    "Required value": "FieldValueRequired",
    "Invalid value": "FieldValueInvalid",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Too long": "FieldValueTooLong",
    "Too many": "FieldValueTooMany",
    "Forbidden": "FieldValueForbidden",
    "Internal error": "InternalError",
}
_PROBLEM = re.compile(rf"(.*?): ((?:{'|'.join(_REASONS)})(?::.*|$))", re.DOTALL)
# The rules across the fields of a type, wherever it occurs in an object.
ACROSS: dict[str, Rule] = {
    "AppArmorProfile": security_rules.app_armor_profile,
    "AzureDiskVolumeSource": volume_rules.azure_disk,
    "CSIDriverSpec": storage_rules.csi_driver,
    "CSINodeDriver": storage_rules.csi_node_driver,
    "CSIVolumeSource": volume_rules.csi,
    "Container": container_rules.container,
    "DownwardAPIVolumeFile": volume_rules.downward_file,
    "EmptyDirVolumeSource": volume_rules.empty_dir,
    "EndpointSubset": service_rules.subset,
    "EnvVar": container_rules.env_var,
    "EphemeralContainer": container_rules.container,
    "FCVolumeSource": volume_rules.fibre_channel,
    "FlockerVolumeSource": volume_rules.flocker,
    "HTTPIngressPath": network_rules.ingress_path,
    "HTTPGetAction": container_rules.http_get,
    "IPBlock": network_rules.ip_block,
    "ISCSIPersistentVolumeSource": volume_rules.iscsi,
    "ISCSIVolumeSource": volume_rules.iscsi,
    "IngressClassParametersReference": network_rules.class_parameters,
    "IngressSpec": network_rules.ingress_spec,
    "JobSpec": workload_rules.job,
    "LabelSelector": label_selector,
    "LifecycleHandler": container_rules.handler,
    "NetworkPolicyPeer": network_rules.policy_peer,
    "NetworkPolicyPort": network_rules.policy_port,
    "NetworkPolicySpec": network_rules.network_policy,
    "NodeSelector": placement_rules.node_selector,
    "Overhead": cluster_rules.overhead,
    "PersistentVolumeClaimSpec": storage_rules.claim,
    "PersistentVolumeClaimTemplate": volume_rules.claim_template,
    "PersistentVolumeSpec": storage_rules.volume,
    "PodAffinityTerm": placement_rules.pod_affinity_term,
    "PodDisruptionBudgetSpec": workload_rules.disruption_budget,
    "PodResourceClaim": pod_rules.claim,
    "PodSchedulingGroup": pod_rules.scheduling_group,
    "PodSpec": pod_rules.pod_spec,
    "PodTemplateSpec": pod_rules.pod_template,
    "PreferredSchedulingTerm": placement_rules.preferred_term,
    "Probe": container_rules.probe,
    "ProjectedVolumeSource": volume_rules.projected,
    "QuobyteVolumeSource": volume_rules.quobyte,
    "Scheduling": cluster_rules.scheduling,
    "SeccompProfile": security_rules.seccomp_profile,
    "SecurityContext": security_rules.security_context,
    "ServiceSpec": service_rules.service,
    "StorageClass": storage_rules.storage_class,
    "Toleration": placement_rules.toleration,
    "TopologySpreadConstraint": placement_rules.spread_constraint,
    "Volume": volume_rules.volume,
    "VolumeAttachmentSpec": storage_rules.volume_attachment,
    "WindowsSecurityContextOptions": security_rules.windows_options,
}
_MARKS = Marks(ACROSS)


def problems(kind: str, document: Document, before: Document | None = None) -> list[str]:
    """Returns the problems of an object of this kind; `before` is the stored object, if any."""
    is_label = kind in _LABEL_NAMES or (kind == "StatefulSet" and before is None)
    own = _metadata(kind, document.get("metadata") or {}, is_label=is_label)
    if kind == "Pod":
        own += _pod_spec(document.get("spec") or {})
    else:
        own += network_rules.address(document) if kind == "IPAddress" else []
        own += _MARKS.problems(kind, "", _as_validated(kind, document, before), before)
    if (rule := _OF_KINDS.get(kind)) is not None:
        own += rule(document, before)
    return own


def _as_validated(kind: str, document: Document, before: Document | None) -> Document:
    """Returns an object in the form that Kubernetes validates: some fields that it sets by itself
    are added or left out.
    """
    spec, was = document.get("spec"), (before or {}).get("spec")
    if kind == "StatefulSet" and spec:
        return {**document, "spec": workload_rules.as_validated(spec)}
    if kind == "Service" and spec and was:
        return {**document, "spec": service_rules.as_validated(spec, was)}
    return document


def metadata_problems(metadata: Document) -> list[str]:
    """Returns the problems of the metadata of a custom object, whose finalizers are free."""
    return _metadata("Lease", metadata)


def embedded_metadata_problems(metadata: Document, path: str) -> list[str]:
    """Returns the problems of metadata in a custom object, whose name may be any part of a path."""
    problems = _metadata("ClusterRole", metadata)
    return [path + problem.removeprefix("metadata") for problem in problems]


def resize_problems(document: Document, before: Document, qos: str) -> list[str]:
    """Returns the problems of the resize of a pod. `qos` is the QoS class that the resized pod
    would have.
    """
    spec, metadata = document.get("spec") or {}, document.get("metadata") or {}
    own = _metadata("Pod", metadata) + _pod_spec(spec)
    return [*own, *pod_resize.pod_resize(document, before, qos)]


def ephemeral_problems(document: Document, before: Document) -> list[str]:
    """Returns the problems of an update of a pod's ephemeral containers."""
    spec, metadata = document.get("spec") or {}, document.get("metadata") or {}
    own = _metadata("Pod", metadata) + _pod_spec(spec)
    return [*own, *ephemeral_containers.ephemeral_update(document, before)]


def status_problems(kind: str, document: Document, before: Document) -> list[str]:
    """Returns the problems of an update of an object's status. Both documents are whole objects."""
    rule = _OF_STATUSES.get(kind)
    metadata, had = document.get("metadata") or {}, before.get("metadata") or {}
    sent = any(
        metadata.get(field) is not had.get(field)
        for field in ("labels", "annotations", "finalizers")
    )
    own = _metadata(kind, metadata) if sent else []
    return [*own, *rule(document, before)] if rule is not None else own


@cached_by_document
def _pod_spec(spec: Document) -> list[str]:
    return [*_MARKS.problems("PodSpec", "spec", spec), *pod_rules.pod_only_rules(spec)]


def _pod(document: Document, before: Document | None) -> Iterator[str]:
    spec = document.get("spec") or {}
    yield from pod_updates.mirror_annotation(document, before)
    yield from pod_rules.pod_annotations("metadata.annotations", document["metadata"], spec)
    if before is None:
        yield from pod_rules.new_pod(spec)
    else:
        yield from pod_updates.pod_update(spec, before.get("spec") or {})


def _workload(kind: str) -> KindRule:
    return _rule_of_spec(lambda spec, _: workload_rules.workload(kind, spec))


def _stateful_set(spec: Document, was: Document | None) -> Iterator[str]:
    yield from workload_rules.workload("StatefulSet", spec)
    yield from workload_rules.stateful_set(spec, was)


def _job(document: Document, before: Document | None) -> Iterator[str]:
    yield from workload_rules.own_selector(document, new=before is None)
    if before is None:
        yield from workload_rules.job_name(document)
    else:
        yield from workload_rules.job_update(document.get("spec") or {}, before.get("spec") or {})


def _events_event(document: Document, before: Document | None) -> Iterator[str]:
    yield from cluster_rules.event(document, "reportingController")
    yield from cluster_rules.strict_event(document, before)


def _rule_of_spec(rule: Callable[[Document, Document | None], Iterable[str]]) -> KindRule:
    """Returns the rule for an object that applies this rule to its spec and its earlier spec."""
    return lambda document, before: rule(
        document.get("spec") or {}, None if before is None else before.get("spec") or {}
    )


def _rule_of_update(rule: Callable[[Document, Document], Iterable[str]]) -> KindRule:
    """Returns the rule for an object that applies this rule to its spec at an update."""
    return _rule_of_spec(lambda spec, was: [] if was is None else rule(spec, was))


# The rules of an object as a whole, and of its updates, beyond those of its types.
_OF_KINDS: dict[str, KindRule] = {
    "Pod": _pod,
    **{
        kind: _workload(kind)
        for kind in ("Deployment", "ReplicaSet", "DaemonSet", "ReplicationController")
    },
    "StatefulSet": _rule_of_spec(_stateful_set),
    "Job": _job,
    "CronJob": workload_rules.cron_job,
    "ControllerRevision": workload_rules.revision,
    "PersistentVolumeClaim": lambda document, before: (
        [] if before is None else storage_rules.claim_update(document, before)
    ),
    "PersistentVolume": _rule_of_update(storage_rules.volume_update),
    "CSINode": _rule_of_update(storage_rules.csi_node_update),
    "ResourceClaim": _rule_of_spec(device_claim_rules.claim),
    "ResourceClaimTemplate": _rule_of_spec(device_claim_rules.template),
    "ResourceSlice": _rule_of_spec(device_rules.resource_slice),
    "DeviceClass": _rule_of_spec(device_rules.device_class),
    "DeviceTaintRule": _rule_of_spec(device_rules.taint_rule),
    "v1alpha2.ResourceClaim": _rule_of_spec(negotiation_rules.claim),
    "v1alpha2.PodSchedulingContext": _rule_of_spec(lambda spec, _: negotiation_rules.context(spec)),
    "Service": _rule_of_update(service_rules.service_update),
    "Node": cluster_rules.node,
    "PriorityClass": cluster_rules.priority_class,
    "Event": lambda document, _: cluster_rules.event(document, "reportingComponent"),
    "events.Event": _events_event,
    "ConfigMap": data_rules.config_map,
    "Secret": data_rules.secret,
    **dict.fromkeys(
        ("v2.HorizontalPodAutoscaler", "autoscaling.HorizontalPodAutoscaler"),
        _rule_of_spec(autoscaler_rules.autoscaler),
    ),
    "LimitRange": _rule_of_spec(lambda spec, _: limit_rules.limit_range(spec)),
    "ResourceQuota": quota_rules.quota,
    "Role": lambda document, _: role_rules.role("Role", document),
    "ClusterRole": lambda document, _: role_rules.role("ClusterRole", document),
    **{kind: partial(role_rules.binding, kind) for kind in ("RoleBinding", "ClusterRoleBinding")},
    "ValidatingAdmissionPolicy": lambda document, _: policy_rules.policy(
        document["metadata"].get("name") or "", document.get("spec") or {}
    ),
    "ValidatingAdmissionPolicyBinding": _rule_of_spec(lambda spec, _: policy_rules.binding(spec)),
    "MutatingAdmissionPolicy": _rule_of_spec(lambda spec, _: policy_rules.mutating_policy(spec)),
    "MutatingAdmissionPolicyBinding": _rule_of_spec(
        lambda spec, _: policy_rules.mutating_binding(spec)
    ),
    **dict.fromkeys(
        ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        webhook_rules.configuration,
    ),
    "APIService": webhook_rules.api_service,
    "CertificateSigningRequest": certificate_rules.request,
    "EndpointSlice": endpoint_rules.endpoint_slice,
    "FlowSchema": flow_rules.flow_schema,
    "PriorityLevelConfiguration": flow_rules.priority_level,
    "Ingress": network_rules.ingress,
    "ServiceCIDR": _rule_of_spec(network_rules.service_range),
    "VolumeAttributesClass": storage_rules.attributes_class,
}
# The versions of devices that are stored as v1 have the rules of v1.
_OF_KINDS |= {
    f"{version}.{kind}": _OF_KINDS[kind]
    for version in ("v1beta1", "v1beta2")
    for kind in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
}
_OF_STATUSES: dict[str, Callable[[Document, Document], Iterable[str]]] = {
    "ResourceClaim": device_claim_rules.status,
    **dict.fromkeys(("v1beta1.ResourceClaim", "v1beta2.ResourceClaim"), device_claim_rules.status),
    "DeviceTaintRule": device_rules.taint_rule_status,
    "v1alpha2.ResourceClaim": negotiation_rules.claim_status,
    "v1alpha2.PodSchedulingContext": lambda after, _: negotiation_rules.context_status(after),
    "ResourceQuota": lambda after, _: quota_rules.status(after.get("status") or {}),
    "ValidatingAdmissionPolicy": lambda after, _: policy_rules.status(after.get("status") or {}),
    "APIService": webhook_rules.api_service_status,
    "CertificateSigningRequest": certificate_rules.status,
    "FlowSchema": flow_rules.conditions,
    "PriorityLevelConfiguration": flow_rules.conditions,
    "Ingress": network_rules.ingress_status,
}


def _metadata(kind: str, metadata: Document, *, is_label: bool = False) -> list[str]:
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    form = (
        dns_label if is_label else role_rules.path_segment if kind in _PATH_NAMES else dns_subdomain
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
        problems += annotation_rules("metadata.annotations", metadata["annotations"])
    for i, finalizer in enumerate(metadata.get("finalizers") or ()):
        problems += [
            invalid("metadata.finalizers", finalizer, message)
            for message in qualified_name(finalizer)
        ]
        if "/" not in finalizer and finalizer not in _FINALIZERS and kind != "Lease":
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            problems.append(invalid(f"metadata.finalizers[{i}]", finalizer, detail))
    for owner in metadata.get("ownerReferences") or ():
        problems += _owner("metadata.ownerReferences", owner)
    return problems


def _owner(path: str, owner: Document) -> list[str]:
    return [
        invalid(f"{path}.{field}", "", f"{word}must not be empty")
        for field, word in (("apiVersion", "version "), ("kind", ""), ("name", ""), ("uid", ""))
        if not owner.get(field)
    ]


def invalid_message(type_: str, name: str, problems: list[str]) -> str:
    """Returns the message that refuses an object of this type with these problems."""
    return message_of_kind(*_named(type_), name, problems)


def invalid_details(type_: str, name: str, problems: list[str]) -> dict[str, Any]:
    """Returns the details of the metav1.Status that refuses the object."""
    return details_of_kind(*_named(type_), name, problems)


def _named(type_: str) -> tuple[str, str]:
    """Returns the group and the kind of a type in types.txt."""
    group = TYPES[type_].api_version.partition("/")[0]
    return "" if group in ("core", "") else group, TYPES[type_].name


def message_of_kind(group: str, kind: str, name: str, problems: list[str]) -> str:
    """Returns the message that refuses an object of this kind."""
    full = f"{kind}.{group}" if group else kind
    unique = list(dict.fromkeys(problems))
    listed = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
    return f'{full} "{name}" is invalid: {listed}'


def details_of_kind(group: str, kind: str, name: str, problems: list[str]) -> dict[str, Any]:
    """Returns the details of the metav1.Status that refuses an object of this kind."""
    causes = []
    for problem in problems:
        told = _PROBLEM.match(problem)  # a key in the path of the field may have any characters
        field, message = told.groups() if told else problem.split(": ", 1)
        is_type = " in body must be of type " in message
        reason = "FieldValueTypeInvalid"
        if not is_type:
            reason = _REASONS.get(message.partition(":")[0], "FieldValueInvalid")
        causes.append({"reason": reason, "message": message, "field": field})
    return {
        **({"name": name} if name else {}),
        **({"group": group} if group else {}),
        "kind": kind,
        "causes": causes,
    }
