"""The columns of nodes, namespaces, services, events and the other simple objects of a cluster."""

from __future__ import annotations

from datetime import datetime

from ..types.api_documents import Document
from .column import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    WIDE,
    Column,
    Read,
    condition,
    entries,
    field,
    flag,
    labels_text,
    mapping,
    number,
    selector_text,
    size,
    strings,
    text,
)
from .duration import age

ROLE, OLD_ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"
ENDPOINTS_SHOWN = 3


def _node_status(node: Document, _: datetime) -> str:
    ready = condition(node, "Ready")
    status = "Unknown" if not ready else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if flag(node, "spec", "unschedulable") else status


def _roles(node: Document, _: datetime) -> str:
    labels = mapping(node, "metadata", "labels")
    roles = {key.removeprefix(ROLE) for key in labels if key.startswith(ROLE)} | {
        text(labels, OLD_ROLE)
    }
    return ",".join(sorted(roles - {""})) or NONE


def _address(type_: str) -> Read:
    def read(node: Document, _: datetime) -> str:
        addresses = entries(node, "status", "addresses")
        return next(
            (text(address, "address") for address in addresses if address.get("type") == type_),
            NONE,
        )

    return read


def _node_info(key: str, default: str) -> Read:
    return field("status", "nodeInfo", key, default=default)


NODES = (
    NAME,
    Column("Status", _node_status, "Whether the node is ready and accepts pods."),
    Column("Roles", _roles, "Its roles, according to its labels."),
    AGE,
    Column("Version", _node_info("kubeletVersion", ""), "The kubelet's version."),
    Column("Internal-IP", _address("InternalIP"), "Its address in the cluster.", priority=WIDE),
    Column("External-IP", _address("ExternalIP"), "Its external address.", priority=WIDE),
    Column("OS-Image", _node_info("osImage", UNKNOWN), "Its operating system.", priority=WIDE),
    Column("Kernel-Version", _node_info("kernelVersion", UNKNOWN), "Its kernel.", priority=WIDE),
    Column(
        "Container-Runtime",
        _node_info("containerRuntimeVersion", UNKNOWN),
        "Its container runtime.",
        priority=WIDE,
    ),
)

NAMESPACES = (
    NAME,
    Column("Status", field("status", "phase", default="Active"), "Active or Terminating."),
    AGE,
)


def _cluster_ip(service: Document, _: datetime) -> str:
    return next(iter(strings(service, "spec", "clusterIPs")), "") or text(
        service, "spec", "clusterIP", default=NONE
    )


