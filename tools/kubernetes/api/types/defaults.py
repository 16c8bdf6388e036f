"""Defaults of the API types, as Kubernetes' defaults.go and its conversions give them.

_CONSTANTS has the fields that get the same value wherever they are absent: defaults, and what Go
writes of a field that has no value. _RULES has what depends on other fields.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from .amounts import pod_sums, sums_of
from .definition_defaults import fill_definition, fill_port
from .extension_defaults import EXTENSION_CONSTANTS, EXTENSION_RULES
from .normal_form import Document, NormalForm, Rule
from .resources import BY_KIND, Kind
from .schema import TYPES

RBAC_GROUP = "rbac.authorization.k8s.io"
PODS = BY_KIND["v1", "Pod"]
_MOST = 2**31 - 1
_IMAGE = re.compile(  # a reference to an image, in the form that container runtimes read
    r"(?:(?:[a-zA-Z0-9.-]+|\[[0-9a-fA-F:]+\])(?::\d+)?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][\w.+-]*:[0-9a-fA-F]{32,})?"
)
_HUGE_PAGES = "hugepages-"
_FILE_MODE = 0o644


def defaulted(kind: Kind, document: Document) -> Document:
    """Returns a well-formed document with its defaults."""
    name = kind.type_name
    if not document.get("spec") and "spec" in (TYPES[name].fields or ()):
        document = {**document, "spec": {}}
    return (_POD_FORM if kind is PODS else _FORM).of(name, document)


def timed(kind: Kind, document: Document, now: Callable[[], str]) -> Document:
    """Returns a document with times that its sender may leave out: of the phase of a new volume,
    and of device taints.
    """
    time = _TIMES.get(kind)
    return document if time is None else time(document, now())


def _phase_timed(volume: Document, now: str) -> Document:
    if "status" in volume:
        return volume
    return {**volume, "status": {"phase": "Pending", "lastPhaseTransitionTime": now}}


def _slice_timed(slice_: Document, now: str) -> Document:
    spec = slice_["spec"]
    devices = spec.get("devices") or ()
    if not any("taints" in device for device in devices):
        return slice_
    added = [
        {**device, "taints": [{"timeAdded": now, **taint} for taint in device["taints"]]}
        if "taints" in device
        else device
        for device in devices
    ]
    return {**slice_, "spec": {**spec, "devices": added}}


def _rule_timed(rule: Document, now: str) -> Document:
    spec = rule["spec"]
    if "taint" not in spec:
        return rule
    return {**rule, "spec": {**spec, "taint": {"timeAdded": now, **spec["taint"]}}}


def _container(container: Document) -> None:
    """Sets the pull policy. It is Always for the tag latest, which is implied by default."""
    if "imagePullPolicy" not in container:
        image = _IMAGE.fullmatch(str(container.get("image", "")))
        latest = image is not None and image["digest"] is None and image["tag"] in (None, "latest")
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"


def _image_volume(source: Document) -> None:
    image = {"image": source.get("reference", "")}
    _container(image)
    source.setdefault("pullPolicy", image["imagePullPolicy"])


def _volume(volume: Document) -> None:
    """Turns a volume without a source into an emptyDir."""
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}


def _pod_spec(spec: Document) -> None:
    """Sets both names of the service account field; the newer name takes precedence."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _spec_of_pod(spec: Document) -> None:
    """Sets the defaults of pods that templates do not get: requests from limits, and host ports."""
    _pod_spec(spec)
    host = spec.get("hostNetwork", False)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_container_of_pod(each, host=host) for each in spec[field]]
    if spec.get("resources"):
        spec["resources"] = _pod_resources(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1


def _container_of_pod(container: Document, *, host: bool) -> Document:
    resources = container["resources"]
    if resources.get("limits"):
        requests = {**resources["limits"], **(resources.get("requests") or {})}
        container = {**container, "resources": {**resources, "requests": requests}}
    if host and container.get("ports"):
        ports = [
            {**port, "hostPort": port["containerPort"]}
            if port.get("containerPort") and not port.get("hostPort")
            else port
            for port in container["ports"]
        ]
        container = {**container, "ports": ports}
    return container


def _pod_resources(spec: Document) -> Document:
    """Returns the pod's own resources. Huge page limits and requests come from the containers,
    other requests from the pod's limits.
    """
    own = spec["resources"]
    limits, requests = dict(own.get("limits") or {}), dict(own.get("requests") or {})
    if not limits and not requests:
        return dict(own)
    for name, total in pod_sums(
        spec, lambda c: sums_of(c["resources"].get("limits") or {})
    ).items():
        if name.startswith(_HUGE_PAGES) and name not in requests:
            limits.setdefault(name, total.text())
    if limits:
        totals = pod_sums(spec, lambda c: sums_of(c["resources"].get("requests") or {}))
        for name, total in totals.items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, total.text())
        for name, amount in limits.items():
            if name in ("cpu", "memory") or name.startswith(_HUGE_PAGES):
                requests.setdefault(name, amount)
    amounts = {"limits": limits, "requests": requests}
    return {**own, **{field: found for field, found in amounts.items() if found}}


