"""The kinds that the embedded API server serves."""

from __future__ import annotations

import msgspec

from .custom_type import CustomType

# Subresources of pods that need running containers; listed so that the refusal can say so.
STREAMS = ("log", "exec", "attach", "portforward")
UNSERVED = ("proxy",)
# Kinds whose updates must name a resourceVersion. Updates of the other kinds may omit it, and are
# then applied to the latest version.
CONDITIONAL = frozenset(
    (
        "Lease",
        "PodDisruptionBudget",
        "RuntimeClass",
        "CSINode",
        "CSIDriver",
        "CSIStorageCapacity",
        "VolumeAttachment",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "APIService",
        "CustomResourceDefinition",
    )
)


# Kinds that other programs count the versions of a spec of, besides those of the groups apps and
# batch.
_COUNTED = frozenset(
    (
        "Pod",
        "ReplicationController",
        "PodDisruptionBudget",
        "PriorityClass",
        "ResourceSlice",
        "DeviceClass",
        "DeviceTaintRule",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "Ingress",
        "IngressClass",
        "NetworkPolicy",
        "EndpointSlice",
        "FlowSchema",
        "PriorityLevelConfiguration",
        "PodTemplate",
        "CustomResourceDefinition",
        "PodGroup",
        "Workload",
    )
)
_OWN_SUBRESOURCES = {
    "CertificateSigningRequest": ("approval",),
    "Namespace": ("finalize",),
    "Node": UNSERVED,
    "Service": UNSERVED,
    "Pod": ("binding", "eviction", "resize", "ephemeralcontainers", *STREAMS, *UNSERVED),
    "ServiceAccount": ("token",),
}


class Kind(msgspec.Struct, frozen=True, eq=False):
    """A kind and its path in the API. `status` and `scale` are True if it has these subresources.

    A kind that is `stored_as` another kind is another form of it (see conversion). `since` is the
    first minor version that serves the kind, `until` the last, 0 for all that berth knows. A
    `custom` kind is one version of a kind that a CustomResourceDefinition defines; all its versions
    are stored as one kind, which is not served. Each kind exists once, below or in a catalog, so
    kinds are compared by identity, which makes the store's look-ups cheap.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short: tuple[str, ...] = ()
    status: bool = True
    scale: bool = False
    stored_as: Kind | None = None
    since: int = 0
    until: int = 0
    custom: CustomType | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def type_name(self) -> str:
        """The name of the kind's type in types.txt."""
        if self.stored_as is not None and "beta" not in self.version:
            return f"{self.group.partition('.')[0]}.{self.kind}"
        return self.kind if self.version == "v1" else f"{self.version}.{self.kind}"

    @property
    def counts_generations(self) -> bool:
        """True if metadata.generation counts the versions of the spec."""
        if self.custom is not None:
            return True
        return self.kind in _COUNTED or (self.status and self.group in ("apps", "batch"))

    @property
    def singular(self) -> str:
        return self.kind.lower() if self.custom is None else self.custom.singular

    @property
    def list_kind(self) -> str:
        """The kind of a list of objects."""
        return f"{self.kind}List" if self.custom is None else self.custom.list_kind

    @property
    def resource(self) -> str:
        """The plural with the group, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def subresources(self) -> tuple[str, ...]:
        own = _OWN_SUBRESOURCES.get(self.kind, ()) if self.custom is None else ()
        return (*(("status",) if self.status else ()), *(("scale",) if self.scale else ()), *own)

    @property
    def place(self) -> tuple[str, str, str]:
        """Group, version and plural."""
        return self.group, self.version, self.plural

    def path(self, namespace: str = "", name: str = "") -> str:
        """Returns the path of an object; without a name, that of all objects."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = (
            f"{base}/namespaces/{namespace}/{self.plural}"
            if self.namespaced and namespace
            else f"{base}/{self.plural}"
        )
        return f"{place}/{name}" if name else place


def _role(plural: str, kind: str, *, namespaced: bool) -> Kind:
    return Kind(
        "rbac.authorization.k8s.io", "v1", plural, kind, namespaced=namespaced, status=False
    )