def _external_ip(service: Document, _: datetime) -> str:
    own = strings(service, "spec", "externalIPs")
    match text(service, "spec", "type", default="ClusterIP"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            ingress = entries(service, "status", "loadBalancer", "ingress")
            addresses = {text(point, "ip") or text(point, "hostname") for point in ingress} - {""}
            return ",".join([*sorted(addresses), *own]) or "<pending>"
        case "ExternalName":
            return text(service, "spec", "externalName")
        case _:
            return UNKNOWN


def _ports(service: Document, _: datetime) -> str:
    pieces = []
    for port in entries(service, "spec", "ports"):
        outside = f":{node_port}" if (node_port := number(port, "nodePort")) > 0 else ""
        pieces.append(f"{number(port, 'port')}{outside}/{text(port, 'protocol', default='TCP')}")
    return ",".join(pieces) or NONE


def _service_selector(service: Document, _: datetime) -> str:
    return labels_text(mapping(service, "spec", "selector"))


SERVICES = (
    NAME,
    Column("Type", field("spec", "type", default="ClusterIP"), "How it is reached."),
    Column("Cluster-IP", _cluster_ip, "Its address in the cluster."),
    Column("External-IP", _external_ip, "Its external addresses."),
    Column("Port(s)", _ports, "Its ports and node ports."),
    AGE,
    Column("Selector", _service_selector, "Which pods it routes to.", priority=WIDE),
)


def _endpoints(document: Document, _: datetime) -> str:
    """Returns the first few addresses with each of their ports."""
    endpoints = []
    for subset in entries(document, "subsets"):
        addresses = [text(address, "ip") for address in entries(subset, "addresses")]
        ports = [number(port, "port") for port in entries(subset, "ports")]
        endpoints += (
            [_host_port(address, port) for port in ports for address in addresses]
            if ports
            else addresses
        )
    shown = ",".join(endpoints[:ENDPOINTS_SHOWN])
    more = len(endpoints) - ENDPOINTS_SHOWN
    if more > 0:
        return f"{shown} + {more} more..."
    return shown if entries(document, "subsets") else NONE


def _host_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


ENDPOINTS = (NAME, Column("Endpoints", _endpoints, "The addresses behind the service."), AGE)


def _first_seen(event: Document, now: datetime) -> str:
    return age(text(event, "firstTimestamp") or text(event, "eventTime"), now)


def _last_seen(event: Document, now: datetime) -> str:
    if mapping(event, "series"):
        return age(text(event, "series", "lastObservedTime"), now)
    last = text(event, "lastTimestamp")
    return age(last, now) if last else _first_seen(event, now)


def _event_count(event: Document, _: datetime) -> int:
    return (
        number(event, "series", "count")
        if mapping(event, "series")
        else number(event, "count") or 1
    )


def _object(event: Document, _: datetime) -> str:
    kind, name = (
        text(event, "involvedObject", "kind").lower(),
        text(event, "involvedObject", "name"),
    )
    return f"{kind}/{name}" if name else kind


def _source(event: Document, _: datetime) -> str:
    component = text(event, "source", "component") or text(event, "reportingComponent")
    instance = text(event, "source", "host") or text(event, "reportingInstance")
    return f"{component}, {instance}" if instance else component


def _message(event: Document, _: datetime) -> str:
    return text(event, "message").strip()


EVENTS = (
    Column("Last Seen", _last_seen, "Time since it was last seen."),
    Column("Type", field("type"), "Normal or Warning."),
    Column("Reason", field("reason"), "Why it happened, in one word."),
    Column("Object", _object, "What it is about."),
    Column(
        "Subobject",
        field("involvedObject", "fieldPath"),
        "Which part of the object.",
        priority=WIDE,
    ),
    Column("Source", _source, "The component that reports it.", priority=WIDE),
    Column("Message", _message, "What happened."),
    Column("First Seen", _first_seen, "Time since it was first seen.", priority=WIDE),
    Column("Count", _event_count, "How often it was seen.", priority=WIDE),
    Column("Name", field("metadata", "name"), "Name of the event.", priority=WIDE, format="name"),
)

CONFIG_MAPS = (
    NAME,
    Column("Data", size(("data",), ("binaryData",)), "How many entries it has."),
    AGE,
)
DEFINITIONS = (
    NAME,
    Column("Created At", field("metadata", "creationTimestamp"), "When it was created.", "date"),
)
SECRETS = (
    NAME,
    Column("Type", field("type", default="Opaque"), "What kind of secret it is."),
    Column("Data", size(("data",)), "How many entries it has."),
    AGE,
)
SERVICE_ACCOUNTS = (NAME, AGE)
LEASES = (NAME, Column("Holder", field("spec", "holderIdentity"), "Who holds it."), AGE)


def _used(*, limits: bool) -> Read:
    """Returns a reader of the amounts of a quota: of limits, or of requests and numbers."""

    def read(quota: Document, _: datetime) -> str:
        hard, used = (mapping(quota, "status", name) for name in ("hard", "used"))
        return ", ".join(
            f"{name}: {text(used, name, default='0')}/{text(hard, name)}"
            for name in sorted(hard)
            if name.startswith("limits.") is limits
        )

    return read


RESOURCE_QUOTAS = (
    NAME,
    Column("Request", _used(limits=False), "The requests and objects, used and limited."),
    Column("Limit", _used(limits=True), "The limits of containers, used and limited."),
    AGE,
)
# The columns of kinds for which the API server has no columns of their own.
DATED = (
    NAME,
    Column("Created At", field("metadata", "creationTimestamp"), "When it was created.", "date"),
)


def _role(binding: Document, _: datetime) -> str:
    return f"{text(binding, 'roleRef', 'kind')}/{text(binding, 'roleRef', 'name')}"


def _subjects(kind: str) -> Read:
    def read(binding: Document, _: datetime) -> str:
        named = [subject for subject in entries(binding, "subjects") if subject.get("kind") == kind]
        return ", ".join(
            f"{text(subject, 'namespace')}/{text(subject, 'name')}"
            if kind == "ServiceAccount"
            else text(subject, "name")
            for subject in named
        )

    return read


ROLE_BINDINGS = (
    NAME,
    Column("Role", _role, "The role that it grants."),
    AGE,
    Column("Users", _subjects("User"), "The users to whom it grants it.", priority=WIDE),
    Column("Groups", _subjects("Group"), "The groups to whom it grants it.", priority=WIDE),
    Column(
        "ServiceAccounts",
        _subjects("ServiceAccount"),
        "The service accounts to which it grants it.",
        priority=WIDE,
    ),
)


def _param_kind(policy: Document, _: datetime) -> str:
    reference = mapping(policy, "spec", "paramKind")
    return f"{text(reference, 'apiVersion')}/{text(reference, 'kind')}" if reference else UNSET


def _param_ref(binding: Document, _: datetime) -> str:
    reference = mapping(binding, "spec", "paramRef")
    if text(reference, "name"):
        return f"{text(reference, 'namespace') or '*'}/{text(reference, 'name')}"
    return selector_text(mapping(reference, "selector")) or UNSET


POLICIES = (
    NAME,
    Column("Validations", size(("spec", "validations")), "How many it has.", "integer"),
    Column("ParamKind", _param_kind, "The kind of its parameters."),
    AGE,
)
MUTATING_POLICIES = (
    NAME,
    Column("Mutations", size(("spec", "mutations")), "How many it has.", "integer"),
    Column("ParamKind", _param_kind, "The kind of its parameters."),
    AGE,
)
POLICY_BINDINGS = (
    NAME,
    Column("PolicyName", field("spec", "policyName"), "The policy that it applies."),
    Column("ParamRef", _param_ref, "The parameters that it gives the policy."),
    AGE,
)