def _deployment_strategy(strategy: Document) -> None:
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**_SURGE, **strategy.get("rollingUpdate", {})}


def _daemon_set_strategy(strategy: Document) -> None:
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        given = strategy.get("rollingUpdate", {})
        strategy["rollingUpdate"] = {"maxSurge": 0, "maxUnavailable": 1, **given}


def _stateful_set_strategy(strategy: Document) -> None:
    """Sets the type, and the partition if there is a rolling update or was no type."""
    if "type" not in strategy:
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        strategy["rollingUpdate"] = {"partition": 0, **strategy["rollingUpdate"]}


def _stateful_set_spec(spec: Document) -> None:
    """Sets apiVersion and kind of the claim templates, whatever they were."""
    if spec.get("volumeClaimTemplates"):
        spec["volumeClaimTemplates"] = [
            {**claim, "apiVersion": "v1", "kind": "PersistentVolumeClaim"}
            for claim in spec["volumeClaimTemplates"]
        ]


def _labelled_as_template(workload: Document) -> None:
    """Gives a workload without labels the labels of its template."""
    metadata = workload.get("metadata") or {}
    labels = _template_labels(workload.get("spec") or {})
    if labels and not metadata.get("labels"):
        workload["metadata"] = {**metadata, "labels": labels}


def _template_labels(spec: Document) -> Any:
    return ((spec.get("template") or {}).get("metadata") or {}).get("labels")


def _replication_controller(spec: Document) -> None:
    labels = _template_labels(spec)
    if labels and not spec.get("selector"):
        spec["selector"] = labels


def _job(job: Document) -> None:
    """Sets the defaults of a job, which do not apply to templates of cron jobs. A job has one pod
    by default.
    """
    _labelled_as_template(job)
    spec = {**_JOB, **job["spec"]}
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MOST if "backoffLimitPerIndex" in spec else 6)
    replacement = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replacement)
    job["spec"] = spec


def _service(spec: Document) -> None:
    outside = spec["type"] in ("NodePort", "LoadBalancer") or (
        spec["type"] == "ClusterIP" and spec.get("externalIPs")
    )
    if outside:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif "timeoutSeconds" not in ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}):
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}


def _service_port(port: Document) -> None:
    if not port.get("targetPort"):
        port["targetPort"] = port.get("port", 0)


def _balancer_point(point: Document) -> None:
    if point.get("ip"):
        point.setdefault("ipMode", "VIP")


def _secret(secret: Document) -> None:
    """Moves stringData to data, in base64."""
    data = {key: "".join(value.split()) for key, value in (secret.get("data") or {}).items()}
    for key, value in (secret.pop("stringData", None) or {}).items():
        data[key] = base64.b64encode(value.encode()).decode()
    if data:
        secret["data"] = data


def _config_map(config_map: Document) -> None:
    if config_map.get("binaryData"):
        config_map["binaryData"] = {
            key: "".join(value.split()) for key, value in config_map["binaryData"].items()
        }


def _namespace(namespace: Document) -> None:
    metadata = namespace["metadata"]
    labels = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata.get("name", "")}
    namespace["metadata"] = {**metadata, "labels": labels}


def _node_spec(spec: Document) -> None:
    """Makes podCIDR and podCIDRs agree. The older field takes precedence."""
    first, all_ = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not all_ or all_[0] != first):
        spec["podCIDRs"] = [first]
    elif all_ and all_[0]:
        spec["podCIDR"] = all_[0]


def _node_status(status: Document) -> None:
    if status.get("allocatable") is None and status.get("capacity") is not None:
        status["allocatable"] = status["capacity"]


def _limit(limit: Document) -> None:
    """Sets the limit of a container to its maximum, and the request to the limit or the minimum."""
    if limit.get("type") != "Container":
        return
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    requests = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
    for field, amounts in (("default", default), ("defaultRequest", requests)):
        if amounts:
            limit[field] = amounts


def _role(role: Document) -> None:
    role["rules"] = role.get("rules") or None


