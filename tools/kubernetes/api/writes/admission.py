"""Admission of new pods and claims: priority, overhead, default tolerations, default storage class.

Mirrors the admission plugins Priority, RuntimeClass, DefaultTolerationSeconds,
DefaultStorageClass and StorageObjectInUseProtection. Also fills in the status that the API server
gives to a new pod.
"""

from __future__ import annotations

from typing import Any

from berth.actors.scheduling.kube.annotations import BETA_CLASS, DEFAULT_CLASS
from berth.actors.scheduling.kube.quantity import nano_value

from ..store import Store
from ..types.admission_plugins import NAMESPACE_LIFECYCLE
from ..types.api_documents import OTHER_NAMESPACE, Document, RefusedError
from ..types.resources import BY_KIND, Kind
from .label_keys import with_label_keys
from .pod_conditions import with_condition
from .refusals import forbidden

PODS = BY_KIND["v1", "Pod"]
PRIORITY_CLASSES = BY_KIND["scheduling.k8s.io/v1", "PriorityClass"]
RUNTIME_CLASSES = BY_KIND["node.k8s.io/v1", "RuntimeClass"]
CLAIMS = BY_KIND["v1", "PersistentVolumeClaim"]
VOLUMES = BY_KIND["v1", "PersistentVolume"]
STORAGE_CLASSES = BY_KIND["storage.k8s.io/v1", "StorageClass"]
NAMESPACES = BY_KIND["v1", "Namespace"]
DEVICE_CLAIMS = (
    BY_KIND["resource.k8s.io/v1", "ResourceClaim"],
    BY_KIND["resource.k8s.io/v1", "ResourceClaimTemplate"],
)
_PROTECTING = {CLAIMS: "kubernetes.io/pvc-protection", VOLUMES: "kubernetes.io/pv-protection"}
TOLERATION_SECONDS = 300
TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
GATED = "Scheduling is blocked due to non-empty scheduling gates"
TOLERATED = tuple(
    {
        "key": taint,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": TOLERATION_SECONDS,
    }
    for taint in TAINTS
)


def admitted_pod(store: Store, pod: Document) -> Document:
    """Returns a new pod after the admission plugins that concern scheduling, with its first status.

    Raises RefusedError with 403 if an admission plugin rejects the pod.
    """
    for step in (with_priority, with_tolerations, with_runtime_class, with_first_status):
        pod = step(store, pod)
    if pod["spec"].get("overhead") is not None:
        check_overhead(store, pod)
    return pod


def with_priority(store: Store, pod: Document) -> Document:
    """Returns a new pod with the priority of its class. Raises RefusedError with 403."""
    spec = dict(pod["spec"])
    _give_priority(store, spec, pod["metadata"].get("name", ""))
    return {**pod, "spec": spec}


def with_tolerations(_: Store, pod: Document) -> Document:
    """Returns a pod that stays for 300 seconds on a node that is not ready or unreachable."""
    return {**pod, "spec": {**pod["spec"], "tolerations": _tolerations(pod["spec"])}}


def with_runtime_class(store: Store, pod: Document) -> Document:
    """Returns a new pod with the overhead and the scheduling of its RuntimeClass. Raises
    RefusedError with 403.
    """
    name, spec = pod["metadata"].get("name", ""), pod["spec"]
    if not spec.get("runtimeClassName"):
        return pod
    spec = dict(spec)
    _give_overhead(store, spec, name)
    return {**pod, "spec": spec}


def check_overhead(store: Store, pod: Document) -> None:
    """Raises RefusedError with 403 for a pod with an overhead that no RuntimeClass has."""
    spec = pod["spec"]
    runtime_class = store.find(RUNTIME_CLASSES, "", spec.get("runtimeClassName") or "") or {}
    if not (runtime_class.get("overhead") or {}).get("podFixed"):
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _forbidden_pod(pod["metadata"].get("name", ""), why)


def with_first_status(store: Store, pod: Document) -> Document:
    """Returns a new pod with its first status. Selectors of its terms include the labels that the
    terms name by key.
    """
    spec = with_label_keys(pod["spec"], pod["metadata"].get("labels") or {})
    status: Document = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        gated = ("SchedulingGated", GATED)
        status = with_condition(status, "PodScheduled", "False", store.outside.now(), *gated)
    return {**pod, "spec": spec, "status": status}


