"""Defaults of the API types, for the fields that berth's tools read."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any
from zlib import crc32

from .clock import now
from .recall import recalled
from .resources import Kind
from .store import Document

RBAC_GROUP = "rbac.authorization.k8s.io"
SERVICE_NETWORK = int(IPv4Address("10.96.0.0"))


def defaulted(kind: Kind, document: Document) -> Document:
    """Returns a well-formed document with its defaults; unchanged parts are not copied."""
    fill = _DEFAULTS.get(kind.type_name)
    return document if fill is None else fill(document)


@recalled
def pod_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns a pod's spec with its defaults; a limit is the default of the request."""
    host = spec.get("hostNetwork", False)
    filled = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        **spec,
        "containers": [
            _container(container, host=host) for container in spec.get("containers") or ()
        ],
    }
    if spec.get("initContainers"):
        filled["initContainers"] = [
            _container(container, host=host) for container in spec["initContainers"]
        ]
    return filled


def _container(container: dict[str, Any], *, host: bool) -> dict[str, Any]:
    image = str(container.get("image", ""))
    latest = image.endswith(":latest") or ":" not in image.rsplit("/", 1)[-1]
    filled = {
        "imagePullPolicy": "Always" if latest and "@" not in image else "IfNotPresent",
        **container,
    }
    resources = dict(container.get("resources") or {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    filled["resources"] = resources
    if container.get("ports"):
        filled["ports"] = [_port(port, host=host) for port in container["ports"]]
    return filled


def _port(port: dict[str, Any], *, host: bool) -> dict[str, Any]:
    """Returns the port with its defaults; on the host's network, hostPort is containerPort."""
    on_host = {"hostPort": port["containerPort"]} if host and "containerPort" in port else {}
    return {**on_host, "protocol": "TCP", **port}


def _pod(document: Document) -> Document:
    return {**document, "spec": pod_spec(document.get("spec") or {})}


def _templated(**defaults: Any) -> Callable[[Document], Document]:
    """Returns a function that sets defaults in a workload's spec and in its pod template.

    Go clients send a strategy that nobody set as an empty object, so this gets the default as well.
    """

    def fill(document: Document) -> Document:
        sent = document.get("spec") or {}
        spec = {
            **defaults,
            **sent,
            **{field: defaults[field] for field in defaults if sent.get(field) == {}},
        }
        template = spec.get("template")
        if isinstance(template, dict):
            spec["template"] = {**template, "spec": pod_spec(template.get("spec") or {})}
        return {**document, "spec": spec}

    return fill


_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
_deployment = _templated(
    replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy=_ROLLING
)
_daemon_set = _templated(
    revisionHistoryLimit=10,
    updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
)
_stateful_set = _templated(
    replicas=1,
    revisionHistoryLimit=10,
    podManagementPolicy="OrderedReady",
    persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
    updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
)
_plain_job = _templated(backoffLimit=6, completionMode="NonIndexed", suspend=False)


def _job(document: Document) -> Document:
    """Returns a job with its defaults: one pod if it sets neither completions nor parallelism."""
    filled = _plain_job(document)
    spec = filled["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if spec.get("backoffLimitPerIndex") is not None and "backoffLimit" not in document["spec"]:
        spec["backoffLimit"] = 2**31 - 1
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    uid = document["metadata"].get("uid", "")
    if not spec.get("manualSelector") and "selector" not in spec and uid:
        name = document["metadata"].get("name", "")
        labels = {
            f"{prefix}{label}": value
            for prefix in ("", "batch.kubernetes.io/")
            for label, value in (("controller-uid", uid), ("job-name", name))
        }
        template = spec.get("template") or {}
        metadata = template.get("metadata") or {}
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        template = {
            **template,
            "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}},
        }
        spec["template"] = template
    return filled


def _replication_controller(document: Document) -> Document:
    filled = _templated(replicas=1)(document)
    labels = ((filled["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    filled["spec"].setdefault("selector", labels or {})
    return filled


def _service(document: Document) -> Document:
    """Derives the cluster IP from the object's uid, since nothing here routes to it."""
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **(document.get("spec") or {})}
    spec["ports"] = [
        {"protocol": "TCP", "targetPort": port.get("port"), **port}
        for port in spec.get("ports") or ()
        if isinstance(port, dict)
    ]
    uid = document["metadata"].get("uid", "")
    if spec["type"] != "ExternalName" and not spec.get("clusterIP") and uid:
        spec["clusterIP"] = str(IPv4Address(SERVICE_NETWORK + crc32(uid.encode()) % 0xFFFE + 1))
    if not spec["ports"]:
        del spec["ports"]
    return {**document, "spec": spec, "status": document.get("status") or {"loadBalancer": {}}}


def _namespace(document: Document) -> Document:
    metadata = document["metadata"]
    labels = {
        **(metadata.get("labels") or {}),
        "kubernetes.io/metadata.name": metadata.get("name", ""),
    }
    return {**document, "metadata": {**metadata, "labels": labels}, "status": {"phase": "Active"}}


def _node(document: Document) -> Document:
    """Returns a node whose allocatable defaults to its capacity."""
    status = document.get("status") or {}
    if status.get("allocatable") is not None or status.get("capacity") is None:
        return document
    return {**document, "status": {**status, "allocatable": status["capacity"]}}


def _of_spec(**defaults: Any) -> Callable[[Document], Document]:
    return lambda document: {**document, "spec": {**defaults, **(document.get("spec") or {})}}


def _storage_class(document: Document) -> Document:
    return {
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": False,
        **document,
    }


def _device_claim(spec: Document) -> Document:
    """Returns a claim's spec: requests are for one device, and tolerations compare values."""
    devices = spec.get("devices") or {}
    requests = [_device_request(request) for request in devices.get("requests") or ()]
    return {**spec, "devices": {**devices, "requests": requests}} if requests else spec


def _device_request(request: Document) -> Document:
    filled = dict(request)
    if isinstance(request.get("exactly"), dict):
        filled["exactly"] = _device_count(request["exactly"])
    if request.get("firstAvailable"):
        filled["firstAvailable"] = [_device_count(choice) for choice in request["firstAvailable"]]
    return filled


def _device_count(request: Document) -> Document:
    filled = {**request, "allocationMode": request.get("allocationMode") or "ExactCount"}
    if filled["allocationMode"] == "ExactCount" and not request.get("count"):
        filled["count"] = 1
    if request.get("tolerations"):
        filled["tolerations"] = [
            {**toleration, "operator": toleration.get("operator") or "Equal"}
            for toleration in request["tolerations"]
        ]
    return filled


def _resource_claim(document: Document) -> Document:
    return {**document, "spec": _device_claim(document.get("spec") or {})}


def _resource_claim_template(document: Document) -> Document:
    spec = document.get("spec") or {}
    return {**document, "spec": {**spec, "spec": _device_claim(spec.get("spec") or {})}}


def _resource_slice(document: Document) -> Document:
    """Returns a slice in which every taint has a time; the time of a new taint is now."""
    spec = document.get("spec") or {}
    if not any(device.get("taints") for device in spec.get("devices") or ()):
        return document
    time = now()
    devices = [
        {**device, "taints": [{"timeAdded": time, **taint} for taint in device["taints"]]}
        if device.get("taints")
        else device
        for device in spec["devices"]
    ]
    return {**document, "spec": {**spec, "devices": devices}}


def _pending(fill: Callable[[Document], Document]) -> Callable[[Document], Document]:
    return lambda document: {
        **fill(document),
        "status": document.get("status") or {"phase": "Pending"},
    }


def _limit_range(document: Document) -> Document:
    """Returns the limits with defaults for containers: of the limit its maximum, of the request the
    default limit or the minimum.
    """
    spec = document.get("spec") or {}
    limits = [
        _container_limit(limit) if limit.get("type") == "Container" else limit
        for limit in spec.get("limits") or ()
    ]
    return {**document, "spec": {**spec, "limits": limits}}


def _container_limit(limit: Document) -> Document:
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    least = limit.get("min") or {}
    requests = {**least, **default, **(limit.get("defaultRequest") or {})}
    filled = {"default": default, "defaultRequest": requests}
    return {**limit, **{field: amounts for field, amounts in filled.items() if amounts}}


def _role_binding(document: Document) -> Document:
    """Returns a binding whose role and subjects have the API group of roles, users and groups."""
    subjects = [
        {"apiGroup": RBAC_GROUP, **subject} if subject.get("kind") in ("User", "Group") else subject
        for subject in document.get("subjects") or ()
    ]
    filled = {**document, "roleRef": {"apiGroup": RBAC_GROUP, **(document.get("roleRef") or {})}}
    return {**filled, "subjects": subjects} if subjects else filled


def _policy(document: Document) -> Document:
    spec = {"failurePolicy": "Fail", **(document.get("spec") or {})}
    return {**document, "spec": _matched(spec, "matchConstraints")}


def _policy_binding(document: Document) -> Document:
    return {**document, "spec": _matched(document.get("spec") or {}, "matchResources")}


def _cron_job(document: Document) -> Document:
    defaults = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    spec = {**defaults, **(document.get("spec") or {})}
    template = spec.get("jobTemplate") or {}
    job = template.get("spec") or {}
    if isinstance(job.get("template"), dict):
        pod = {**job["template"], "spec": pod_spec(job["template"].get("spec") or {})}
        spec["jobTemplate"] = {**template, "spec": {**job, "template": pod}}
    return {**document, "spec": spec}


def _matched(spec: Document, field: str) -> Document:
    """Returns the spec with the defaults of what it matches, if it has any."""
    if spec.get(field) is None:
        return spec
    defaults = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    matched = {**defaults, **spec[field]}
    for rules in ("resourceRules", "excludeResourceRules"):
        if matched.get(rules):
            matched[rules] = [{"scope": "*", **rule} for rule in matched[rules]]
    return {**spec, field: matched}


_ADDING: Document = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_REMOVING: Document = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_CPU_TARGET: Document = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def _autoscaler(document: Document) -> Document:
    """Returns an autoscaler that scales on cpu by default; half a behavior gets its other half."""
    spec = {"minReplicas": 1, **(document.get("spec") or {})}
    if not spec.get("metrics"):
        spec["metrics"] = [_CPU_TARGET]
    if (behavior := spec.get("behavior")) is not None:
        spec["behavior"] = {
            "scaleUp": {**_ADDING, **(behavior.get("scaleUp") or {})},
            "scaleDown": {**_REMOVING, **(behavior.get("scaleDown") or {})},
        }
    return {**document, "spec": spec}


_DEFAULTS: dict[str, Callable[[Document], Document]] = {
    "Pod": _pod,
    "Namespace": _namespace,
    "Node": _node,
    "Service": _service,
    "Deployment": _deployment,
    "ReplicaSet": _templated(replicas=1),
    "ReplicationController": _replication_controller,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
    "v2.HorizontalPodAutoscaler": _autoscaler,
    "PersistentVolume": _pending(
        _of_spec(persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    ),
    "PersistentVolumeClaim": _pending(_of_spec(volumeMode="Filesystem")),
    "CSIDriver": _of_spec(
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        volumeLifecycleModes=["Persistent"],
        requiresRepublish=False,
        seLinuxMount=False,
    ),
    "LimitRange": _limit_range,
    "RoleBinding": _role_binding,
    "ClusterRoleBinding": _role_binding,
    "ValidatingAdmissionPolicy": _policy,
    "ValidatingAdmissionPolicyBinding": _policy_binding,
    "StorageClass": _storage_class,
    "ResourceClaim": _resource_claim,
    "ResourceClaimTemplate": _resource_claim_template,
    "ResourceSlice": _resource_slice,
    "v1alpha2.ResourceClaim": _of_spec(allocationMode="WaitForFirstConsumer"),
    "PriorityClass": lambda document: {"preemptionPolicy": "PreemptLowerPriority", **document},
}
