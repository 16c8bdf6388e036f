"""Rules for ingresses, network policies, ranges of service addresses and their addresses."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from berth.actors.scheduling.kube.names import dns_label, dns_subdomain

from .fields import IMMUTABLE, Document, forbidden, invalid, required, unsupported
from .role_rules import path_segment
from .value_forms import cidr, ip, port_name_messages

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_PATH_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_PATH_ENDS = ("/..", "/.")
_POLICY_TYPES = ("Ingress", "Egress")
_CLASS = "kubernetes.io/ingress.class"


def ingress(document: Document, before: Document | None) -> Iterator[str]:
    """Checks that the class of a new ingress is the same in its annotation and in its field."""
    named = (document.get("spec") or {}).get("ingressClassName")
    annotated = ((document.get("metadata") or {}).get("annotations") or {}).get(_CLASS)
    if before is None and None not in (named, annotated) and named != annotated:
        detail = "must match `ingressClassName` when both are specified"
        yield invalid(f"annotations.{_CLASS}", annotated, detail)


def ingress_spec(path: str, spec: Document) -> Iterator[str]:
    backend = spec.get("defaultBackend")
    if not spec.get("rules") and backend is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        yield invalid(path, spec.get("rules"), detail)
    if backend is not None:
        yield from _backend(f"{path}.defaultBackend", backend)


def ingress_path(path: str, value: Document) -> Iterator[str]:
    """Checks a path of an ingress and what is behind it."""
    type_, text = value.get("pathType"), value.get("path") or ""
    if type_ is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if type_ not in _PATH_TYPES:
        yield unsupported(f"{path}.pathType", type_, _PATH_TYPES)
    elif text[:1] != "/" and (text or type_ != "ImplementationSpecific"):
        yield invalid(f"{path}.path", text, "must be an absolute path")
    if type_ in ("Exact", "Prefix"):
        for part in _PATH_PARTS:
            if part in text:
                yield invalid(f"{path}.path", text, f"must not contain '{part}'")
        for end in _PATH_ENDS:
            if text.endswith(end):
                yield invalid(f"{path}.path", text, f"cannot end with '{end}'")
    yield from _backend(f"{path}.backend", value.get("backend") or {})


def _backend(path: str, backend: Document) -> Iterator[str]:
    """Checks that a backend is a service with one port, or another object."""
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _reference(f"{path}.resource", resource)
    elif service is not None:
        yield from _service(path, service)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _service(path: str, service: Document) -> Iterator[str]:
    name, port = service.get("name") or "", service.get("port") or {}
    place, number = f"{path}.service", port.get("number") or 0
    if not name:
        yield required(f"{place}.name")
    else:
        yield from (invalid(f"{place}.name", name, why) for why in dns_label(name))
    named = port.get("name") or ""
    if named and number:
        yield invalid(path, "", "cannot set both port name & port number")
    elif named:
        messages = port_name_messages(named)
        yield from (invalid(f"{place}.port.name", named, why) for why in messages)
    elif not number:
        yield required(path, "port name or number is required")
    elif not 1 <= number <= 65535:
        yield invalid(f"{place}.port.number", number, "must be between 1 and 65535, inclusive")


def _reference(path: str, reference: Document) -> Iterator[str]:
    """Checks a reference to an object in the same namespace."""
    group = reference.get("apiGroup")
    if group is not None:
        yield from (invalid(f"{path}.apiGroup", group, why) for why in dns_subdomain(group))
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        if not value:
            yield required(f"{path}.{field}")
        else:
            yield from (invalid(f"{path}.{field}", value, why) for why in path_segment(value))


def class_parameters(path: str, reference: Document) -> Iterator[str]:
    """Checks that parameters have a namespace if, and only if, they are in one."""
    scope, namespace = reference.get("scope"), reference.get("namespace")
    place = f"{path}.namespace"
    if scope == "Namespace":
        if namespace is None:
            yield required(place, "`parameters.scope` is set to 'Namespace'")
        else:
            yield from (invalid(place, namespace, why) for why in dns_label(namespace))
    elif scope == "Cluster" and namespace is not None:
        yield forbidden(place, "`parameters.scope` is set to 'Cluster'")


def ingress_status(document: Document, _before: Document) -> Iterator[str]:
    balancer = (document.get("status") or {}).get("loadBalancer") or {}
    for i, point in enumerate(balancer.get("ingress") or ()):
        path, host = f"status.loadBalancer.ingress[{i}]", point.get("hostname") or ""
        if point.get("ip"):
            yield from ip(f"{path}.ip", point["ip"])
        if host:
            yield from (invalid(f"{path}.hostname", host, why) for why in dns_subdomain(host))
            if not ip("", host):
                detail = "must be a DNS name, not an IP address"
                yield invalid(f"{path}.hostname", host, detail)


def network_policy(path: str, spec: Document) -> Iterator[str]:
    """Checks the types of a network policy."""
    types = spec.get("policyTypes") or ()
    if len(types) > len(_POLICY_TYPES):
        yield invalid(f"{path}.policyTypes", types, "may not specify more than two policyTypes")
        return
    for i, type_ in enumerate(types):
        if type_ not in _POLICY_TYPES:
            yield unsupported(f"{path}.policyTypes[{i}]", type_, _POLICY_TYPES)


def policy_port(path: str, value: Document) -> Iterator[str]:
    """Checks the end of a range of ports."""
    first, last, place = value.get("port"), value.get("endPort"), f"{path}.endPort"
    if last is None:
        return
    if first is None:
        yield invalid(place, last, "may not be specified when `port` is not specified")
    elif isinstance(first, str):
        yield invalid(place, last, "may not be specified when `port` is non-numeric")
    else:
        if last < first:
            yield invalid(place, first, "must be greater than or equal to `port`")
        if not 1 <= last <= 65535:
            yield invalid(place, last, "must be between 1 and 65535, inclusive")


def policy_peer(path: str, peer: Document) -> Iterator[str]:
    """Checks that a peer is either a range of addresses or selected by labels."""
    given = [peer.get(field) for field in ("podSelector", "namespaceSelector", "ipBlock")]
    number = sum(each is not None for each in given)
    if not number:
        yield required(path, "must specify a peer")
    elif number > 1 and given[-1] is not None:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def ip_block(path: str, block: Document) -> Iterator[str]:
    """Checks that exceptions are in their range and smaller."""
    whole = block.get("cidr") or ""
    if not whole or cidr("", whole):
        return
    for i, part in enumerate(block.get("except") or ()):
        if not cidr("", part) and not _is_within(part, whole):
            yield invalid(f"{path}.except[{i}]", part, "must be a strict subset of `cidr`")


def _is_within(part: str, whole: str) -> bool:
    inner, outer = ip_network(part), ip_network(whole)
    same_family = inner.version == outer.version
    is_smaller = inner.prefixlen > outer.prefixlen
    return same_family and is_smaller and inner.network_address in outer


def service_range(spec: Document, before: Document | None) -> Iterator[str]:
    """Checks the addresses of a ServiceCIDR: one range of each family. An update may only add the
    second one.
    """
    ranges, was = spec.get("cidrs") or [], (before or {}).get("cidrs") or []
    path = "spec.cidrs"
    if before is None or (len(was) == 1 and len(ranges) == 2):
        if before is not None and ranges[0] != was[0]:
            yield invalid(f"{path}[0]", ranges[0], IMMUTABLE)
        yield from _ranges(path, ranges)
    elif len(was) != len(ranges):
        yield invalid(path, ranges, IMMUTABLE)
    else:
        for i, (after, each) in enumerate(zip(ranges, was, strict=True)):
            if after != each:
                yield invalid(f"{path}[{i}]", after, IMMUTABLE)


def _ranges(path: str, ranges: list[str]) -> Iterator[str]:
    if not ranges:
        yield required(path, "at least one CIDR required")
        return
    if len(ranges) > 2:
        yield invalid(path, {"CIDRs": ranges}, "may only hold up to 2 values")
        return
    wrong = [why for i, each in enumerate(ranges) for why in cidr(f"{path}[{i}]", each)]
    yield from wrong
    if not wrong and len(ranges) == 2 and len({":" in each for each in ranges}) == 1:
        detail = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        yield invalid(path, ranges, detail)


def address(document: Document) -> list[str]:
    """Checks that the name of an IPAddress is an address."""
    name = (document.get("metadata") or {}).get("name") or ""
    return ip("metadata.name", name) if name else []
