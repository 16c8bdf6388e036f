"""Which rules an object is checked by: those across the fields of a type, and those of a kind.

Each is named as `module.function` of this room. A module is imported when an object needs the first
of its rules: most servers never see a device or a policy, whose rules bring a language with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from .field_marks import Rule
from .fields import Document

KindRule = Callable[[Document, Document | None], Iterable[str]]
_Form = Callable[[str, Callable[..., Iterable[str]]], KindRule]


def _named(name: str) -> Any:
    """Returns the function that `module.function` names."""
    module, _, function = name.partition(".")
    return getattr(import_module(f".{module}", __package__), function)


class RulesByType(Mapping[str, Rule]):
    """The rules across the fields of types; each is imported when it is asked for."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __getitem__(self, type_: str) -> Rule:
        rule: Rule = _named(self._names[type_])
        return rule

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


# The rules across the fields of a type, wherever it occurs in an object.
ACROSS = RulesByType(
    {
        "AppArmorProfile": "security_rules.app_armor_profile",
        "AzureDiskVolumeSource": "volume_rules.azure_disk",
        "CSIDriverSpec": "storage_rules.csi_driver",
        "CSINodeDriver": "storage_rules.csi_node_driver",
        "CSIVolumeSource": "volume_rules.csi",
        "Container": "container_rules.container",
        "DownwardAPIVolumeFile": "volume_rules.downward_file",
        "EmptyDirVolumeSource": "volume_rules.empty_dir",
        "EndpointSubset": "service_rules.subset",
        "EnvVar": "container_rules.env_var",
        "EphemeralContainer": "container_rules.container",
        "FCVolumeSource": "volume_rules.fibre_channel",
        "FlockerVolumeSource": "volume_rules.flocker",
        "HTTPIngressPath": "network_rules.ingress_path",
        "HTTPGetAction": "container_rules.http_get",
        "IPBlock": "network_rules.ip_block",
        "ISCSIPersistentVolumeSource": "volume_rules.iscsi",
        "ISCSIVolumeSource": "volume_rules.iscsi",
        "IngressClassParametersReference": "network_rules.class_parameters",
        "IngressSpec": "network_rules.ingress_spec",
        "JobSpec": "workload_rules.job",
        "LabelSelector": "fields.label_selector",
        "LifecycleHandler": "container_rules.handler",
        "NetworkPolicyPeer": "network_rules.policy_peer",
        "NetworkPolicyPort": "network_rules.policy_port",
        "NetworkPolicySpec": "network_rules.network_policy",
        "NodeSelector": "placement_rules.node_selector",
        "Overhead": "cluster_rules.overhead",
        "PersistentVolumeClaimSpec": "storage_rules.claim",
        "PersistentVolumeClaimTemplate": "volume_rules.claim_template",
        "PersistentVolumeSpec": "storage_rules.volume",
        "PodAffinityTerm": "placement_rules.pod_affinity_term",
        "PodDisruptionBudgetSpec": "workload_rules.disruption_budget",
        "PodGroupResourceClaim": "pod_rules.claim",
        "PodGroupSchedulingPolicy": "priority_rules.group_policy",
        "PodResourceClaim": "pod_rules.claim",
        "PodSchedulingGroup": "pod_rules.scheduling_group",
        "PodSpec": "pod_rules.pod_spec",
        "PodTemplateSpec": "pod_rules.pod_template",
        "PreferredSchedulingTerm": "placement_rules.preferred_term",
        "Probe": "container_rules.probe",
        "ProjectedVolumeSource": "volume_rules.projected",
        "QuobyteVolumeSource": "volume_rules.quobyte",
        "Scheduling": "cluster_rules.scheduling",
        "SeccompProfile": "security_rules.seccomp_profile",
        "SecurityContext": "security_rules.security_context",
        "ServiceSpec": "service_rules.service",
        "StorageClass": "storage_rules.storage_class",
        "Toleration": "placement_rules.toleration",
        "TopologySpreadConstraint": "placement_rules.spread_constraint",
        "Volume": "volume_rules.volume",
        "VolumeAttachmentSpec": "storage_rules.volume_attachment",
        "WindowsSecurityContextOptions": "security_rules.windows_options",
    }
)


def _whole(_kind: str, rule: Callable[..., Iterable[str]]) -> KindRule:
    """The rule takes the object and the earlier object."""
    return rule


def _of_document(_kind: str, rule: Callable[..., Iterable[str]]) -> KindRule:
    return lambda document, _: rule(document)


def _of_kind(kind: str, rule: Callable[..., Iterable[str]]) -> KindRule:
    """The rule takes the kind too."""
    return lambda document, before: rule(kind, document, before)


def _of_spec(_kind: str, rule: Callable[..., Iterable[str]]) -> KindRule:
    """The rule takes the spec and the earlier spec."""
    return lambda document, before: rule(
        document.get("spec") or {}, None if before is None else before.get("spec") or {}
    )


def _of_new_spec(_kind: str, rule: Callable[..., Iterable[str]]) -> KindRule:
    return lambda document, _: rule(document.get("spec") or {})


def _of_workload(kind: str, rule: Callable[..., Iterable[str]]) -> KindRule:
    """The rule takes the kind, the spec and the earlier spec."""
    return _of_spec(kind, lambda spec, was: rule(kind, spec, was))


def _of_update(_kind: str, rule: Callable[..., Iterable[str]]) -> KindRule:
    """The rule takes the object and the earlier object at an update."""
    return lambda document, before: [] if before is None else rule(document, before)