def _subject(subject: Document) -> None:
    if subject.get("kind") in ("User", "Group"):
        subject.setdefault("apiGroup", RBAC_GROUP)


def _pod_condition(pattern: Document) -> None:
    pattern["status"] = pattern.get("status") or "True"


def _device_count(request: Document) -> None:
    if request["allocationMode"] == "ExactCount":
        request.setdefault("count", 1)


def _autoscaler(spec: Document) -> None:
    """Adds a cpu metric if there is none, and completes a behavior that has one direction only."""
    if not spec.get("metrics"):
        spec["metrics"] = [_CPU_TARGET]
    if (behavior := spec.get("behavior")) is not None:
        spec["behavior"] = {
            "scaleUp": {**_ADDING, **behavior.get("scaleUp", {})},
            "scaleDown": {**_REMOVING, **behavior.get("scaleDown", {})},
        }


_JOB = {"completionMode": "NonIndexed", "suspend": False, "manualSelector": False}
_SURGE = {"maxSurge": "25%", "maxUnavailable": "25%"}
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
_CONTAINER: Document = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_RETAINED = {"whenDeleted": "Retain", "whenScaled": "Retain"}
_DAEMON_ENDPOINTS: Document = {"kubeletEndpoint": {"Port": 0}}
_NODE_INFO: Document = dict.fromkeys(
    (
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ),
    "",
)
_NODE_STATUS: Document = {"daemonEndpoints": _DAEMON_ENDPOINTS, "nodeInfo": _NODE_INFO}
_BUDGET_STATUS = dict.fromkeys(
    ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"), 0
)
_DAEMONS = dict.fromkeys(
    ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"), 0
)
_RBD = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_SCALE_IO = {"storageMode": "ThinProvisioned", "fsType": "xfs"}
_ISCSI = {"iscsiInterface": "default", "lun": 0}

_CONSTANTS: dict[str, Document] = {
    "PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "ContainerPort": {"protocol": "TCP"},
    "Probe": {
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    },
    "HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "HTTPHeader": {"value": ""},
    "SleepAction": {"seconds": 0},
    "GRPCAction": {"service": ""},
    "ObjectFieldSelector": {"apiVersion": "v1"},
    "ResourceFieldSelector": {"divisor": "0"},
    "FileKeySelector": {"optional": False},
    "SecretVolumeSource": {"defaultMode": _FILE_MODE},
    "ConfigMapVolumeSource": {"defaultMode": _FILE_MODE},
    "DownwardAPIVolumeSource": {"defaultMode": _FILE_MODE},
    "ProjectedVolumeSource": {"defaultMode": _FILE_MODE, "sources": None},
    "ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "HostPathVolumeSource": {"type": ""},
    "ISCSIVolumeSource": _ISCSI,
    "ISCSIPersistentVolumeSource": _ISCSI,
    "RBDVolumeSource": _RBD,
    "RBDPersistentVolumeSource": _RBD,
    "ScaleIOVolumeSource": _SCALE_IO,
    "ScaleIOPersistentVolumeSource": _SCALE_IO,
    "AzureDiskVolumeSource": {
        "cachingMode": "ReadWrite",
        "kind": "Shared",
        "fsType": "ext4",
        "readOnly": False,
    },
    "AzureFilePersistentVolumeSource": {"secretNamespace": None},
    "PodTemplateSpec": {"metadata": {}, "spec": {}},
    "Service": {"status": {"loadBalancer": {}}},
    "ServiceSpec": {"type": "ClusterIP", "sessionAffinity": "None"},
    "ServicePort": {"protocol": "TCP"},
    "EndpointPort": {"protocol": "TCP"},
    "Secret": {"type": "Opaque"},
    "Namespace": {"status": {"phase": "Active"}},
    "Node": {"status": _NODE_STATUS},
    "NodeStatus": _NODE_STATUS,
    "NodeDaemonEndpoints": _DAEMON_ENDPOINTS,
    "NodeSystemInfo": _NODE_INFO,
    "NodeCondition": {"lastHeartbeatTime": None, "lastTransitionTime": None},
    "Event": {
        "involvedObject": {},
        "source": {},
        "eventTime": None,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "ResourceQuota": {"status": {}},
    "LimitRangeSpec": {"limits": None},
    "Deployment": {"status": {}},
    "DeploymentSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _SURGE},
    },
    "ReplicaSet": {"status": {"replicas": 0}},
    "ReplicaSetSpec": {"replicas": 1},
    "ReplicationController": {"status": {"replicas": 0}},
    "ReplicationControllerSpec": {"replicas": 1},
    "StatefulSet": {"status": {"replicas": 0, "availableReplicas": 0}},
    "StatefulSetSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "serviceName": "",
        "persistentVolumeClaimRetentionPolicy": _RETAINED,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    },
    "StatefulSetPersistentVolumeClaimRetentionPolicy": _RETAINED,
    "StatefulSetOrdinals": {"start": 0},
    "ControllerRevision": {"revision": 0},
    "DaemonSet": {"status": _DAEMONS},
    "DaemonSetSpec": {
        "revisionHistoryLimit": 10,
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
        },
    },
    "Job": {"status": {}},
    "PodFailurePolicy": {"rules": None},
    "CronJob": {"status": {}},
    "CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "JobTemplateSpec": {"metadata": {}},
    "PodDisruptionBudget": {"status": _BUDGET_STATUS},
    "PodDisruptionBudgetStatus": _BUDGET_STATUS,
    "v2.HorizontalPodAutoscaler": {"status": {"currentMetrics": None, "desiredReplicas": 0}},
    "HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "PersistentVolumeSpec": {
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
    },
    "PersistentVolumeClaim": {"status": {"phase": "Pending"}},
    "PersistentVolumeClaimSpec": {"volumeMode": "Filesystem", "resources": {}},
    "PersistentVolumeClaimTemplate": {"metadata": {}},
    "TypedLocalObjectReference": {"apiGroup": None},
    "TypedObjectReference": {"apiGroup": None},
    "CSINodeDriver": {"topologyKeys": None},
    "StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
    },
    "storage.TokenRequest": {"audience": ""},
    "VolumeAttachment": {"status": {"attached": False}},
    "PriorityClass": {"preemptionPolicy": "PreemptLowerPriority", "value": 0},
    "RoleRef": {"apiGroup": RBAC_GROUP},
    "ValidatingAdmissionPolicy": {"status": {}},
    "ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "MatchResources": {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
    },
    "NamedRuleWithOperations": {"scope": "*"},
    "ResourceClaim": {"status": {}},
    "ResourceClaimSpec": {"devices": {"requests": None}},
    "DeviceClaim": {"requests": None},
    "ResourceClaimTemplateSpec": {"metadata": {}},
    "ExactDeviceRequest": {"allocationMode": "ExactCount"},
    "DeviceSubRequest": {"allocationMode": "ExactCount"},
    "DeviceToleration": {"operator": "Equal"},
    "NodeAllocatableResourceMapping": {"allocationMultiplier": "1"},
    "v1alpha2.ResourceClaimSpec": {"allocationMode": "WaitForFirstConsumer"},
    **EXTENSION_CONSTANTS,
}

