"""The usage that ResourceQuotas limit: the amounts that an object uses, and the scopes it is in.

Mirrors Kubernetes' quota evaluators: pods, services and claims have amounts of their own, every
other object counts as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from berth.actors.scheduling.kube.annotations import BETA_CLASS
from berth.actors.scheduling.kube.quantity import nano_value

from ..rules.fields import COMPUTE, SCRATCH, is_extended, selects
from ..types.amounts import ONE, Sum, Sums, pod_sums, raise_to, sums_of
from ..types.api_documents import Document
from ..types.resources import BY_KIND, Kind
from .admission import CLAIMS, DEVICE_CLAIMS, qos_class
from .evictions import PODS

SERVICES = BY_KIND["v1", "Service"]
DEVICES = DEVICE_CLAIMS[0]
MOST_DEVICES = 32  # that a request for all devices may get
REQUESTS = "requests."
_ALIASES = {
    BY_KIND["v1", kind]: name
    for kind, name in (
        ("ConfigMap", "configmaps"),
        ("ResourceQuota", "resourcequotas"),
        ("ReplicationController", "replicationcontrollers"),
        ("Secret", "secrets"),
    )
}
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_OF_POD = COMPUTE | SCRATCH | {"pods"}
_OF_SERVICE = ("services", "services.nodeports", "services.loadbalancers")
_OF_CLAIM = ("persistentvolumeclaims", "requests.storage")
_OF_STORAGE_CLASS = tuple(f".storageclass.storage.k8s.io/{name}" for name in _OF_CLAIM)
_OF_DEVICE_CLASS = ".deviceclass.resource.k8s.io/devices"
_IMPLICIT = "deviceclass.resource.kubernetes.io/"
_HUGE_PAGES = "hugepages-"


def count_name(kind: Kind) -> str:
    """Returns the name under which a quota limits the number of objects."""
    return f"count/{kind.resource}"


def counts_kind(kind: Kind, name: str) -> bool:
    """True if a quota's limit of this name applies to objects of this kind."""
    if name == count_name(kind):
        return True
    if kind is PODS:
        huge = name.startswith((_HUGE_PAGES, REQUESTS + _HUGE_PAGES))
        return name in _OF_POD or huge or _is_extended_request(name)
    if kind is SERVICES:
        return name in _OF_SERVICE
    if kind is CLAIMS:
        return name in _OF_CLAIM or name.endswith(_OF_STORAGE_CLASS)
    if kind is DEVICES:
        return name.endswith(_OF_DEVICE_CLASS) or _is_extended_request(name)
    return name == _ALIASES.get(kind)


def object_usage(kind: Kind, document: Document, now: datetime) -> Sums:
    """Returns the amounts that an object uses. The extended resources of a device claim are added
    elsewhere.
    """
    if kind is PODS:
        return pod_usage(document, now)
    amounts = {count_name(kind): ONE}
    if kind is SERVICES:
        return amounts | _service(document.get("spec") or {})
    if kind is CLAIMS:
        return amounts | _claim(document)
    if kind is DEVICES:
        return amounts | _devices(document.get("spec") or {})
    return amounts | ({_ALIASES[kind]: ONE} if kind in _ALIASES else {})


def pod_usage(pod: Document, now: datetime) -> Sums:
    """Returns the amounts that a pod uses. A pod that has finished, or is overdue for deletion,
    counts as an object only.
    """
    amounts = {count_name(PODS): ONE}
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed") or _is_overdue(pod, now):
        return amounts
    return amounts | {"pods": ONE} | _quota_names(pod_requests(pod), _limits(pod))


def unspecified(pod: Document, names: frozenset[str]) -> str:
    """Returns a list of the amounts that containers of the pod should specify, but do not."""
    spec = pod["spec"]
    own = spec.get("resources") or {}
    if any(
        _is_of_whole_pod(name) for field in ("requests", "limits") for name in own.get(field) or {}
    ):
        return ""
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        requests, limits = (resources.get(field) or {} for field in ("requests", "limits"))
        for name in names & COMPUTE - _quota_names(sums_of(requests), sums_of(limits)).keys():
            missing.setdefault(name, set()).add(container.get("name") or "")
    return "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