def check_namespace(store: Store, kind: Kind, namespace: str, metadata: dict[str, Any]) -> None:
    """Raises RefusedError if an object with this metadata may not be created in a namespace."""
    named = metadata.get("namespace") or namespace
    if named != namespace:
        raise RefusedError(400, "BadRequest", OTHER_NAMESPACE)
    if NAMESPACE_LIFECYCLE not in store.plugins:
        return
    if "deletionTimestamp" in store.get(NAMESPACES, "", namespace)["metadata"]:
        why = f"unable to create new content in namespace {namespace}"
        refused = forbidden(kind, metadata.get("name", ""), f"{why} because it is being terminated")
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        refused.details = {**(refused.details or {}), "causes": [cause]}
        raise refused


def with_kept_priority(pod: Document, before: Document) -> Document:
    """Returns an updated pod with the priority and the preemption policy of the stored one, if the
    update omits them: not every client knows these fields.
    """
    kept = {
        field: before["spec"][field]
        for field in ("priority", "preemptionPolicy")
        if field in before["spec"]
    }
    return {**pod, "spec": {**kept, **pod["spec"]}}


def admitted_claim(store: Store, claim: Document) -> Document:
    """Returns the claim. A claim without a storage class gets the newest default class, if any."""
    if "storageClassName" in claim["spec"] or BETA_CLASS in (
        claim["metadata"].get("annotations") or {}
    ):
        return claim
    classes = [stored.document["metadata"] for stored in store.list(STORAGE_CLASSES)]
    newest = max(
        (metadata for metadata in classes if _is_default(metadata)),
        key=lambda metadata: str(metadata["creationTimestamp"]),
        default=None,
    )
    if newest is None:
        return claim
    return {**claim, "spec": {**claim["spec"], "storageClassName": newest["name"]}}


def with_protection(kind: Kind, document: Document) -> Document:
    """Returns a new claim or volume with the finalizer that keeps it while it is in use."""
    metadata = document["metadata"]
    finalizers = {**dict.fromkeys(metadata.get("finalizers") or ()), _PROTECTING[kind]: None}
    return {**document, "metadata": {**metadata, "finalizers": [*finalizers]}}


def with_both_sources(claim: Document, before: Document | None) -> Document:
    """Returns the claim with its data source in both fields, old and new, if both can hold it.

    A data source that the old name never had is dropped, unless the stored claim has one.
    """
    spec, was = claim["spec"], {} if before is None else before["spec"]
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    had_none = was.get("dataSource") is None and was.get("dataSourceRef") is None
    if old is not None and new is None and had_none and not _is_known_source(old):
        return {**claim, "spec": {f: v for f, v in spec.items() if f != "dataSource"}}
    if old is not None and new is None:
        return {**claim, "spec": {**spec, "dataSourceRef": old}}
    if new and not old and not new.get("namespace"):
        return {**claim, "spec": {**spec, "dataSource": new}}
    return claim


def _is_known_source(source: Document) -> bool:
    """True for a claim or a snapshot, the only sources that dataSource could name before
    dataSourceRef.
    """
    known = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    return (source.get("apiGroup") or "", source.get("kind")) in known


def admin_access_problems(
    store: Store, kind: Kind, document: Document, before: Document | None
) -> list[str]:
    """Returns the refusals of admin access to devices in a namespace that is not labelled for it.

    `before` is the stored claim if its status is updated.
    """
    kind = kind.stored_as or kind
    if kind not in DEVICE_CLAIMS:
        return []
    from ..rules import device_claim_rules  # it brings the language of selectors with it

    namespace = store.find(NAMESPACES, "", document["metadata"]["namespace"])
    if device_claim_rules.has_admin_label(namespace):
        return []
    if before is not None:
        return device_claim_rules.admin_results(
            document.get("status") or {}, before.get("status") or {}
        )
    spec = document.get("spec") or {}
    if kind is DEVICE_CLAIMS[1]:
        spec = spec.get("spec") or {}
    return device_claim_rules.admin_requests(
        "spec.devices.requests", (spec.get("devices") or {}).get("requests") or ()
    )