def _of_updated_spec(kind: str, rule: Callable[..., Iterable[str]]) -> KindRule:
    """The rule takes the spec and the earlier spec at an update."""
    return _of_spec(kind, lambda spec, was: [] if was is None else rule(spec, was))


# The rules of an object as a whole, and of its updates, beyond those of its types.
OF_KINDS: dict[str, tuple[_Form, str]] = {
    "Pod": (_whole, "pod_rules.pod"),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "DaemonSet", "ReplicationController", "StatefulSet"),
        (_of_workload, "workload_rules.workload"),
    ),
    "Job": (_whole, "workload_rules.whole_job"),
    "CronJob": (_whole, "workload_rules.cron_job"),
    "ControllerRevision": (_whole, "workload_rules.revision"),
    "PersistentVolumeClaim": (_of_update, "storage_rules.claim_update"),
    "PersistentVolume": (_of_updated_spec, "storage_rules.volume_update"),
    "CSINode": (_of_updated_spec, "storage_rules.csi_node_update"),
    "DeviceTaintRule": (_of_spec, "device_rules.taint_rule"),
    "v1alpha2.ResourceClaim": (_of_spec, "negotiation_rules.claim"),
    "v1alpha2.PodSchedulingContext": (_of_new_spec, "negotiation_rules.context"),
    "Service": (_of_updated_spec, "service_rules.service_update"),
    "Namespace": (_whole, "namespace_rules.namespace"),
    "Node": (_whole, "cluster_rules.node"),
    "PriorityClass": (_whole, "priority_rules.priority_class"),
    "Event": (_of_document, "cluster_rules.core_event"),
    "events.Event": (_whole, "cluster_rules.strict_event"),
    "ConfigMap": (_whole, "data_rules.config_map"),
    "Secret": (_whole, "data_rules.secret"),
    **dict.fromkeys(
        ("v2.HorizontalPodAutoscaler", "autoscaling.HorizontalPodAutoscaler"),
        (_of_spec, "autoscaler_rules.autoscaler"),
    ),
    "LimitRange": (_of_new_spec, "limit_rules.limit_range"),
    "ResourceQuota": (_whole, "quota_rules.quota"),
    **dict.fromkeys(("Role", "ClusterRole"), (_of_kind, "role_rules.role")),
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), (_of_kind, "role_rules.binding")),
    "ValidatingAdmissionPolicy": (_of_document, "policy_rules.policy"),
    "ValidatingAdmissionPolicyBinding": (_of_new_spec, "policy_rules.binding"),
    "MutatingAdmissionPolicy": (_of_new_spec, "policy_rules.mutating_policy"),
    "MutatingAdmissionPolicyBinding": (_of_new_spec, "policy_rules.mutating_binding"),
    **dict.fromkeys(
        ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        (_whole, "webhook_rules.configuration"),
    ),
    "APIService": (_whole, "webhook_rules.api_service"),
    "CertificateSigningRequest": (_whole, "certificate_rules.request"),
    "EndpointSlice": (_whole, "endpoint_rules.endpoint_slice"),
    "FlowSchema": (_whole, "flow_rules.flow_schema"),
    "PriorityLevelConfiguration": (_whole, "flow_rules.priority_level"),
    "Ingress": (_whole, "network_rules.ingress"),
    "ServiceCIDR": (_of_spec, "network_rules.service_range"),
    "VolumeAttributesClass": (_whole, "storage_rules.attributes_class"),
    # The versions of devices that are stored as v1 have the rules of v1.
    **{
        f"{version}{kind}": (_of_spec, rule)
        for version in ("", "v1beta1.", "v1beta2.")
        for kind, rule in (
            ("ResourceClaim", "device_claim_rules.claim"),
            ("ResourceClaimTemplate", "device_claim_rules.template"),
            ("ResourceSlice", "device_rules.resource_slice"),
            ("DeviceClass", "device_rules.device_class"),
        )
    },
}
# The rules of an update of an object's status.
OF_STATUSES: dict[str, tuple[_Form, str]] = {
    **dict.fromkeys(
        ("ResourceClaim", "v1beta1.ResourceClaim", "v1beta2.ResourceClaim"),
        (_whole, "device_claim_rules.status"),
    ),
    "DeviceTaintRule": (_whole, "device_rules.taint_rule_status"),
    "v1alpha2.ResourceClaim": (_whole, "negotiation_rules.claim_status"),
    "v1alpha2.PodSchedulingContext": (_of_document, "negotiation_rules.context_status"),
    "ResourceQuota": (_of_document, "quota_rules.quota_status"),
    "ValidatingAdmissionPolicy": (_of_document, "policy_rules.policy_status"),
    "APIService": (_whole, "webhook_rules.api_service_status"),
    "CertificateSigningRequest": (_whole, "certificate_rules.status"),
    "FlowSchema": (_whole, "flow_rules.conditions"),
    "PriorityLevelConfiguration": (_whole, "flow_rules.conditions"),
    "Ingress": (_whole, "network_rules.ingress_status"),
    "Namespace": (_whole, "namespace_rules.namespace_status"),
    "Service": (_whole, "network_rules.ingress_status"),
}


@cache
def rule_of(kind: str, *, status: bool = False) -> KindRule | None:
    """Returns the rule for an object of a kind, or for an update of its status; None if there is
    none.
    """
    row = (OF_STATUSES if status else OF_KINDS).get(kind)
    return None if row is None else row[0](kind, _named(row[1]))