def _of_network(
    plural: str, kind: str, *short: str, namespaced: bool, status: bool = False
) -> Kind:
    return Kind("networking.k8s.io", "v1", plural, kind, namespaced, short, status)


def _of_flows(plural: str, kind: str) -> Kind:
    return Kind("flowcontrol.apiserver.k8s.io", "v1", plural, kind, namespaced=False)


def _of_admission(plural: str, kind: str) -> Kind:
    group = "admissionregistration.k8s.io"
    return Kind(group, "v1", plural, kind, namespaced=False, status=False)


def _review(group: str, kind: str, *, namespaced: bool = False) -> Kind:
    return Kind(f"{group}.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced, status=False)


_EVENTS = Kind("", "v1", "events", "Event", namespaced=True, short=("ev",), status=False)
_AUTOSCALERS = Kind(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    namespaced=True,
    short=("hpa",),
)
KINDS = (
    Kind("", "v1", "pods", "Pod", namespaced=True, short=("po",)),
    Kind("", "v1", "nodes", "Node", namespaced=False, short=("no",)),
    Kind("", "v1", "namespaces", "Namespace", namespaced=False, short=("ns",)),
    Kind("", "v1", "services", "Service", namespaced=True, short=("svc",)),
    _EVENTS,
    Kind("", "v1", "configmaps", "ConfigMap", namespaced=True, short=("cm",), status=False),
    Kind("", "v1", "secrets", "Secret", namespaced=True, status=False),
    Kind(
        "", "v1", "serviceaccounts", "ServiceAccount", namespaced=True, short=("sa",), status=False
    ),
    Kind("", "v1", "limitranges", "LimitRange", namespaced=True, short=("limits",), status=False),
    Kind("", "v1", "resourcequotas", "ResourceQuota", namespaced=True, short=("quota",)),
    Kind("", "v1", "endpoints", "Endpoints", namespaced=True, short=("ep",), status=False),
    Kind("", "v1", "podtemplates", "PodTemplate", namespaced=True, status=False),
    Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short=("pv",)),
    Kind(
        "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True, short=("pvc",)
    ),
    Kind(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        namespaced=True,
        short=("rc",),
        scale=True,
    ),
    Kind("apps", "v1", "deployments", "Deployment", namespaced=True, short=("deploy",), scale=True),
    Kind("apps", "v1", "replicasets", "ReplicaSet", namespaced=True, short=("rs",), scale=True),
    Kind("apps", "v1", "statefulsets", "StatefulSet", namespaced=True, short=("sts",), scale=True),
    Kind("apps", "v1", "daemonsets", "DaemonSet", namespaced=True, short=("ds",)),
    Kind(
        "apps",
        "v1",
        "controllerrevisions",
        "ControllerRevision",
        namespaced=True,
        status=False,
    ),
    Kind(
        "autoscaling",
        "v1",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        namespaced=True,
        short=("hpa",),
        stored_as=_AUTOSCALERS,
    ),
    _AUTOSCALERS,
    Kind("batch", "v1", "jobs", "Job", namespaced=True),
    Kind("batch", "v1", "cronjobs", "CronJob", namespaced=True, short=("cj",)),
    Kind("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True, status=False),
    Kind(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        namespaced=True,
        short=("ev",),
        status=False,
        stored_as=_EVENTS,
    ),
    Kind(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        namespaced=True,
        short=("pdb",),
    ),
    Kind(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        namespaced=False,
        short=("pc",),
        status=False,
    ),
    Kind(
        "storage.k8s.io",
        "v1",
        "storageclasses",
        "StorageClass",
        namespaced=False,
        short=("sc",),
        status=False,
    ),
    Kind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False, status=False),
    Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False, status=False),
    Kind(
        "storage.k8s.io",
        "v1",
        "csistoragecapacities",
        "CSIStorageCapacity",
        namespaced=True,
        status=False,
    ),
    Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
    Kind(
        "storage.k8s.io",
        "v1",
        "volumeattributesclasses",
        "VolumeAttributesClass",
        namespaced=False,
        short=("vac",),
        status=False,
    ),
    _role("roles", "Role", namespaced=True),
    _role("rolebindings", "RoleBinding", namespaced=True),
    _role("clusterroles", "ClusterRole", namespaced=False),
    _role("clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Kind(
        "admissionregistration.k8s.io",
        "v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        namespaced=False,
    ),
    _of_admission("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    _of_admission("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
    _of_admission("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    _of_admission("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    _of_admission("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    _of_network("ingresses", "Ingress", "ing", namespaced=True, status=True),
    _of_network("ingressclasses", "IngressClass", namespaced=False),
    _of_network("networkpolicies", "NetworkPolicy", "netpol", namespaced=True),
    _of_network("servicecidrs", "ServiceCIDR", namespaced=False, status=True),
    _of_network("ipaddresses", "IPAddress", "ip", namespaced=False),
    Kind(
        "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True, status=False
    ),
    Kind(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        namespaced=False,
        short=("csr",),
    ),
    _of_flows("flowschemas", "FlowSchema"),
    _of_flows("prioritylevelconfigurations", "PriorityLevelConfiguration"),
    Kind("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False),
    Kind(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short=("crd", "crds"),
    ),
    Kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False, status=False),
    # A name alone means the later of two kinds with that name.
    Kind(
        "resource.k8s.io",
        "v1alpha2",
        "resourceclasses",
        "ResourceClass",
        namespaced=False,
        status=False,
    ),
    Kind("resource.k8s.io", "v1alpha2", "resourceclaims", "ResourceClaim", namespaced=True),
    Kind(
        "resource.k8s.io",
        "v1alpha2",
        "podschedulingcontexts",
        "PodSchedulingContext",
        namespaced=True,
    ),
    Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True),
    Kind(
        "resource.k8s.io",
        "v1",
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        namespaced=True,
        status=False,
    ),
    Kind(
        "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False, status=False
    ),
    Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False, status=False),
    Kind(
        "resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False, since=37
    ),
)