def is_in_scope(kind: Kind, document: Document, scope: Document) -> bool:
    """True if an object is in a scope, which is a requirement of a quota's scope selector."""
    name = scope.get("scopeName", "")
    if kind is PODS:
        return _pod_in_scope(document, name, scope)
    if kind is not CLAIMS or name != "VolumeAttributesClass":
        return False
    classes = _attributes_classes(document)
    if scope.get("operator") == "Exists":
        return bool(classes)
    return any(_matches_selector(scope, {name: each}) for each in classes) or (
        not classes and _matches_selector(scope, {})
    )


def is_terminating(pod: Document) -> bool:
    """True if the pod has a deadline, as the scope Terminating requires."""
    return (pod["spec"].get("activeDeadlineSeconds") or -1) >= 0


def device_classes(amounts: Sums) -> dict[str, Sum]:
    """Returns the number of devices of each class that a device claim uses."""
    return {
        name.removesuffix(_OF_DEVICE_CLASS): number
        for name, number in amounts.items()
        if name.endswith(_OF_DEVICE_CLASS) and name != _OF_DEVICE_CLASS
    }


def extended_requests(
    classes: Mapping[str, Sum], resource_of: Callable[[str], str], of_pod: Sums
) -> dict[str, Sum]:
    """Returns devices as extended resources, less the devices that are charged to the claim's pod.

    `resource_of` returns the extended resource that a class stands for, or "".
    """
    amounts: dict[str, Sum] = {}
    for name, number in classes.items():
        for resource in (_IMPLICIT + name, resource_of(name)):
            charged = of_pod.get(REQUESTS + resource)
            uncharged = number if charged is None else number.minus(charged)
            if resource and uncharged.nano > 0:
                amounts[REQUESTS + resource] = uncharged
    return amounts


def _is_extended_request(name: str) -> bool:
    resource = name.removeprefix(REQUESTS)
    return resource != name and (is_extended(resource) or resource.startswith(_IMPLICIT))


def _is_of_whole_pod(name: str) -> bool:
    """True for a resource that a pod may request as a whole."""
    return name in ("cpu", "memory") or name.startswith(_HUGE_PAGES)


def _is_overdue(pod: Document, now: datetime) -> bool:
    """True if a deleted pod still exists after its grace period."""
    deleted, grace = (
        pod["metadata"].get(field) for field in ("deletionTimestamp", "deletionGracePeriodSeconds")
    )
    if deleted is None or grace is None:
        return False
    return now > datetime.fromisoformat(deleted) + timedelta(seconds=grace)


def _quota_names(requests: Sums, limits: Sums) -> dict[str, Sum]:
    """Returns the requests and limits by the names that quotas use for them."""
    amounts: dict[str, Sum] = {}
    for name, request in requests.items():
        if name in _NATIVE or name.startswith(_HUGE_PAGES):
            amounts[name] = amounts[REQUESTS + name] = request
        elif is_extended(name) or name.startswith(_IMPLICIT):
            amounts[REQUESTS + name] = request
    return amounts | {f"limits.{name}": limits[name] for name in _NATIVE if name in limits}


def pod_requests(pod: Document) -> dict[str, Sum]:
    sums = pod_sums(pod["spec"], lambda container: _effective_amounts(pod, container, "requests"))
    sums |= _pod_level_sums(pod, "requests")
    for name, amount in sums_of(pod["spec"].get("overhead") or {}).items():
        sums[name] = sums[name].plus(amount) if name in sums else amount
    return sums


def _limits(pod: Document) -> dict[str, Sum]:
    sums = pod_sums(pod["spec"], lambda container: _effective_amounts(pod, container, "limits"))
    sums |= _pod_level_sums(pod, "limits")
    for name, amount in sums_of(pod["spec"].get("overhead") or {}).items():
        if name in sums and sums[name].nano:
            sums[name] = sums[name].plus(amount)
    return sums


def _pod_level_sums(pod: Document, field: str) -> dict[str, Sum]:
    own = (pod["spec"].get("resources") or {}).get(field) or {}
    return sums_of({name: amount for name, amount in own.items() if _is_of_whole_pod(name)})


