"""The columns of ingresses, network policies, slices of endpoints and service addresses."""

from __future__ import annotations

from datetime import datetime

from ..types.api_documents import Document
from .column import (
    AGE,
    NAME,
    NONE,
    Column,
    entries,
    field,
    label_selector,
    mapping,
    number,
    strings,
    text,
    value_at,
)

SHOWN = 3  # hosts, ports or addresses of which there may be many
BALANCER_WIDTH = 16  # characters of the addresses of an ingress
DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"


def _hosts(ingress: Document, _: datetime) -> str:
    rules = entries(ingress, "spec", "rules")
    hosts = [host for rule in rules[:SHOWN] if (host := text(rule, "host"))]
    if not hosts:
        return "*"
    more = len(rules) - SHOWN
    return ",".join(hosts) + (f" + {more} more..." if more > 0 else "")


def _balancer(ingress: Document, _: datetime) -> str:
    points = entries(ingress, "status", "loadBalancer", "ingress")
    found = {text(point, "ip") or text(point, "hostname") for point in points} - {""}
    shown = ",".join(sorted(found))
    return f"{shown[: BALANCER_WIDTH - 3]}..." if len(shown) > BALANCER_WIDTH else shown


def _open_ports(ingress: Document, _: datetime) -> str:
    return "80, 443" if entries(ingress, "spec", "tls") else "80"


INGRESSES = (
    NAME,
    Column("Class", field("spec", "ingressClassName", default=NONE), "Who serves it."),
    Column("Hosts", _hosts, "The hosts that its rules are for."),
    Column("Address", _balancer, "Where it is reached."),
    Column("Ports", _open_ports, "The ports that it opens."),
    AGE,
)


def _class_name(class_: Document, _: datetime) -> str:
    name = text(class_, "metadata", "name")
    is_default = text(mapping(class_, "metadata", "annotations"), DEFAULT_CLASS) == "true"
    return f"{name} (default)" if is_default else name


def _parameters(class_: Document, _: datetime) -> str:
    reference = mapping(class_, "spec", "parameters")
    if not reference:
        return NONE
    kind, group = text(reference, "kind"), text(reference, "apiGroup")
    return f"{kind}{f'.{group}' if group else ''}/{text(reference, 'name')}"


INGRESS_CLASSES = (
    Column("Name", _class_name, NAME.description, format="name"),
    Column("Controller", field("spec", "controller"), "Who handles the class."),
    Column("Parameters", _parameters, "An object with further parameters."),
    AGE,
)
NETWORK_POLICIES = (
    NAME,
    Column("Pod-Selector", label_selector("spec", "podSelector"), "The pods that it is for."),
    AGE,
)


def _ranges(document: Document, _: datetime) -> str:
    return ",".join(strings(document, "spec", "cidrs"))


SERVICE_RANGES = (NAME, Column("CIDRs", _ranges, "The ranges of addresses of services."), AGE)


def _parent(address: Document, _: datetime) -> str:
    reference = mapping(address, "spec", "parentRef")
    if not reference:
        return NONE
    resource, group = text(reference, "resource"), text(reference, "group")
    kind = f"{resource}.{group}".removesuffix(".").lower()
    namespace = text(reference, "namespace")
    return "/".join(filter(None, (kind, namespace, text(reference, "name"))))


ADDRESSES = (NAME, Column("ParentRef", _parent, "Whose address it is."), AGE)


def _shortened(values: list[str]) -> str:
    if not values:
        return "<unset>"
    shown, more = ",".join(values[:SHOWN]), len(values) - SHOWN
    return f"{shown} + {more} more..." if more > 0 else shown


def _slice_ports(slice_: Document, _: datetime) -> str:
    return _shortened(
        [
            text(port, "name") if value_at(port, "port") is None else str(number(port, "port"))
            for port in entries(slice_, "ports")
        ]
    )


def _slice_endpoints(slice_: Document, _: datetime) -> str:
    endpoints = entries(slice_, "endpoints")
    return _shortened([each for endpoint in endpoints for each in strings(endpoint, "addresses")])


ENDPOINT_SLICES = (
    NAME,
    Column("AddressType", field("addressType"), "The kind of its addresses."),
    Column("Ports", _slice_ports, "The ports of its endpoints."),
    Column("Endpoints", _slice_endpoints, "The addresses of its endpoints."),
    AGE,
)