def _is_default(metadata: Document) -> bool:
    annotations = metadata.get("annotations") or {}
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS)


def qos_class(spec: dict[str, Any]) -> str:
    """Returns Guaranteed, Burstable or BestEffort, by the CPU and memory of the pod's own resources
    or, without these, of the containers.
    """
    own = spec.get("resources") or {}
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if own.get("requests") or own.get("limits"):
        containers = [spec]
    guaranteed, any_amount = bool(containers), False
    for container in containers:
        resources = container.get("resources") or {}
        for name in ("cpu", "memory"):
            requested = (resources.get("requests") or {}).get(name)
            limited = (resources.get("limits") or {}).get(name)
            request = nano_value(requested) if requested else 0
            limit = nano_value(limited) if limited else 0
            any_amount = any_amount or request > 0 or limit > 0
            guaranteed = guaranteed and request == limit > 0
    return "Guaranteed" if guaranteed else "Burstable" if any_amount else "BestEffort"


def _give_priority(store: Store, spec: dict[str, Any], pod: str) -> None:
    name = spec.get("priorityClassName", "")
    if name:
        priority_class = store.find(PRIORITY_CLASSES, "", name)
        if priority_class is None:
            raise _forbidden_pod(pod, f"no PriorityClass with name {name} was found")
    else:
        priority_class = _default_class(store)
        if priority_class is not None:
            spec["priorityClassName"] = priority_class["metadata"]["name"]
    value = (priority_class or {}).get("value", 0)
    if spec.get("priority", value) != value:
        raise _forbidden_pod(
            pod,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    policy = (priority_class or {}).get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("preemptionPolicy", policy) != policy:
        raise _forbidden_pod(
            pod,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) "
            "must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["preemptionPolicy"] = policy


def _default_class(store: Store) -> Document | None:
    """Returns the default PriorityClass; of several, the one with the lowest value."""
    classes = [stored.document for stored in store.list(PRIORITY_CLASSES)]
    defaults = [each for each in classes if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each.get("value", 0))) if defaults else None


def check_default_class(store: Store, priority_class: Document) -> None:
    """Raises RefusedError with 403 if another PriorityClass is the default already."""
    default = _default_class(store) if priority_class.get("globalDefault") else None
    name = priority_class["metadata"].get("name", "")
    if default is not None and default["metadata"]["name"] != name:
        other = default["metadata"]["name"]
        why = f"PriorityClass {other} is already marked as default. Only one default can exist"
        raise forbidden(PRIORITY_CLASSES, name, why)


def _give_overhead(store: Store, spec: dict[str, Any], pod: str) -> None:
    name = spec["runtimeClassName"]
    runtime_class = store.find(RUNTIME_CLASSES, "", name)
    if runtime_class is None:
        raise _forbidden_pod(pod, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (runtime_class.get("overhead") or {}).get("podFixed") or {}
    if spec.get("overhead") and overhead and _amounts(spec["overhead"]) != _amounts(overhead):
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise _forbidden_pod(pod, why)
    if overhead:
        spec["overhead"] = overhead
    scheduling = runtime_class.get("scheduling") or {}
    selector, own = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in selector.items():
        if own.get(key, value) != value:
            raise _forbidden_pod(
                pod,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}",
            )
    if selector:
        spec["nodeSelector"] = {**own, **selector}
    if scheduling.get("tolerations"):
        have = list(spec.get("tolerations") or ())
        spec["tolerations"] = have + [t for t in scheduling["tolerations"] if t not in have]


def _amounts(overhead: dict[str, Any]) -> dict[str, int]:
    return {name: nano_value(amount) for name, amount in overhead.items()}


def _forbidden_pod(pod: str, why: str) -> RefusedError:
    return forbidden(PODS, pod, why)


def _tolerations(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the pod's tolerations with the two that every pod gets.

    These let the pod stay for 300 seconds on a node that is not ready or unreachable.
    """
    own = list(spec.get("tolerations") or ())
    return own + [
        default
        for default in TOLERATED
        if not any(_tolerates(toleration, default["key"]) for toleration in own)
    ]


def _tolerates(toleration: dict[str, Any], taint: Any) -> bool:
    return toleration.get("key") in (taint, "", None) and toleration.get("effect") in (
        "NoExecute",
        "",
        None,
    )
