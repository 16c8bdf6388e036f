"""The admission plugins by name: Kubernetes' order, and which of them are enabled.

Mirrors AllOrderedPlugins and the default plugins of Kubernetes 1.36. What each does is in
`writes/admission_order.py`.
"""

from __future__ import annotations

from collections.abc import Collection

NODE_RESTRICTION = "NodeRestriction"
NAMESPACE_LIFECYCLE = "NamespaceLifecycle"
STORAGE_PROTECTION = "StorageObjectInUseProtection"
VALIDATING_POLICY = "ValidatingAdmissionPolicy"
MUTATING_POLICY = "MutatingAdmissionPolicy"
MUTATING_WEBHOOK = "MutatingAdmissionWebhook"
VALIDATING_WEBHOOK = "ValidatingAdmissionWebhook"
RESOURCE_QUOTA = "ResourceQuota"
IN_ORDER = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    NAMESPACE_LIFECYCLE,
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    NODE_RESTRICTION,
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    STORAGE_PROTECTION,
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    MUTATING_POLICY,
    MUTATING_WEBHOOK,
    VALIDATING_POLICY,
    VALIDATING_WEBHOOK,
    RESOURCE_QUOTA,
    "AlwaysDeny",
)
# Kubernetes enables these only if it is told to.
ON_REQUEST = frozenset(
    (
        "AlwaysAdmit",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "LimitPodHardAntiAffinityTopology",
        NODE_RESTRICTION,
        "AlwaysPullImages",
        "ImagePolicyWebhook",
        "PodNodeSelector",
        "PodTolerationRestriction",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "OwnerReferencesPermissionEnforcement",
        "DenyServiceExternalIPs",
        "AlwaysDeny",
    )
)
# Kubernetes enables these too, but they need a controller that may not run here.
NEEDS_CONTROLLER = frozenset(("TaintNodesByCondition",))
DEFAULT_PLUGINS = frozenset(IN_ORDER) - ON_REQUEST - NEEDS_CONTROLLER
# Nobody has asked for them here, or they need an outside service.
ABSENT = frozenset(
    (
        "NamespaceAutoProvision",
        "ImagePolicyWebhook",
        "PodTolerationRestriction",
        "EventRateLimit",
    )
)


def enabled_plugins(
    enable: Collection[str],
    disable: Collection[str],
    defaults: frozenset[str] = DEFAULT_PLUGINS,
) -> frozenset[str]:
    """Returns the plugins that run. Raises ValueError for a name that nobody knows, that is absent
    here, or that is both enabled and disabled.
    """
    for name in (*enable, *disable):
        if name not in IN_ORDER:
            raise ValueError(f'admission plugin "{name}" is unknown')
    for name in enable:
        if name in ABSENT:
            raise ValueError(f'admission plugin "{name}" is not offered by berth')
        if name in disable:
            raise ValueError(f'admission plugin "{name}" is both enabled and disabled')
    return (defaults | {*enable}) - {*disable}