# Served only if the server is told so, by --runtime-config: the devices of older programs, and the
# groups of pods of the alpha version.
OLDER_DEVICES = tuple(
    msgspec.structs.replace(kind, version=version, stored_as=kind)
    for version in ("v1beta1", "v1beta2")
    for kind in KINDS
    if kind.api_version == "resource.k8s.io/v1" and not kind.since
)

ON_REQUEST = (
    *OLDER_DEVICES,
    Kind(
        "scheduling.k8s.io",
        "v1alpha2",
        "workloads",
        "Workload",
        namespaced=True,
        status=False,
        until=36,
    ),
    Kind("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", namespaced=True, until=36),
)

# Questions to the server: the answer to a POST, which stores nothing.
REVIEWS = (
    _review("authentication", "TokenReview"),
    _review("authentication", "SelfSubjectReview"),
    _review("authorization", "SubjectAccessReview"),
    _review("authorization", "LocalSubjectAccessReview", namespaced=True),
    _review("authorization", "SelfSubjectAccessReview"),
    _review("authorization", "SelfSubjectRulesReview"),
)

# What nodes and pods use: read from the kubelets when asked, and stored nowhere.
METRICS = (
    Kind("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False, status=False),
    Kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", namespaced=True, status=False),
)

# The health of the parts of the control plane: asked when it is read, and stored nowhere.
COMPONENT_STATUSES = Kind(
    "", "v1", "componentstatuses", "ComponentStatus", namespaced=False, short=("cs",), status=False
)

# What every request to a kind is told that Kubernetes will not serve for ever.
DEPRECATED = {
    kind: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    for kind in KINDS
    if kind.kind == "Endpoints"
} | {COMPONENT_STATUSES: "v1 ComponentStatus is deprecated in v1.19+"}

# What is read from and sent to subresources, and stored nowhere. Bindings have a path, too.
SCALES = Kind("autoscaling", "v1", "scales", "Scale", namespaced=True)
BINDINGS = Kind("", "v1", "bindings", "Binding", namespaced=True, status=False)

UNSTORED = frozenset((*REVIEWS, *METRICS, COMPONENT_STATUSES, BINDINGS))
SERVED = (*KINDS, *REVIEWS, COMPONENT_STATUSES, BINDINGS)
BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in (*SERVED, *METRICS)}
BY_KIND = {(kind.api_version, kind.kind): kind for kind in SERVED}