def _effective_amounts(pod: Document, container: Document, field: str) -> Sums:
    """Returns the amounts of a container. During a resize, the larger of those it should have and
    has.
    """
    desired = sums_of((container.get("resources") or {}).get(field) or {})
    status = pod.get("status") or {}
    statuses = list(status.get("containerStatuses") or ())
    if container.get("restartPolicy") == "Always":
        statuses += status.get("initContainerStatuses") or ()
    actual: Document = next((s for s in statuses if s.get("name") == container.get("name")), {})
    if not actual.get("resources"):
        return desired
    infeasible = any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )
    amounts = {} if infeasible else desired
    raise_to(amounts, sums_of(actual["resources"].get(field) or {}))
    if field == "requests":
        raise_to(amounts, sums_of(actual.get("allocatedResources") or {}))
    return amounts


def _service(spec: Document) -> dict[str, Sum]:
    ports = spec.get("ports") or ()
    kind = spec.get("type")
    balanced = kind == "LoadBalancer"
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    on_nodes = len(ports) if balanced or kind == "NodePort" else 0
    numbers = (1, on_nodes, int(balanced))
    return {name: Sum.count(number) for name, number in zip(_OF_SERVICE, numbers, strict=True)}


def _claim(claim: Document) -> dict[str, Sum]:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    amounts = {"persistentvolumeclaims": ONE}
    request = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if request is not None:
        allocated = (status.get("allocatedResources") or {}).get("storage", request)
        most = max(request, allocated, key=nano_value)
        amounts["requests.storage"] = Sum.of(most).whole()
    annotations = claim["metadata"].get("annotations") or {}
    storage_class = annotations.get(BETA_CLASS, spec.get("storageClassName") or "")
    if storage_class:
        of_class = f"{storage_class}.storageclass.storage.k8s.io/"
        amounts |= {of_class + name: amount for name, amount in amounts.items()}
    return amounts


def _devices(spec: Document) -> dict[str, Sum]:
    """Returns the number of devices by class; for alternatives, the largest number."""
    numbers: dict[str, int] = {}
    for request in (spec.get("devices") or {}).get("requests") or ():
        alternatives = request.get("firstAvailable") or [request.get("exactly") or {}]
        most: dict[str, int] = {}
        for choice in alternatives:
            name = choice.get("deviceClassName", "")
            everything = choice.get("allocationMode") == "All"
            number = MOST_DEVICES if everything else choice.get("count", 1)
            most[name] = max(most.get(name, 0), number)
        for name, number in most.items():
            numbers[name] = numbers.get(name, 0) + number
    return {name + _OF_DEVICE_CLASS: Sum.count(number) for name, number in numbers.items()}


def _pod_in_scope(pod: Document, name: str, scope: Document) -> bool:
    spec = pod["spec"]
    match name:
        case "Terminating":
            return is_terminating(pod)
        case "NotTerminating":
            return not is_terminating(pod)
        case "BestEffort" | "NotBestEffort":
            quality = (pod.get("status") or {}).get("qosClass") or qos_class(spec)
            return bool((quality == "BestEffort") is (name == "BestEffort"))
        case "PriorityClass":
            priority_class = spec.get("priorityClassName")
            return _matches_selector(scope, {name: priority_class} if priority_class else {})
        case "CrossNamespacePodAffinity":
            return any(
                term.get("namespaces") or term.get("namespaceSelector") is not None
                for term in _affinity_terms(spec.get("affinity") or {})
            )
        case _:
            return False


def _affinity_terms(affinity: Document) -> list[Document]:
    terms: list[Document] = []
    for field in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(field) or {}
        terms += rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [
            weighted.get("podAffinityTerm") or {}
            for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ]
    return terms


def _attributes_classes(claim: Document) -> set[str]:
    status = claim.get("status") or {}
    names = (
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in names if name}


def _matches_selector(scope: Document, values: Mapping[str, str]) -> bool:
    requirement = {
        "key": scope.get("scopeName", ""),
        "operator": scope.get("operator"),
        "values": scope.get("values"),
    }
    return selects({"matchExpressions": [requirement]}, values)
