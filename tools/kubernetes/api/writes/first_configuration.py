"""What an API server writes about itself: its flows and their priority levels, the versions of
groups that it serves, the range of service addresses, and who has which of them.

It is as Kubernetes 1.36 has it, and in the form in which it is stored. Most clients never ask for
it, so it is written when somebody does. What controllers add to it is in settled_objects.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..store import Store
from ..types.api_documents import Document
from ..types.resources import BY_KIND, Kind
from .service_addresses import HEADLESS, SERVICES

_FLOW, _NETWORK = "flowcontrol.apiserver.k8s.io/v1", "networking.k8s.io/v1"
FLOW_SCHEMAS, PRIORITY_LEVELS = (
    BY_KIND[_FLOW, kind] for kind in ("FlowSchema", "PriorityLevelConfiguration")
)
NAMESPACES = BY_KIND["v1", "Namespace"]
API_SERVICES = BY_KIND["apiregistration.k8s.io/v1", "APIService"]
SERVICE_RANGES = BY_KIND[_NETWORK, "ServiceCIDR"]
SERVICE_RANGE = "10.96.0.0/16"
ADDRESSES = BY_KIND[_NETWORK, "IPAddress"]
ROLES = BY_KIND["rbac.authorization.k8s.io/v1", "ClusterRole"]
SETTLED = frozenset((FLOW_SCHEMAS, PRIORITY_LEVELS, API_SERVICES, ROLES))  # see settled_objects
SELF_WRITTEN = frozenset((FLOW_SCHEMAS, PRIORITY_LEVELS, API_SERVICES, SERVICE_RANGES, ADDRESSES))
LOCAL = "Local", "Local APIServices are always available"  # reason and message
_ALLOCATOR = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io")
_UPDATED = {"apf.kubernetes.io/autoupdate-spec": "true"}
_ALL_VERBS = ["*"]
# Names, shares, percents that may be lent, and the queues, their hand and their length; () for a
# level that rejects what is too much.
_LEVELS: tuple[tuple[str, int, int, tuple[int, ...]], ...] = (
    ("catch-all", 5, 0, ()),
    ("global-default", 20, 50, (128, 6, 50)),
    ("leader-election", 10, 0, (16, 4, 50)),
    ("node-high", 40, 25, (64, 6, 50)),
    ("system", 30, 33, (64, 6, 50)),
    ("workload-high", 40, 50, (128, 6, 50)),
    ("workload-low", 100, 90, (128, 6, 50)),
)
_EVERYONE = ("Group system:unauthenticated", "Group system:authenticated")
_MANAGER, _SCHEDULER = "User system:kube-controller-manager", "User system:kube-scheduler"
_SYSTEM_ACCOUNTS = "ServiceAccount kube-system/*"
_ANYTHING: Document = {
    "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": _ALL_VERBS}],
    "resourceRules": [
        {
            "apiGroups": ["*"],
            "clusterScope": True,
            "namespaces": ["*"],
            "resources": ["*"],
            "verbs": _ALL_VERBS,
        }
    ],
}


def _leases(verbs: list[str]) -> Document:
    group = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return {**group, "namespaces": ["*"], "verbs": verbs}


_ELECTIONS: Document = {"resourceRules": [_leases(["get", "create", "update"])]}
_OF_NODES: Document = {
    "resourceRules": [
        {
            "apiGroups": [""],
            "clusterScope": True,
            "namespaces": ["*"],
            "resources": ["nodes", "nodes/status"],
            "verbs": _ALL_VERBS,
        },
        _leases(_ALL_VERBS),
    ]
}
_PROBES: Document = {
    "nonResourceRules": [{"nonResourceURLs": ["/healthz", "/readyz", "/livez"], "verbs": ["get"]}]
}
# Names, levels, precedences, what tells flows apart, the rules, and for whom they are.
_SCHEMAS: tuple[tuple[str, str, int, str, Document, tuple[str, ...]], ...] = (
    ("exempt", "exempt", 1, "", _ANYTHING, ("Group system:masters",)),
    ("probes", "exempt", 2, "", _PROBES, _EVERYONE),
    (
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        _ELECTIONS,
        (_MANAGER, _SCHEDULER, _SYSTEM_ACCOUNTS),
    ),
    ("system-node-high", "node-high", 400, "ByUser", _OF_NODES, ("Group system:nodes",)),
    ("system-nodes", "system", 500, "ByUser", _ANYTHING, ("Group system:nodes",)),
    ("kube-controller-manager", "workload-high", 800, "ByNamespace", _ANYTHING, (_MANAGER,)),
    ("kube-scheduler", "workload-high", 800, "ByNamespace", _ANYTHING, (_SCHEDULER,)),
    (
        "kube-system-service-accounts",
        "workload-high",
        900,
        "ByNamespace",
        _ANYTHING,
        (_SYSTEM_ACCOUNTS,),
    ),
    (
        "service-accounts",
        "workload-low",
        9000,
        "ByUser",
        _ANYTHING,
        ("Group system:serviceaccounts",),
    ),
    ("global-default", "global-default", 9900, "ByUser", _ANYTHING, _EVERYONE),
    ("catch-all", "catch-all", 10000, "ByUser", _ANYTHING, _EVERYONE),
)
# The priorities of groups; those of their versions, where they are not 15.
_GROUPS = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
}
_VERSIONS = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1alpha2"): 1,
}


def write_configuration(store: Store, kind: Kind) -> None:
    """Stores what is not there yet, before a request for objects of one of these kinds. It is as
    old as the server's own namespace.
    """
    first = store.find(NAMESPACES, "", "kube-system")
    now = store.outside.now() if first is None else first["metadata"]["creationTimestamp"]
    if kind is ADDRESSES:
        _write_addresses(store, now)
    elif not store.is_configured:
        store.is_configured = True
        for of, document in _configuration(store, now):
            _create(store, of, document, now)


def _create(store: Store, kind: Kind, document: Document, now: str) -> None:
    if store.find(kind, "", document["metadata"]["name"]) is None:
        own = {"uid": store.outside.new_uid(), "creationTimestamp": now}
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        store.create(kind, {**named, **document, "metadata": {**document["metadata"], **own}})


def _write_addresses(store: Store, now: str) -> None:
    """Stores an IPAddress for each address of a service, and deletes those of services that are
    gone.
    """
    wanted = {}
    for stored in store.list(SERVICES):
        metadata, spec = stored.document["metadata"], stored.document["spec"]
        for address in spec.get("clusterIPs") or ():
            if address != HEADLESS:
                wanted[address] = metadata["namespace"], metadata["name"]
    key, allocator = _ALLOCATOR
    for stored in list(store.list(ADDRESSES)):
        metadata = stored.document["metadata"]
        allocated = (metadata.get("labels") or {}).get(key) == allocator
        if allocated and metadata["name"] not in wanted:
            store.delete(ADDRESSES, "", metadata["name"])
    for address, (namespace, name) in wanted.items():
        family = "IPv6" if ":" in address else "IPv4"
        labels = {"ipaddress.kubernetes.io/ip-family": family, key: allocator}
        reference = {"resource": "services", "namespace": namespace, "name": name}
        document = {
            "metadata": {"name": address, "labels": labels},
            "spec": {"parentRef": reference},
        }
        _create(store, ADDRESSES, document, now)


def _configuration(store: Store, now: str) -> Iterator[tuple[Kind, Document]]:
    yield PRIORITY_LEVELS, _level("exempt", {"type": "Exempt", "exempt": _shares(0, 0)})
    for name, shares, lent, queuing in _LEVELS:
        limited = {**_shares(shares, lent), "limitResponse": _response(queuing)}
        yield PRIORITY_LEVELS, _level(name, {"type": "Limited", "limited": limited})
    for schema in _SCHEMAS:
        yield FLOW_SCHEMAS, _schema(*schema, now)
    served = {(kind.group, kind.version) for kind in store.release.served}
    for group, version in sorted(served):
        if group in _GROUPS:
            yield API_SERVICES, _api_service(group, version, now)
    ready = "Kubernetes default Service CIDR is ready"
    yield (
        SERVICE_RANGES,
        {
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": [SERVICE_RANGE]},
            "status": {"conditions": [condition("Ready", "True", "", ready, now)]},
        },
    )


def condition(type_: str, status: str, reason: str, message: str, now: str) -> Document:
    named = {"type": type_, "status": status, "lastTransitionTime": now}
    return {**named, "reason": reason, "message": message}


def _level(name: str, spec: Document) -> Document:
    metadata = {"name": name, "generation": 1, "annotations": _UPDATED}
    return {"metadata": metadata, "spec": spec, "status": {}}


def _shares(shares: int, lent: int) -> Document:
    return {"nominalConcurrencyShares": shares, "lendablePercent": lent}


def _response(queuing: tuple[int, ...]) -> Document:
    if not queuing:
        return {"type": "Reject"}
    fields = ("queues", "handSize", "queueLengthLimit")
    return {"type": "Queue", "queuing": dict(zip(fields, queuing, strict=True))}


def _schema(
    name: str,
    level: str,
    precedence: int,
    method: str,
    rules: Document,
    subjects: tuple[str, ...],
    now: str,
) -> Document:
    spec: Document = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        **({"distinguisherMethod": {"type": method}} if method else {}),
        "rules": [{"subjects": [*map(_subject, subjects)], **rules}],
    }
    return {
        "metadata": {"name": name, "generation": 1, "annotations": _UPDATED},
        "spec": spec,
        "status": {"conditions": [flow_condition(level, now, exists=True)]},
    }


def flow_condition(level: str, now: str, *, exists: bool) -> Document:
    """Returns the condition of a flow schema that says whether its priority level exists."""
    status, reason = ("False", "Found") if exists else ("True", "NotFound")
    what = "and it exists" if exists else "but there is no such object"
    references = "This FlowSchema references the PriorityLevelConfiguration object named"
    return condition("Dangling", status, reason, f'{references} "{level}" {what}', now)


def _subject(text: str) -> Document:
    kind, name = text.split(" ")
    if kind == "ServiceAccount":
        namespace, name = name.split("/")
        return {"kind": kind, "serviceAccount": {"namespace": namespace, "name": name}}
    return {"kind": kind, kind.lower(): {"name": name}}


def _api_service(group: str, version: str, now: str) -> Document:
    spec: Document = {
        **({"group": group} if group else {}),
        "version": version,
        "groupPriorityMinimum": _GROUPS[group],
        "versionPriority": _VERSIONS.get((group, version), 15),
    }
    return {
        "metadata": {
            "name": f"{version}.{group}",
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
        },
        "spec": spec,
        "status": {"conditions": [condition("Available", "True", *LOCAL, now)]},
    }