_RULES: dict[str, Rule] = {
    "CustomResourceDefinition": fill_definition,
    "apiextensions.ServiceReference": fill_port,
    "PodSpec": _pod_spec,
    "Container": _container,
    "EphemeralContainer": _container,
    "Volume": _volume,
    "ImageVolumeSource": _image_volume,
    "DeploymentStrategy": _deployment_strategy,
    "DaemonSetUpdateStrategy": _daemon_set_strategy,
    "StatefulSetSpec": _stateful_set_spec,
    "StatefulSetUpdateStrategy": _stateful_set_strategy,
    "ReplicationController": _labelled_as_template,
    "ReplicationControllerSpec": _replication_controller,
    "Job": _job,
    "PodFailurePolicyOnPodConditionsPattern": _pod_condition,
    "ServiceSpec": _service,
    "ServicePort": _service_port,
    "LoadBalancerIngress": _balancer_point,
    "Secret": _secret,
    "ConfigMap": _config_map,
    "Namespace": _namespace,
    "NodeSpec": _node_spec,
    "NodeStatus": _node_status,
    "LimitRangeItem": _limit,
    "Role": _role,
    "ClusterRole": _role,
    "Subject": _subject,
    "ExactDeviceRequest": _device_count,
    "DeviceSubRequest": _device_count,
    "HorizontalPodAutoscalerSpec": _autoscaler,
    **EXTENSION_RULES,
}

_FORM = NormalForm(_CONSTANTS, _RULES, recalls="PodSpec")
_TIMES: dict[Kind, Callable[[Document, str], Document]] = {
    BY_KIND["v1", "PersistentVolume"]: _phase_timed,
    BY_KIND["resource.k8s.io/v1", "ResourceSlice"]: _slice_timed,
    BY_KIND["resource.k8s.io/v1", "DeviceTaintRule"]: _rule_timed,
}
_POD_FORM = NormalForm(_CONSTANTS, {**_RULES, "PodSpec": _spec_of_pod}, recalls="PodSpec")
